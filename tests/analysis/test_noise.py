"""Drift between anchors."""

from __future__ import annotations

from dataclasses import replace

from factories import make_record

from xla_sweeps.analysis import noise
from xla_sweeps.schema.record import Record


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
