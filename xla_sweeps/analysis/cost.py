"""The price of a million samples, from a price per hour and a measured throughput. Pure."""

from __future__ import annotations

COSTS = {
    "cost_per_million": "throughput_samples_per_s",
    "cost_per_million_low": "throughput_high",
    "cost_per_million_high": "throughput_low",
}
"""Columns of the price and of its interval, with the throughput that each is made from."""


def per_million(samples_per_s: float | None, price_per_hour: float) -> float | None:
    """The price of a million samples; None where no throughput is known."""
    return price_per_hour / 3600 * 1e6 / samples_per_s if samples_per_s else None
