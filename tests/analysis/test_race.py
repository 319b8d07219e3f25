"""The race of settings, replayed on grids whose figures are known."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from xla_sweeps.analysis.race import Setting, Way, leading, settings_left

AXES: dict[str, list[Any]] = {
    "precision": ["float32", "mixed_bfloat16"],
    "threads.intra": [2, 1],
    "batch_size": [4, 1, 16, 64],
}
MODES = ("graph", "xla")
START: Setting = (("precision", "float32"), ("threads.intra", 2), ("batch_size", 4))


def grid(seed: int, *, width: float) -> dict[Setting, list[Way]]:
    """Every setting of a planted machine, whose axes multiply, with intervals of that width."""
    draw = random.Random(seed)
    factors = {(axis, value): math.exp(draw.gauss(0, 0.5)) for axis in AXES for value in AXES[axis]}
    modes = {mode: math.exp(draw.gauss(0, 0.5)) for mode in MODES}
    made: dict[Setting, list[Way]] = {}
    for values in itertools.product(*AXES.values()):
        setting: Setting = tuple(zip(AXES, values, strict=True))
        rate = 100 * math.prod(factors[pair] for pair in setting)
        made[setting] = [
            _way(setting, mode, rate * modes[mode] * math.exp(draw.gauss(0, width / 4)), width)
            for mode in MODES
        ]
    return made


def _way(setting: Setting, mode: str, rate: float, width: float) -> Way:
    low, high = rate * math.exp(-width / 2), rate * math.exp(width / 2)
    return Way(setting=setting, mode=mode, rate=rate, low=low, high=high)


def race(machine: Mapping[Setting, Sequence[Way]]) -> tuple[list[Way], int]:
    measured: dict[Setting, Sequence[Way]] = {}
    while left := settings_left(measured, AXES, START):
        measured |= {setting: machine[setting] for setting in left}
    return leading(way for ways in measured.values() for way in ways), len(measured)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_of_a_whole_grid_leads_the_race_that_tried_less(seed: int) -> None:
    machine = grid(seed, width=0.02)
    best = max((way for ways in machine.values() for way in ways), key=lambda way: way.rate)
    ahead, tried = race(machine)
    assert best.name in {way.name for way in ahead}
    assert tried < len(machine)


def test_a_way_is_dropped_by_the_bounds_of_intervals_and_never_by_a_point_estimate() -> None:
    low, high = (_way(START, mode, rate, 0.5) for mode, rate in zip(MODES, (90, 100), strict=True))
    assert leading([low, high]) == [high, low]
    assert leading([_way(START, "graph", 50, 0.5), high]) == [high]


def test_fast_and_wrong_leads_nothing() -> None:
    wrong = Way(setting=START, mode="xla", why_not="its outputs do not agree")
    right = _way(START, "graph", 50, 0.1)
    assert leading([wrong, right]) == [right]
    assert leading([wrong]) == []


def test_a_setting_that_is_refused_is_not_tried_again() -> None:
    machine: dict[Setting, Sequence[Way]] = dict(grid(0, width=0.02))
    refused = [one for one in machine if dict(one)["precision"] == "mixed_bfloat16"]
    machine |= {one: [Way(setting=one, mode="", why_not="no such precision")] for one in refused}
    ahead, tried = race(machine)
    assert all(dict(way.setting)["precision"] == "float32" for way in ahead)
    assert tried <= 1 + 1 + 2 + 8
