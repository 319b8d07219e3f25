"""Rank comparisons: the best first, with ranks that overlapping intervals share. Pure.

The page computes the same for what a reader filters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from xla_sweeps.analysis.overview import by_scenario
from xla_sweeps.schema.columns import MEASURED
from xla_sweeps.schema.modes import headline_of
from xla_sweeps.schema.row import ComparisonRow

PodiumKey = Literal["throughput", "absolute_speedup", "speedup_percent"]


def podium(
    rows: Sequence[ComparisonRow],
    key: PodiumKey,
    *,
    device: str | None = None,
    resolution_px: int | None = None,
    limit: int = 10,
) -> list[tuple[int | None, ComparisonRow]]:
    """The best rows with their ranks; a row that overlaps the leader above shares its rank.

    Only measured headline pairs of the rows' commonest scenario.

    Returns:
        Best first; the rank is None for a row without an interval.
    """
    measured = [row for row in rows if row.provenance.origin == MEASURED]
    scenario = next(iter(by_scenario(measured)), "")
    wanted = (scenario, *headline_of(scenario))
    ranked = []
    for row in measured:
        here = (device in (None, row.trial.device)) and (
            resolution_px in (None, row.trial.resolution_px)
        )
        if here and (row.trial.scenario, row.baseline.mode, row.candidate.mode) == wanted:
            value, low, high = podium_figure(row, key)
            if value is not None:
                ranked.append((value, low, high, row))
    ranked.sort(key=lambda entry: (-entry[0], entry[3].trial.model, entry[3].trial.trial_id))
    ranks = shared_ranks([(low, high) for _, low, high, _ in ranked])
    return [(rank, row) for rank, (*_, row) in zip(ranks, ranked, strict=True)][:limit]


def podium_figure(
    row: ComparisonRow, key: PodiumKey
) -> tuple[float | None, float | None, float | None]:
    """Figure that the podium ranks by, with its bounds: samples per second, or percent.

    None for the bounds of an interval that holds within the processes only.
    """
    if key == "throughput":
        return (
            row.candidate.throughput_samples_per_s,
            row.candidate.throughput_low,
            row.candidate.throughput_high,
        )
    if row.speedup.value is None:
        return None, None, None
    covers_processes = row.speedup.freedom is not None
    bounds = [
        bound - 1 if covers_processes and bound is not None else None
        for bound in (row.speedup.low, row.speedup.high)
    ]
    if key == "speedup_percent":
        low, high = (None if bound is None else 100 * bound for bound in bounds)
        return row.speedup.percent, low, high
    base = row.baseline.throughput_samples_per_s or 0.0
    low, high = (None if bound is None else base * bound for bound in bounds)
    return row.speedup.absolute_samples_per_s, low, high


def shared_ranks(intervals: Sequence[tuple[float | None, float | None]]) -> list[int | None]:
    """Ranks in descending order: an interval that reaches its group leader's shares its rank.

    Args:
        intervals: (low, high) of each; None where there is none, which has no rank and leads no
            group.
    """
    ranks: list[int | None] = []
    leader_low, rank = math.inf, 0
    for place, (low, high) in enumerate(intervals, start=1):
        if low is None or high is None:
            ranks.append(None)
            continue
        if high < leader_low:
            leader_low, rank = low, place
        ranks.append(rank)
    return ranks
