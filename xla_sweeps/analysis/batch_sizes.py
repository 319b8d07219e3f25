"""Throughput, latency and memory of each mode by batch size, and the size from which it is flat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from xla_sweeps.schema.measurement import OUT_OF_MEMORY, Status
from xla_sweeps.schema.record import Record, outcome_of
from xla_sweeps.schema.row import TrialSummary

FLAT = 0.05
"""Share of the most throughput that the knee is below it, and the least gain of a larger size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A mode at a batch size; without figures where `status` says why.

    Attributes:
        throughput: samples/s, with the bounds `low` and `high` of its 95 % interval.
        latency_ms: median of one call with a synchronization.
        memory_bytes: the most that steady calls need, weights included; None if unknown.
        contaminated: whether other load disturbed the trial.
    """

    label: str
    batch_size: int
    status: Status
    throughput: float | None = None
    low: float | None = None
    high: float | None = None
    latency_ms: float | None = None
    memory_bytes: int | None = None
    contaminated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """The batch size from which on a mode is within `FLAT` of its most throughput.

    Attributes:
        until: the size up to which it is, where all larger ones are slower; else None.
        dips: larger sizes that are slower, though still larger ones are not.
        earliest: a smaller size from which on intervals reach as far, or the same size.
        most: samples/s at `most_at`, of all sizes that were measured.
        rises: whether the largest size is the best by more than `FLAT`: there may be more.
        failed_at: the smallest size that ran out of memory, or None.
    """

    label: str
    batch_size: int
    until: int | None
    dips: tuple[int, ...]
    earliest: int
    most: float
    most_at: int
    rises: bool
    failed_at: int | None


def points_of(summary: TrialSummary, records: Sequence[Record]) -> list[Point]:
    """The modes of a trial; one that was not reached has the status of the replicate."""
    points, whole = [], outcome_of(records[-1])
    for mode in summary.modes:
        status = whole if mode.status is Status.SKIPPED else mode.status
        point = Point(label=mode.label, batch_size=summary.trial.batch_size, status=status)
        if status is Status.OK:
            point = replace(
                point,
                throughput=mode.columns.throughput_samples_per_s,
                low=mode.columns.throughput_low,
                high=mode.columns.throughput_high,
                latency_ms=mode.columns.latency_p50_ms,
                memory_bytes=mode.steady_memory_bytes,
                contaminated=str(Status.CONTAMINATED) in summary.flags,
            )
        points.append(point)
    return points


def knees_of(points: Iterable[Point]) -> list[Knee]:
    """The knee of each mode that has a throughput, in the order of their first points."""
    by_label: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda point: point.batch_size):
        by_label.setdefault(point.label, []).append(point)
    knees = []
    for label, each in by_label.items():
        rates = {point.batch_size: point.throughput for point in each if point.throughput}
        if not rates:
            continue
        most_at = max(rates, key=lambda size: rates[size])
        sizes, values = list(rates), list(rates.values())
        highs = [one.high or 0.0 for one in each if one.throughput]
        enough = (1 - FLAT) * rates[most_at]
        first = _start_of_run(values, sizes.index(most_at), least=enough)
        slower = [size for size in sizes[first:] if rates[size] < enough]
        last = max(size for size in sizes if rates[size] >= enough)
        *before, largest = values
        knees.append(
            Knee(
                label=label,
                batch_size=sizes[first],
                until=None if last == sizes[-1] else last,
                dips=tuple(size for size in slower if size < last),
                earliest=sizes[_start_of_run(highs, first, least=enough)],
                most=rates[most_at],
                most_at=most_at,
                rises=bool(before) and largest > (1 + FLAT) * max(before),
                failed_at=next(
                    (one.batch_size for one in each if one.status in OUT_OF_MEMORY), None
                ),
            )
        )
    return knees


def _start_of_run(values: Sequence[float], place: int, *, least: float) -> int:
    """The first place from which on to this one all values are at least so much."""
    while place > 0 and values[place - 1] >= least:
        place -= 1
    return place


def is_done(points: Sequence[Point], *, to_the_limit: bool) -> bool:
    """True if no larger size is worth a trial.

    Memory ran out in every mode, or nothing ran for another reason; unless `to_the_limit`, also if
    in two sizes in a row no mode gained `FLAT`.
    """
    sizes = sorted({point.batch_size for point in points})
    if not any(point.throughput for point in points if point.batch_size == sizes[-1]):
        return True
    if to_the_limit or len(sizes) < 3:
        return False
    for label in {point.label for point in points}:
        rates = {one.batch_size: one.throughput or 0.0 for one in points if one.label == label}
        most = max(rates.get(size, 0.0) for size in sizes[:-2])
        if most and any(rates.get(size, 0.0) / most >= 1 + FLAT for size in sizes[-2:]):
            return False
    return True
