"""Whether the machine stayed the same during a sweep: the anchor trial, measured again and again, says. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xla_sweeps.measurement import Flag
from xla_sweeps.record import Record

ANCHOR_TAG = "anchor"
DRIFT = 0.02
"""Change of the anchor's latency past which what was measured between is flagged."""

Span = tuple[str, str]
"""ISO times of two neighbouring anchors."""


def call_s(record: Record) -> float | None:
    """The median latency of a call in a record's baseline blocks, seconds; None where it has no rounds."""
    label = next(iter(record.modes), "")
    calls = [block.call_s for item in record.rounds for block in item.blocks if block.mode == label]
    return statistics.median(calls) if calls else None


def is_anchor(record: Record) -> bool:
    """Whether a record is of the anchor trial."""
    tracker = record.config.get("tracker")
    return isinstance(tracker, Mapping) and ANCHOR_TAG in (tracker.get("tags") or ())


def drifting(anchors: Iterable[Record]) -> dict[str, list[Span]]:
    """The spans between neighbouring anchors over which a device's speed changed by more than 2 %, by device."""
    by_device: dict[str, list[tuple[str, float]]] = {}
    for record in anchors:
        seconds = call_s(record)
        if seconds is not None and record.started_at:
            by_device.setdefault(device_of(record), []).append((record.started_at, seconds))
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
        if any(begun <= record.started_at <= ended for begun, ended in spans.get(device_of(record), ()))
        and not is_anchor(record)
        else record
        for record in records
    ]


def device_of(record: Record) -> str:
    """One string for each device of each machine."""
    return f"{record.environment.get('host', '')} {record.device.get('uuid') or record.device.get('name', '')}"
