"""Drift of the machine between anchor trials. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.estimates import counting
from xla_sweeps.analysis.summary import samples_of
from xla_sweeps.schema.record import Record

ANCHOR_TAG = "anchor"

DRIFT = 0.02
"""Relative change of an anchor's call; where its whole interval is past it, trials are flagged."""

Level = tuple[float, float]
"""Log of seconds a call, and the half-width of its 95 % interval within the process."""

Span = tuple[str, str]
"""ISO times of two neighbouring anchors."""


def level_of(record: Record) -> Level | None:
    """Time of a call in a record's baseline blocks; None where it has too few rounds."""
    blocks, _ = counting(samples_of([record]), next(iter(record.modes), ""))
    if not blocks:
        return None
    interval = stats.signed_rank_interval(np.log(blocks[0][:, 0]))
    return interval.estimate, (interval.high - interval.low) / 2


def change(before: Level, after: Level) -> tuple[float, float]:
    """The interval of how much longer a call took, as a log."""
    apart, reach = after[0] - before[0], math.hypot(before[1], after[1])
    return apart - reach, apart + reach


def is_anchor(record: Record) -> bool:
    """True for a record of the anchor trial."""
    return ANCHOR_TAG in record.tracker.tags


def spans_of(anchors: Iterable[tuple[str, str, Level]]) -> dict[str, list[Span]]:
    """The spans between neighbouring anchors over which a device's speed changed, by device.

    Args:
        anchors: device, start and `level_of` each anchor.
    """
    by_device: dict[str, list[tuple[str, Level]]] = {}
    for device, start, level in anchors:
        if start:
            by_device.setdefault(device, []).append((start, level))
    spans: dict[str, list[Span]] = {}
    for device, measured in by_device.items():
        ordered = sorted(measured)
        for (begun, before), (ended, after) in itertools.pairwise(ordered):
            low, high = change(before, after)
            if max(low, -high) > math.log1p(DRIFT):
                spans.setdefault(device, []).append((begun, ended))
    return spans


def is_within(start: str, spans: Iterable[Span]) -> bool:
    """True if a moment lies in any of the spans."""
    return any(begun <= start <= ended for begun, ended in spans)


def device_of(record: Record) -> str:
    """One string for each device of each machine."""
    device = record.device.get("uuid") or record.device.get("name", "")
    return f"{record.environment.get('host', '')} {device}"
