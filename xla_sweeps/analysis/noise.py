"""What the machine adds by itself: drift between anchor trials, and the A/A floor of verdicts.

Pure.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from xla_sweeps.analysis import speedup
from xla_sweeps.analysis.summary import MIN_FLOOR, summarize
from xla_sweeps.schema.measurement import Flag
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.schema.trial import is_aa_pair

ANCHOR_TAG = "anchor"

DRIFT = 0.02
"""Change of the anchor's latency past which what was measured between is flagged."""

Span = tuple[str, str]
"""ISO times of two neighbouring anchors."""


def call_s(record: Record) -> float | None:
    """The median latency of a call in a record's baseline blocks, seconds.

    None where it has no rounds.
    """
    label = next(iter(record.modes), "")
    calls = [block.call_s for item in record.rounds for block in item.blocks if block.mode == label]
    return statistics.median(calls) if calls else None


def is_anchor(record: Record) -> bool:
    """Whether a record is of the anchor trial."""
    tracker = record.config.get("tracker")
    return isinstance(tracker, Mapping) and ANCHOR_TAG in (tracker.get("tags") or ())


def drifting(anchors: Iterable[Record]) -> dict[str, list[Span]]:
    """The spans between neighbouring anchors over which a device's speed changed by more than 2 %, by device."""
    timed = ((device_of(record), record.started_at, call_s(record)) for record in anchors)
    return spans_of(
        (device, start, seconds) for device, start, seconds in timed if seconds is not None
    )


def spans_of(anchors: Iterable[tuple[str, str, float]]) -> dict[str, list[Span]]:
    """The same from (device, start, seconds a call) of each anchor."""
    by_device: dict[str, list[tuple[str, float]]] = {}
    for device, start, seconds in anchors:
        if start:
            by_device.setdefault(device, []).append((start, seconds))
    spans: dict[str, list[Span]] = {}
    for device, measured in by_device.items():
        ordered = sorted(measured)
        for (begun, before), (ended, after) in itertools.pairwise(ordered):
            if abs(after / before - 1) > DRIFT:
                spans.setdefault(device, []).append((begun, ended))
    return spans


def flagged(records: Sequence[Record], spans: Mapping[str, Sequence[Span]]) -> list[Record]:
    """The records, those measured in a drifting span with the flag `drift`."""
    return [
        replace(record, flags=(*record.flags, Flag.DRIFT))
        if is_within(record.started_at, spans.get(device_of(record), ())) and not is_anchor(record)
        else record
        for record in records
    ]


def is_within(start: str, spans: Iterable[Span]) -> bool:
    """Whether a moment lies in any of the spans."""
    return any(begun <= start <= ended for begun, ended in spans)


def device_of(record: Record) -> str:
    """One string for each device of each machine."""
    return f"{record.environment.get('host', '')} {record.device.get('uuid') or record.device.get('name', '')}"


MIN_AA_PAIRS = 5


def aa_floor(records: Iterable[Record], device: str) -> float | None:
    """The 95th percentile of what A/A pairs on this device seem to differ by.

    None under five pairs.
    """
    by_trial: dict[str, list[Record]] = {}
    for record in records:
        if record.device.get("name") == device:
            by_trial.setdefault(record.trial_id, []).append(record)
    apart = [
        distance
        for group in by_trial.values()
        if any(is_aa_pair(*pair) for pair in speedup.comparison_pairs(list(group[0].modes)))
        for distance in aa_distances(summarize(group).comparisons)
    ]
    return floor_of(apart)


def aa_distances(rows: Iterable[ComparisonRow]) -> list[float]:
    """How far apart, in log speedup, each A/A pair among the rows seems to be."""
    return [
        abs(math.log(row.speedup))
        for row in rows
        if row.speedup and is_aa_pair(row.baseline, row.candidate)
    ]


def floor_of(distances: Sequence[float]) -> float | None:
    """What A/A pairs of one device that are so far apart ask for as a floor.

    None under five pairs.
    """
    return (
        math.expm1(float(np.quantile(distances, 0.95))) if len(distances) >= MIN_AA_PAIRS else None
    )


def floor_for(records: Iterable[Record], device: str) -> float:
    """The floor of a verdict: 1 %, or what this device's A/A pairs ask for if that is more."""
    return max(MIN_FLOOR, aa_floor(records, device) or 0.0)
