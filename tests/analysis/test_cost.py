"""The price of a million samples."""

from __future__ import annotations

import pytest

from xla_sweeps.analysis.cost import costs_of, per_million


def test_a_million_samples_cost_the_hours_that_they_take() -> None:
    assert per_million(1000.0, 3.6) == pytest.approx(1.0)
    assert per_million(None, 3.6) is None


def test_the_fastest_bound_is_the_cheapest_and_a_missing_interval_stays_missing() -> None:
    row = {"throughput_samples_per_s": 1000.0, "throughput_low": 500.0, "throughput_high": 2000.0}
    assert costs_of(row, 3.6) == pytest.approx(
        {"cost_per_million": 1.0, "cost_per_million_low": 0.5, "cost_per_million_high": 2.0}
    )
    published = {**row, "throughput_low": None, "throughput_high": None}
    assert costs_of(published, 3.6)["cost_per_million_low"] is None
