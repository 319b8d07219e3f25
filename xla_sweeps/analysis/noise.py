"""Speed of the machine by its anchors: drift within a sweep, one day against another. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.estimates import figure
from xla_sweeps.analysis.interval import built_in, contrast, is_noisy
from xla_sweeps.analysis.measured import samples_of
from xla_sweeps.analysis.pool import NOTHING, Pool
from xla_sweeps.schema.columns import ANCHOR_TAG
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import Figure

DRIFT = 0.02
"""Relative change of an anchor's call; where its whole interval is past it, trials are flagged."""

Span = tuple[str, str]
"""ISO times of two neighbouring anchors."""


def level_of(*records: Record) -> Figure | None:
    """Time of a call in the baseline blocks of a trial's records; None where they are too few."""
    label = next((label for record in records for label in record.modes), "")
    return figure("call", samples_of(records), label)


def change(before: Figure, after: Figure) -> tuple[float, float]:
    """The interval of how much longer a call took, as a log, within these two processes."""
    error = math.sqrt(before.within + after.within)
    interval = stats.interval_about(after.mean - before.mean, error)
    return interval.low, interval.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """Speed of the machine on the second side, over the first, by so many anchors on each.

    `shift` is the log of it, its standard error and the degrees of freedom of that.
    """

    shift: tuple[float, float, float]
    anchors: tuple[int, int]

    @property
    def note(self) -> str:
        """The change, for a person."""
        middle, error, freedom = self.shift
        ends = stats.interval_about(middle, error, freedom=freedom)
        low, value, high = (100 * math.expm1(end) for end in (ends.low, middle, ends.high))
        return (
            f"the machine itself changed by {value:+.1f} % ({low:+.1f} to {high:+.1f} %, "
            f"{self.anchors[0]} and {self.anchors[1]} anchors): subtracted from throughputs"
        )


def days_of(
    first: Mapping[str, Sequence[Record]],
    second: Mapping[str, Sequence[Record]],
    pools: Mapping[str, Pool],
) -> dict[bool, Day]:
    """The machine's speed by the anchor trials that two sets of results have in common.

    By whether they are `is_noisy`: where the host sets the pace, the day is another one than where
    the device does.
    """
    days: dict[bool, Day] = {}
    for trial, records in first.items():
        before, after = level_of(*records), level_of(*second.get(trial, ()))
        if before is None or after is None:
            continue
        prior = pools.get(trial, NOTHING).prior(before)
        result = contrast((after, prior), (before, prior), floor=0.0)
        shift = (result.interval.estimate, result.error, result.freedom)
        day = Day(shift=shift, anchors=(before.replicates, after.replicates))
        days.setdefault(is_noisy(before), day)
    return days


def is_anchor(record: Record) -> bool:
    """True for a record of the anchor trial."""
    return ANCHOR_TAG in record.tracker.tags


def spans_of(anchors: Iterable[tuple[str, str, str, Figure]]) -> dict[str, list[Span]]:
    """The spans between neighbouring anchors over which a device's speed changed, by device."""
    by_trial: dict[tuple[str, str], list[tuple[str, Figure]]] = {}
    for device, trial, start, level in anchors:
        if start:
            by_trial.setdefault((device, trial), []).append((start, level))
    spans: dict[str, list[Span]] = {}
    for (device, _), measured in by_trial.items():
        ordered = sorted(measured, key=lambda one: one[0])
        for (begun, before), (ended, after) in itertools.pairwise(ordered):
            assumed = built_in("call", on_gpu=before.on_gpu)
            interval = contrast((before, assumed), (after, assumed), floor=0.0).interval
            if max(interval.low, -interval.high) > math.log1p(DRIFT):
                spans.setdefault(device, []).append((begun, ended))
    return spans


def is_within(start: str, spans: Iterable[Span]) -> bool:
    """True if a moment lies in any of the spans."""
    return any(begun <= start <= ended for begun, ended in spans)


def device_of(record: Record) -> str:
    """One string for each device of each machine."""
    device = record.device.get("uuid") or record.device.get("name", "")
    return f"{record.environment.get('host', '')} {device}"
