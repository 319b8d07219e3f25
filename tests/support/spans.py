"""Times at which trials ran and measured, from their records."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import combinations

from xla_sweeps.schema.record import Record


def ran(record: Record) -> tuple[float, float]:
    """Beginning and end of a trial, seconds."""
    times = map(datetime.fromisoformat, (record.started_at, record.finished_at))
    begun, ended = (time.timestamp() for time in times)
    return begun, ended


def measured(record: Record) -> tuple[float, float]:
    """Beginning of its first round and end of its last one, ns."""
    return record.rounds[0].started_ns, record.rounds[-1].finished_ns


def overlaps(spans: Iterable[tuple[float, float]]) -> int:
    """Number of pairs of spans that have time in common."""
    return sum(one[0] < other[1] and other[0] < one[1] for one, other in combinations(spans, 2))
