"""Joules of a sample by mode, with their intervals, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from factories import make_outcome, make_record
from headline_rows import headline

from xla_sweeps.schema.columns import ModeColumns
from xla_sweeps.schema.measurement import Energy, Metered
from xla_sweeps.schema.record import Record

BATCH = 4


def metered(joules: Sequence[float], *, calls: int = 100, dirty: str = "") -> tuple[Metered, ...]:
    return tuple(Metered(joules=each, elapsed_s=5.0, calls=calls, dirty=dirty) for each in joules)


def record(replicate: int = 0, *, drift: float = 1.0, dirty: str = "") -> Record:
    """XLA takes half the time and twice the power: a graph's joules."""
    passes = {
        "graph": metered([398 * drift, 400, 402], dirty=dirty),
        "xla": metered([398 * drift, 400, 402], calls=200, dirty=dirty),
    }
    times = {"graph": 0.2, "xla": 0.1}
    return make_record(
        modes={label: make_outcome(each, energy=passes[label]) for label, each in times.items()},
        energy=Energy(counter="GPU", idle=metered([100, 101, 99], calls=0)),
        replicate=replicate,
    )


def ends(columns: ModeColumns) -> tuple[float, float]:
    """The interval of the joules of a sample."""
    low, high = columns.joules_per_sample_low, columns.joules_per_sample_high
    assert low is not None
    assert high is not None
    return low, high


def test_joules_are_those_of_a_sample_of_each_mode() -> None:
    columns = headline([record()])
    assert columns.candidate.joules_per_sample == pytest.approx(400 / 200 / BATCH, rel=1e-3)
    assert columns.baseline.joules_per_sample == pytest.approx(400 / 100 / BATCH, rel=1e-3)
    low, high = ends(columns.baseline)
    assert low < 1 < high < 1.2


def test_the_idle_power_stands_beside_them() -> None:
    facts = headline([record()]).provenance
    assert facts.energy == "GPU"
    assert facts.idle_watts == pytest.approx(20, rel=1e-3)
    assert facts.idle_watts_low is not None
    assert facts.idle_watts_low < 20


def test_more_replicates_narrow_the_interval() -> None:
    def width(records: list[Record]) -> float:
        low, high = ends(headline(records).baseline)
        return high / low

    assert width([record(number) for number in range(4)]) < width([record()])
    assert width([record(drift=1.3)]) > width([record()])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"energy": None}, ""),
        ({"energy": Energy(problem="no counter")}, "not available: no counter"),
        ({}, "not available: busy"),
    ],
)
def test_what_is_not_known_is_missing_and_says_why(changes: dict[str, Any], why: str) -> None:
    columns = headline([replace(record(dirty="busy"), **changes)])
    assert columns.provenance.energy == why
    assert columns.candidate.joules_per_sample is None
