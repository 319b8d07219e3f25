"""The price of a million samples."""

from __future__ import annotations

import pyarrow
import pytest

from xla_sweeps.analysis.cost import COSTS, per_million
from xla_sweeps.store.table import add_price


def test_a_million_samples_cost_the_hours_that_they_take() -> None:
    assert per_million(1000.0, 3.6) == pytest.approx(1.0)
    assert per_million(None, 3.6) is None


def test_the_fastest_bound_is_the_cheapest_and_a_missing_interval_stays_missing() -> None:
    rates = {"throughput_samples_per_s": 1000.0, "throughput_low": 500.0, "throughput_high": 2000.0}
    table = add_price(pyarrow.table({name: [rate, None] for name, rate in rates.items()}), 3.6)
    costs = {name: table[name].to_pylist() for name in COSTS}
    assert costs == {
        "cost_per_million": [pytest.approx(1.0), None],
        "cost_per_million_low": [pytest.approx(0.5), None],
        "cost_per_million_high": [pytest.approx(2.0), None],
    }
