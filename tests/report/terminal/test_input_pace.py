"""Which of input and step sets the pace of `fit` is said as far as intervals tell it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xla_sweeps.report.terminal.tables import _slower
from xla_sweeps.schema.columns import ModeColumns


@pytest.mark.parametrize(
    ("pipeline", "step", "said"),
    [
        ((90.0, 110.0), (150.0, 170.0), "the input sets the pace"),
        ((150.0, 170.0), (90.0, 110.0), "the step sets the pace"),
        ((90.0, 160.0), (150.0, 170.0), "too little to tell which of them sets the pace"),
        ((90.0, 110.0), None, "too little to tell which of them sets the pace"),
    ],
)
def test_intervals_that_overlap_tell_nothing(
    pipeline: tuple[float, float], step: tuple[float, float] | None, said: str
) -> None:
    sides = []
    for bounds in (pipeline, step):
        low, high = bounds or (None, None)
        sides.append(replace(ModeColumns(mode="m"), throughput_low=low, throughput_high=high))
    assert _slower(*sides).startswith(said)
