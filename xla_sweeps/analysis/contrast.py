"""How much larger the logs of one set of replicates are than those of another. Pure.

The two were measured in different processes, so nothing is paired. Three replicates on each side
give Welch's interval over replicates; fewer give one from their rounds, which does not cover how
replicates differ, and is preliminary.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.estimates import LEVEL, NARROWER, Seconds
from xla_sweeps.analysis.pool import MIN_REPLICATES, NORMAL_95


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Difference of two logs: intervals at `LEVEL` and at `NARROWER`, p-value against the floor."""

    interval: stats.Interval
    narrower: stats.Interval
    p_value: float
    preliminary: bool


def contrast(
    first: Sequence[Seconds], second: Sequence[Seconds], *, floor: float
) -> Contrast | None:
    """How much larger the second side's logs are than the first's.

    Args:
        first: logs of each replicate, a value per round; replicates with fewer than
            `stats.MIN_PAIRS` rounds are ignored.
        second: of the other side.
        floor: the smallest relative difference that is called one.

    Returns:
        None where a side has no replicate with enough rounds.
    """
    sides = [
        [values for values in side if len(values) >= stats.MIN_PAIRS] for side in (first, second)
    ]
    if not all(sides):
        return None
    within = [[stats.signed_rank_interval(values.tolist()) for values in side] for side in sides]
    estimates = [[interval.estimate for interval in side] for side in within]
    apart = statistics.fmean(estimates[1]) - statistics.fmean(estimates[0])
    preliminary = min(map(len, sides)) < MIN_REPLICATES
    if preliminary:
        error, freedom = math.hypot(*map(_error, within)), None
    else:
        error, freedom = stats.welch(*estimates)
    interval, narrower = (
        stats.interval_about(apart, error, freedom=freedom, level=level)
        for level in (LEVEL, NARROWER)
    )
    p_value = stats.p_beyond(interval, math.log1p(floor), freedom=freedom)
    if preliminary and p_value is not None:
        p_value = max(p_value, _least_p(*(max(map(len, side)) for side in sides)))
    return Contrast(
        interval=interval,
        narrower=narrower,
        p_value=1.0 if p_value is None else p_value,
        preliminary=preliminary,
    )


def _error(within: Sequence[stats.Interval]) -> float:
    """Standard error of a side with few replicates: the larger of within and between them."""
    errors = [(interval.high - interval.low) / 2 / NORMAL_95 for interval in within]
    inside = math.hypot(*errors) / len(errors)
    if len(within) < 2:
        return inside
    return max(
        inside, statistics.stdev(interval.estimate for interval in within) / math.sqrt(len(within))
    )


def _least_p(first: int, second: int) -> float:
    """The smallest p-value that the rank-sum test of so many rounds can give."""
    return 2 / math.comb(first + second, first)
