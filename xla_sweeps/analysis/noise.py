"""Speed of the machine by its anchors: drift within a sweep, one day against another. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.estimates import counting
from xla_sweeps.analysis.interval import (
    NORMAL_95,
    Prior,
    built_in,
    contrast,
    error_within,
    figure_of,
)
from xla_sweeps.analysis.pool import NOTHING, Pool
from xla_sweeps.analysis.summary import samples_of
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import Figure

ANCHOR_TAG = "anchor"

DRIFT = 0.02
"""Relative change of an anchor's call; where its whole interval is past it, trials are flagged."""

Span = tuple[str, str]
"""ISO times of two neighbouring anchors."""


def level_of(record: Record) -> Figure | None:
    """Time of a call in a record's baseline blocks; None where it has too few rounds."""
    label = next(iter(record.modes), "")
    blocks, _ = counting(samples_of([record]), label)
    if not blocks:
        return None
    interval = stats.signed_rank_interval(np.log(blocks[0][:, 0]))
    error, count = error_within(interval), len(blocks[0])
    level = figure_of("call", (label,), [interval.estimate], [error], [count])
    return msgspec.structs.replace(level, on_gpu=record.device.get("kind") == "gpu")


def change(before: Figure, after: Figure) -> tuple[float, float]:
    """The interval of how much longer a call took, as a log, within these two processes."""
    reach = NORMAL_95 * math.sqrt(before.within + after.within)
    return after.mean - before.mean - reach, after.mean - before.mean + reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """Speed of the machine on the second side, over the first, by its anchors.

    Attributes:
        shift: the log of it, its standard error and the degrees of freedom of that.
        anchors: how many were measured on each side.
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


def day_of(
    first: Mapping[str, Sequence[Record]],
    second: Mapping[str, Sequence[Record]],
    pools: Mapping[str, Pool],
) -> Day | None:
    """The machine's speed by the anchor trials that two sets of results have in common.

    None where they have none: an anchor of other software or another device is another trial.

    Args:
        first: records of one side's anchors, by trial.
        second: of the other's.
        pools: what other trials of the first side say, by trial.
    """
    for trial, records in first.items():
        sides = [records, second.get(trial, ())]
        figures = []
        for side in sides:
            levels = [level for record in side if (level := level_of(record)) is not None]
            if levels:
                errors = [math.sqrt(level.within) for level in levels]
                values = [level.mean for level in levels]
                figures.append(figure_of("call", levels[0].labels, values, errors))
        if len(figures) == 2:
            prior = pools.get(trial, NOTHING).prior(figures[0])
            result = contrast(*((figure, prior) for figure in reversed(figures)), floor=0.0)
            shift = (result.interval.estimate, result.error, result.freedom)
            return Day(shift=shift, anchors=(figures[0].replicates, figures[1].replicates))
    return None


def is_anchor(record: Record) -> bool:
    """True for a record of the anchor trial."""
    return ANCHOR_TAG in record.tracker.tags


def spans_of(
    anchors: Iterable[tuple[str, str, Figure]], prior: Prior | None = None
) -> dict[str, list[Span]]:
    """The spans between neighbouring anchors over which a device's speed changed, by device.

    Args:
        anchors: device, start and `level_of` each anchor.
        prior: how processes differ anyway; the built-in prior if it is not given.
    """
    prior = prior or built_in("call")
    by_device: dict[str, list[tuple[str, Figure]]] = {}
    for device, start, level in anchors:
        if start:
            by_device.setdefault(device, []).append((start, level))
    spans: dict[str, list[Span]] = {}
    for device, measured in by_device.items():
        ordered = sorted(measured, key=lambda one: one[0])
        for (begun, before), (ended, after) in itertools.pairwise(ordered):
            interval = contrast((before, prior), (after, prior), floor=0.0).interval
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
