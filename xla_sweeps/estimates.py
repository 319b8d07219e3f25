"""From the rounds of processes to one interval, verdict and p-value of a log ratio. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from xla_sweeps import stats
from xla_sweeps.comparison import Estimate, Verdict
from xla_sweeps.samples import Seconds
from xla_sweeps.stats import Interval

LEVEL = 0.95
NARROWER = 0.9
"""Inside the floor on both sides at this level, two one-sided 5 % tests find equivalence."""
MIN_REPLICATES = 3
_NORMAL_95 = 1.96


def within_replicates(values: Iterable[Seconds]) -> list[tuple[Interval, Interval]]:
    """Intervals of each replicate that has enough rounds for one, at `LEVEL` and at `NARROWER`.

    Args:
        values: of each replicate: log seconds, or log-ratios, a value a round.
    """
    intervals = (
        stats.signed_rank_intervals(item, levels=(LEVEL, NARROWER)) for item in values if len(item) >= stats.MIN_PAIRS
    )
    return [(wide, narrow) for wide, narrow in intervals]


def over_replicates(within: Sequence[Interval]) -> Interval | None:
    """One interval from those of all replicates; from within a process where there are fewer than three.

    Two processes give the hull of their own intervals: a t interval of two would be infinitely timid, and pooling their
    rounds would hide how they differ.
    """
    if len(within) < 2:
        return within[0] if within else None
    if len(within) >= MIN_REPLICATES:
        return stats.t_interval([interval.estimate for interval in within], level=within[0].level)
    return Interval(
        estimate=statistics.fmean(interval.estimate for interval in within),
        low=min(interval.low for interval in within),
        high=max(interval.high for interval in within),
        level=within[0].level,
    )


def variance_budget(within: Sequence[Interval]) -> dict[str, Any]:
    """Where the uncertainty comes from, in percent: rounds within a process, or differences between processes.

    The larger says what to buy more of: time in each process, or processes.

    Args:
        within: of the log speedup, of each process, at 95 %.
    """
    errors = [(interval.high - interval.low) / 2 / _NORMAL_95 for interval in within]
    estimates = [interval.estimate for interval in within]
    return {
        "within_percent": 100 * statistics.fmean(errors) if errors else None,
        "between_percent": 100 * statistics.stdev(estimates) if len(estimates) > 1 else None,
    }


def verdict_of(interval: Interval, narrower: Interval, *, floor: float) -> Verdict:
    """Verdict on a log speedup: a difference counts past the floor, and only where the whole interval lies past it.

    Args:
        interval: at 95 %.
        narrower: at 90 %: inside the floor on both sides, two one-sided 5 % tests find equivalence.
        floor: the smallest relative difference that is called one.
    """
    bound = math.log1p(floor)
    if interval.low > bound:
        return Verdict.FASTER
    if interval.high < -bound:
        return Verdict.SLOWER
    if -bound < narrower.low and narrower.high < bound:
        return Verdict.EQUIVALENT
    return Verdict.AMBIGUOUS


def p_value_of(interval: Interval, *, floor: float, replicates: int, rounds: int) -> float | None:
    """How likely an estimate so far past the floor is where the true difference lies within it.

    Args:
        interval: of the log speedup, from `over_replicates`.
        floor: the smallest relative difference that is called one.
        replicates: processes; under three, the figure is from within a process, and no smaller than the signed-rank
            test of so many rounds can give.
        rounds: of all processes together.
    """
    if replicates >= MIN_REPLICATES:
        return stats.p_beyond(interval, math.log1p(floor), freedom=replicates - 1)
    p_value = stats.p_beyond(interval, math.log1p(floor))
    return None if p_value is None else max(p_value, 0.5 ** (rounds // max(1, replicates) - 1))


def exponentiated(interval: Interval | None, scale: float) -> Estimate | None:
    """An interval of logs as a figure times `scale`; infinite bounds are none."""
    if interval is None:
        return None
    low, high = (scale * math.exp(bound) if math.isfinite(bound) else None for bound in (interval.low, interval.high))
    return Estimate(value=scale * math.exp(interval.estimate), low=low, high=high)


def reciprocal(log_s: Interval | None, batch_size: int) -> Estimate | None:
    """Throughput, samples per second, from the log of seconds a call."""
    if log_s is None:
        return None
    turned = Interval(estimate=-log_s.estimate, low=-log_s.high, high=-log_s.low, level=log_s.level)
    return exponentiated(turned, batch_size)
