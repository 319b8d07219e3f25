"""The race of settings, replayed on grids whose figures are known."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from factories import make_record

from xla_sweeps.analysis.race import Limits, Setting, Way, leading, settings_left, way_of
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.measurement import Status

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


@pytest.mark.parametrize(
    ("limits", "changes", "why"),
    [
        (Limits(), {}, ""),
        (Limits(latency_ms=300, memory_bytes=2**31), {}, ""),
        (Limits(latency_ms=100), {}, "its calls take up to 259 ms, over the limit"),
        (Limits(memory_bytes=2**29), {}, "it takes 1.00 GiB, over the limit"),
        (Limits(memory_bytes=2**29), {"steady_memory_bytes": None}, "its memory is not known"),
        (Limits(), {"agreement_ok": False}, "its outputs do not agree"),
        (Limits(), {"status": Status.WRONG_RESULT}, "wrong_result"),
    ],
)
def test_what_is_wrong_or_breaks_a_limit_leads_nothing(
    limits: Limits, changes: dict[str, Any], why: str
) -> None:
    mode = msgspec.structs.replace(summarize([make_record(noise=0.001)]).modes[0], **changes)
    made = way_of(START, mode, limits)
    assert made.why_not == why
    right = _way(START, "xla", made.rate / 2, 0.1)
    assert leading([made, right]) == ([right] if why else [made])


@pytest.mark.parametrize(
    ("name", "limits", "why"),
    [
        ("latency_p90_high_ms", Limits(latency_ms=300), "its latency is not known"),
        ("throughput_low", Limits(), "too little was measured of it"),
    ],
)
def test_a_figure_that_is_not_known_keeps_no_limit(name: str, limits: Limits, why: str) -> None:
    mode = summarize([make_record(noise=0.001)]).modes[0]
    unknown: dict[str, Any] = {name: None}
    mode = msgspec.structs.replace(mode, columns=replace(mode.columns, **unknown))
    assert way_of(START, mode, limits).why_not == why


def test_a_setting_that_is_refused_is_not_tried_again() -> None:
    machine: dict[Setting, Sequence[Way]] = dict(grid(0, width=0.02))
    refused = [one for one in machine if dict(one)["precision"] == "mixed_bfloat16"]
    machine |= {one: [Way(setting=one, mode="", why_not="no such precision")] for one in refused}
    ahead, tried = race(machine)
    assert all(dict(way.setting)["precision"] == "float32" for way in ahead)
    assert tried <= 1 + 1 + 2 + 8
