"""What the machine adds by itself: drift between anchor trials. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xla_sweeps.schema.measurement import Flag
from xla_sweeps.schema.record import Record

ANCHOR_TAG = "anchor"

DRIFT = 0.02
"""Relative change of the anchor's latency past which the trials between are flagged."""

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


def spans_of(anchors: Iterable[tuple[str, str, float]]) -> dict[str, list[Span]]:
    """The spans between neighbouring anchors over which a device's speed changed, by device.

    Args:
        anchors: (device, start, seconds per call) of each anchor.
    """
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
    """The records; those measured while their device drifted have the flag `drift`."""
    return [
        replace(record, flags=(*record.flags, Flag.DRIFT))
        if not is_anchor(record) and is_within(record.started_at, spans.get(device_of(record), ()))
        else record
        for record in records
    ]


def is_within(start: str, spans: Iterable[Span]) -> bool:
    """Whether a moment lies in any of the spans."""
    return any(begun <= start <= ended for begun, ended in spans)


def device_of(record: Record) -> str:
    """One string for each device of each machine."""
    device = record.device.get("uuid") or record.device.get("name", "")
    return f"{record.environment.get('host', '')} {device}"
