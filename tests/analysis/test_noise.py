"""Drift between anchors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from factories import make_record, make_rounds

from xla_sweeps.analysis import noise
from xla_sweeps.schema.record import Record


def anchor(minute: int, latency_s: float, device: str = "d") -> Record:
    made = make_record({"graph": latency_s, "graph_2": latency_s})
    return replace(
        made,
        started_at=f"2026-01-01T00:{minute:02d}:00+00:00",
        device={"name": device},
        tracker=replace(made.tracker, tags=("anchor",)),
    )


def measured(minute: int, device: str = "d") -> Record:
    made = make_record({"graph": 0.1, "xla": 0.1})
    return replace(made, started_at=f"2026-01-01T00:{minute:02d}:00+00:00", device={"name": device})


def spans_of(anchors: Iterable[Record]) -> dict[str, list[noise.Span]]:
    """The spans over which these anchors of one trial differ."""
    return noise.spans_of(
        (noise.device_of(record), "a", record.started_at, level)
        for record in anchors
        if (level := noise.level_of(record)) is not None
    )


def test_noise_that_hides_a_change_is_no_drift() -> None:
    def spans(*noises: float) -> dict[str, list[noise.Span]]:
        return spans_of(
            replace(anchor(number, 0.1 + 0.03 * number), rounds=made.rounds)
            for number, made in enumerate(
                make_record(
                    {"graph": 0.1 + 0.03 * number, "graph_2": 0.1}, noise=spread, seed=number
                )
                for number, spread in enumerate(noises)
            )
        )

    assert spans(0.001, 0.001)
    assert not spans(0.4, 0.4)


def test_contaminated_rounds_and_too_few_tell_nothing_of_drift() -> None:
    slow = make_rounds({"graph": 0.3, "graph_2": 0.3}, count=6, dirty=range(6))
    clean = make_rounds({"graph": 0.1, "graph_2": 0.1}, count=6)
    level = noise.level_of(replace(anchor(0, 0.1), rounds=(*slow, *clean)))
    assert level is not None
    assert (level.mean, level.within) == pytest.approx((math.log(0.1), 0.0))
    assert noise.level_of(replace(anchor(0, 0.1), rounds=clean[:5])) is None


def test_only_trials_between_anchors_that_differ_are_flagged() -> None:
    levels = (0.100, 0.101, 0.130, 0.131)
    anchors = [anchor(10 * place, level) for place, level in enumerate(levels)]
    spans = spans_of([*anchors, anchor(15, 0.5, "other")])
    changed = ("2026-01-01T00:10:00+00:00", "2026-01-01T00:20:00+00:00")
    assert spans == {f"{anchors[0].environment.get('host', '')} d": [changed]}
    records = [measured(5), measured(15), measured(25), measured(15, "other")]
    places = [(record.started_at, spans.get(noise.device_of(record), ())) for record in records]
    assert [noise.is_within(*place) for place in places] == [False, True, False, False]


@pytest.mark.exhaustive
def test_processes_that_differ_as_processes_do_are_no_drift() -> None:
    source = np.random.default_rng(5)
    for spread in (0.01, 0.02, 0.05):
        called = 0
        for _ in range(200):
            records = [
                anchor(minute, 0.1 * math.exp(source.normal(0, spread))) for minute in (0, 10)
            ]
            called += bool(spans_of(records))
        assert called <= 0.05 * 200, spread


def test_the_day_is_what_the_anchors_of_both_sides_say() -> None:
    first, second = (
        {"a": [anchor(minute, level * (1 + 0.001 * minute)) for minute in range(3)]}
        for level in (0.1, 0.11)
    )
    (day,) = noise.days_of(first, second, {}).values()
    middle, error, freedom = day.shift
    assert middle == pytest.approx(-math.log(1.1), abs=0.002)
    assert 0.001 < error < 0.05
    assert freedom > 4
    assert "changed by -9.1 %" in day.note
    assert noise.days_of(first, {"b": second["a"]}, {}) == {}


def on_gpu(level_s: float, scatter: float, seed: int) -> Record:
    """An anchor of a GPU whose rounds scatter."""
    made = make_record({"graph": level_s, "graph_2": level_s}, noise=scatter, seed=seed)
    return replace(made, device={"name": "g", "kind": "gpu"})


def test_an_anchor_that_the_host_holds_up_and_one_that_the_device_does_have_days_of_their_own() -> (
    None
):
    sides = [
        {
            "host": [on_gpu(0.01 * slower, 0.3, seed + 10 * side) for seed in range(4)],
            "device": [on_gpu(0.1, 0.003, seed + 10 * side) for seed in range(4)],
        }
        for side, slower in enumerate((1.0, 1.5))
    ]
    days = noise.days_of(sides[0], sides[1], {})
    assert set(days) == {False, True}
    assert days[True].shift[0] < -0.2
    assert days[False].shift[0] == pytest.approx(0, abs=0.005)
    assert days[False].shift[1] < 0.01 < 0.05 < days[True].shift[1]


def test_anchors_of_two_kinds_are_no_drift_of_each_other() -> None:
    records = [("host", 0, 0.01), ("device", 1, 0.1), ("host", 30, 0.01), ("device", 31, 0.1)]
    levels = [
        ("d", trial, made.started_at, level)
        for trial, minute, level_s in records
        if (level := noise.level_of(made := anchor(minute, level_s)))
    ]
    assert len(levels) == 4
    assert noise.spans_of(levels) == {}
