"""The price of a million samples, from a price per hour and a measured throughput. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FROM = {
    "cost_per_million": "throughput_samples_per_s",
    "cost_per_million_low": "throughput_high",
    "cost_per_million_high": "throughput_low",
}
"""The throughput that each column of the price is made from: the fastest is the cheapest."""

COST_COLUMNS = tuple(_FROM)

THROUGHPUTS = tuple(_FROM.values())


def per_million(samples_per_s: float | None, price_per_hour: float) -> float | None:
    """The price of a million samples; None where no throughput is known."""
    return price_per_hour / 3600 * 1e6 / samples_per_s if samples_per_s else None


def costs_of(row: Mapping[str, Any], price_per_hour: float) -> dict[str, float | None]:
    """The price of a million samples and the bounds of its 95 % interval, for a row's document."""
    return {name: per_million(row[column], price_per_hour) for name, column in _FROM.items()}
