"""Measure latencies of single calls, after the rounds. Pure in the same sense as `timing`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xla_sweeps.measure.failures import WorkerLost
from xla_sweeps.schema.measurement import Block, LatencyPass, Round
from xla_sweeps.schema.trial import Effort

TimeSingles = Callable[[str, int, float], tuple[int, Sequence[Block]]]
"""Times single calls of a label, each with a synchronization: at most so many, for so many seconds.

Gives when it began (CLOCK_MONOTONIC, ns), and the blocks of one. It raises `WorkerLost` where the
label cannot be measured any more.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Synchronized single calls of one mode, as blocks of one, and when they were measured."""

    calls: tuple[Block, ...]
    passes: tuple[LatencyPass, ...]


def measure_latencies(
    time_singles: TimeSingles,
    rounds: Sequence[Round],
    calls: Mapping[str, int],
    *,
    effort: Effort,
) -> tuple[dict[str, Latencies], list[WorkerLost]]:
    """Single calls, each with a synchronization, by label; and what was lost meanwhile.

    Where blocks were single calls, those are returned. The other modes get two passes in opposite
    order, up to `effort.latency_calls` calls or `effort.latency_cap_s` seconds in all.
    """
    left, lost = list(calls), list[WorkerLost]()
    blocks: dict[str, list[Block]] = {label: [] for label in calls}
    passes: dict[str, list[LatencyPass]] = {label: [] for label in calls}
    for measured in [item for item in rounds if not item.dirty] or rounds:
        for block in measured.blocks:
            if calls.get(block.mode) == 1:
                blocks[block.mode].append(block)
    order = [label for label in calls if calls[label] != 1]
    for label in (*order, *reversed(order)):
        if label not in left:
            continue
        try:
            started_ns, singles = time_singles(
                label, max(1, effort.latency_calls // 2), effort.latency_cap_s / 2
            )
        except WorkerLost as gone:
            lost.append(gone)
            left = [other for other in left if other not in gone.labels]
        else:
            blocks[label] += singles
            passes[label].append(LatencyPass(started_ns=started_ns, calls=len(singles)))
    latencies = {
        label: Latencies(calls=tuple(blocks[label]), passes=tuple(passes[label])) for label in left
    }
    return latencies, lost
