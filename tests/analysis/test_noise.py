"""Drift between anchors, and the A/A floor."""

from __future__ import annotations

from dataclasses import replace

import pytest
from factories import make_record

from xla_sweeps.analysis import noise
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import ComparisonRow, Verdict


def headline(records: list[Record], **arguments: float) -> ComparisonRow:
    return summarize(records, **arguments).comparisons[0]


def aa_record(trial: int, ratio: float) -> Record:
    return make_record({"graph": 0.1 * ratio, "graph_2": 0.1}, trial_id=f"{trial:016x}")


def test_the_floor_is_the_apparent_difference_of_copies_of_one_mode_on_a_device() -> None:
    rows = [headline([aa_record(index, 1 + 0.01 * index)]) for index in range(5)]
    distances = [noise.aa_distance(row.speedup.value) for row in rows if row.speedup.value]
    assert noise.floor_of(distances) == pytest.approx(0.038, abs=5e-4)
    assert noise.floor_of(distances[:4]) == 0.01
    assert noise.floor_of([0.001] * 5) == 0.01
    assert (
        headline([make_record({"graph": 0.102, "xla": 0.1})], floor=0.038).speedup.verdict
        is Verdict.EQUIVALENT
    )
    assert headline([make_record({"graph": 0.102, "xla": 0.1})]).speedup.verdict is Verdict.FASTER


def anchor(minute: int, latency_s: float, device: str = "d") -> Record:
    made = make_record({"graph": latency_s, "graph_2": latency_s})
    return replace(
        made,
        started_at=f"2026-01-01T00:{minute:02d}:00+00:00",
        device={"name": device},
        config={**made.config, "tracker": {"tags": ["anchor"]}},
    )


def measured(minute: int, device: str = "d") -> Record:
    made = make_record({"graph": 0.1, "xla": 0.1})
    return replace(made, started_at=f"2026-01-01T00:{minute:02d}:00+00:00", device={"name": device})


def test_only_trials_between_anchors_that_differ_are_flagged() -> None:
    anchors = [
        anchor(0, 0.100),
        anchor(10, 0.101),
        anchor(20, 0.110),
        anchor(30, 0.110),
        anchor(15, 0.5, "other"),
    ]
    spans = noise.spans_of(
        (noise.device_of(record), record.started_at, call_s)
        for record in anchors
        if (call_s := noise.call_s(record)) is not None
    )
    assert spans == {
        f"{anchors[0].environment.get('host', '')} d": [
            ("2026-01-01T00:10:00+00:00", "2026-01-01T00:20:00+00:00")
        ]
    }
    flagged = noise.flagged([measured(5), measured(15), measured(25), measured(15, "other")], spans)
    assert ["drift" in record.flags for record in flagged] == [False, True, False, False]
