"""Estimates of replicates to one interval, p-value and verdict. Pure.

The one place that does it: a mode's level, a speedup, a difference between two sets of results, a
mode alone and for long. A rule for few replicates is changed here, and nowhere else.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.row import Estimate

Numbers = npt.NDArray[np.float64]

NORMAL_95 = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""

MIN_REPLICATES = 3
"""The fewest replicates whose spread gives an interval."""

LEVEL = 0.95

_EXTRA_S = ("compile_s_extra", "compile_s_extra_low", "compile_s_extra_high")

JUDGED_FROM = (
    *("speedup", "within_percent", "between_percent", "replicates", "baseline_call_ms"),
    *_EXTRA_S,
)
"""The columns from which `judge` makes others."""

NARROWER = 0.9
"""Inside the floor on both sides at this level, two one-sided 5 % tests find equivalence."""


class Estimates(NamedTuple):
    """Estimates of one side's replicates.

    Attributes:
        values: an estimate of each replicate.
        errors: the standard error of each, from its own rounds; none where it is not known.
    """

    values: tuple[float, ...]
    errors: tuple[float, ...] = ()


def estimates_of(within: Sequence[Interval]) -> Estimates:
    """Estimates of replicates, each with the interval from its own rounds at 95 %."""
    return Estimates(
        tuple(interval.estimate for interval in within),
        tuple((interval.high - interval.low) / 2 / NORMAL_95 for interval in within),
    )


class Prior(NamedTuple):
    """The variance of one replicate's estimate, from all trials: NaN where it is not known.

    A trial whose own rounds give the standard error w has the variance `scale` * (`between` + w²),
    which is worth `freedom` observations of its own.

    Attributes:
        between: variance of the log ratio between processes.
        scale: factor, near 1.
        freedom: prior degrees of freedom; infinite where processes do not differ at all.
        pooled: degrees of freedom of all trials together.
    """

    between: float = math.nan
    scale: float = math.nan
    freedom: float = math.nan
    pooled: float = math.nan


UNKNOWN = Prior()


def interval_of(side: Estimates, *, least: int = MIN_REPLICATES) -> Interval:
    """Interval of the mean of at least one estimate: Student's t over the estimates.

    Fewer than `least` have none: drift of the machine makes the rounds of one process alike, so
    that the interval of their level would hold the truth in about half of all cases. (Drift leaves
    ratios, which are paired.)
    """
    error = freedom = math.inf
    if len(side.values) >= least:
        error, freedom = stats.standard_error(side.values)
    return stats.interval_about(statistics.fmean(side.values), error, freedom=freedom)


def error_of(side: Estimates) -> float:
    """Standard error of the mean of few replicates: the larger of within and between them."""
    inside = math.hypot(*side.errors) / len(side.errors)
    if len(side.values) < 2:
        return inside
    return max(inside, statistics.stdev(side.values) / math.sqrt(len(side.values)))


def over_replicates(within: Sequence[Interval]) -> Interval | None:
    """Mean of the replicates' estimates, with its interval from three replicates on."""
    if not within:
        return None
    return interval_of(estimates_of(within))


def variance_budget(within: Sequence[Interval]) -> dict[str, Any]:
    """Uncertainty in percent: of rounds within a replicate, and between replicates.

    The larger says what to increase: time per replicate, or the number of replicates.

    Args:
        within: intervals of the log speedup, of each replicate, at 95 %.
    """
    values, errors = estimates_of(within)
    return {
        "within_percent": 100 * statistics.fmean(errors) if errors else None,
        "between_percent": 100 * statistics.stdev(values) if len(values) > 1 else None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Difference of two logs: its interval at `LEVEL`, p-value and verdict against the floor.

    Attributes:
        means: of the replicates' estimates of each side.
        replicates: how many count on each side.
    """

    interval: Interval
    p_value: float
    verdict: Verdict
    preliminary: bool
    means: tuple[float, ...]
    replicates: tuple[int, ...]


def contrast(
    first: Sequence[Numbers], second: Sequence[Numbers], *, floor: float
) -> Contrast | None:
    """Difference of the second side's logs and the first's: Welch's, from three replicates on.

    Of fewer it has the errors of `error_of`, which leave out how replicates differ.

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
    estimates = [
        estimates_of([stats.signed_rank_interval(values) for values in side]) for side in sides
    ]
    preliminary = min(map(len, sides)) < MIN_REPLICATES
    error, freedom = math.hypot(*map(error_of, estimates)), math.inf
    if not preliminary:
        error, freedom = stats.standard_error(*(side.values for side in estimates))
    means = tuple(statistics.fmean(side.values) for side in estimates)
    interval, narrower = (
        stats.interval_about(means[1] - means[0], error, freedom=freedom, level=level)
        for level in (LEVEL, NARROWER)
    )
    bound = np.array([math.log1p(floor)])
    ends = (np.array([end]) for end in (interval.low, interval.high, narrower.low, narrower.high))
    excess = abs(interval.estimate) - bound
    p_value = float(_p_values(excess, error=np.array([error]), freedom=np.array([freedom]))[0])
    if preliminary:  # no less than the rank-sum test of the rounds can give
        rounds = [max(map(len, side)) for side in sides]
        p_value = max(p_value, 2 / math.comb(sum(rounds), rounds[0]))
    return Contrast(
        interval=interval,
        p_value=p_value,
        verdict=verdicts_from(*ends, bound=bound)[0],
        preliminary=preliminary,
        means=means,
        replicates=tuple(map(len, sides)),
    )


def _p_values(excess: Numbers, *, error: Numbers, freedom: Numbers) -> Numbers:
    """Two-sided p-values against the hypotheses that the truth lies within the floors.

    They are below 1 - `LEVEL` exactly where the whole interval lies past the floor.

    Args:
        excess: by how much the estimates are past the floors.
        error: standard errors of the estimates.
        freedom: degrees of freedom of these; infinite for the normal distribution.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = 2 * stats.special().stdtr(freedom, -excess / error)
    return np.where(error > 0, np.fmin(1.0, p_value), np.where(excess > 0, 0.0, 1.0))


def verdicts_from(
    low: Numbers, high: Numbers, low_90: Numbers, high_90: Numbers, *, bound: Numbers
) -> list[Verdict]:
    """The verdict of each log ratio, from the bounds of both intervals and the floor's log.

    Faster or slower where the whole interval at 95 % lies past the floor. Where that at 90 % lies
    inside the floor on both sides, two one-sided 5 % tests find equivalence.
    """
    places = np.select(
        [low > bound, high < -bound, (low_90 > -bound) & (high_90 < bound)], [0, 1, 2], 3
    )
    words = (Verdict.FASTER, Verdict.SLOWER, Verdict.EQUIVALENT, Verdict.AMBIGUOUS)
    return [words[place] for place in places]


def errors_of(numbers: Mapping[str, Numbers], priors: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Standard errors of log speedups, each from its replicates and its prior.

    With a prior the variance is moderated: the weighted mean of the prior's and the replicates' own
    (Smyth 2004). Its relative variance is that of the spread over trials and that of the pooled
    estimate together (Satterthwaite), so the reciprocals of their degrees of freedom add up.
    Without one, three replicates have their own variance, and fewer have only what
    varies within their processes.

    Args:
        numbers: of the speedups: `within_percent`, the standard error of one replicate's estimate,
            from its own rounds; `between_percent`, the standard deviation of the replicates'
            estimates, NaN for a single one; `replicates`, how many.
        priors: a `Prior` in each row, shape (n, 4).

    Returns:
        Standard errors; degrees of freedom, infinite where nothing is known of how processes
        differ; and what is to be added to the interval's half-width: two replicates without a prior
        get the hull of both intervals.
    """
    between, scale, freedom, pooled = priors.T
    replicates = numbers["replicates"]
    within, own = numbers["within_percent"] / 100, np.nan_to_num(numbers["between_percent"]) / 100
    has_prior, several = ~np.isnan(scale), replicates >= MIN_REPLICATES
    spread = scale * (between + within**2)
    total = freedom + replicates - 1
    moderated = spread + (replicates - 1) / total * (own**2 - spread)
    variance = np.where(has_prior, moderated / replicates, own**2 / replicates)
    alone = ~has_prior & ~several
    error = np.where(alone, within, np.sqrt(variance))
    degrees = np.where(
        has_prior, np.fmax(1 / (1 / total + 1 / pooled), replicates - 1.0), replicates - 1.0
    )
    return error, np.where(alone, np.inf, degrees), np.where(alone, own / math.sqrt(2), 0.0)


def judge(numbers: Mapping[str, Numbers], *, priors: Numbers, floor: Numbers) -> dict[str, Any]:
    """The columns of speedups that depend on other trials, by their names in `SpeedupColumns`.

    `freedom` and `p_value` are NaN where the interval holds within the processes only. A verdict is
    a difference exactly where the p-value is below 0.05, wherever there is one.

    Args:
        numbers: of the speedups, the columns `JUDGED_FROM`.
        priors: as in `errors_of`.
        floor: the smallest relative difference that counts.
    """
    special = stats.special()
    logs, bound = np.log(numbers["speedup"]), np.log1p(floor)
    error, freedom, extra = errors_of(numbers, priors)
    wide, narrow = (
        extra + error * special.stdtrit(freedom, (1 + level) / 2) for level in (LEVEL, NARROWER)
    )
    low, high = logs - wide, logs + wide
    p_value = _p_values(np.abs(logs) - bound, error=error, freedom=freedom)
    verdicts = verdicts_from(low, high, logs - narrow, logs + narrow, bound=bound)
    columns = {
        "low": np.exp(low),
        "high": np.exp(high),
        "low_90": np.exp(logs - narrow),
        "high_90": np.exp(logs + narrow),
        "freedom": np.where(np.isinf(freedom), np.nan, freedom),
        "p_value": np.where(np.isinf(freedom), np.nan, p_value),
    }
    faster = np.array([verdict is Verdict.FASTER for verdict in verdicts], dtype=bool)
    return {"verdict": verdicts, **columns, **_break_even(numbers, columns, faster)}


def _break_even(
    numbers: Mapping[str, Numbers], columns: Mapping[str, Numbers], faster: Numbers
) -> dict[str, Numbers]:
    """Calls after which extra time is paid back, with its least and its most.

    NaN where the verdict is not faster: then nothing is known to be gained.
    """
    names = ("break_even_calls", "break_even_low", "break_even_high")
    ratios = (numbers["speedup"], columns["high"], columns["low"])
    baseline_s = numbers["baseline_call_ms"] / 1e3
    calls = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        for name, extra_s, ratio in zip(names, _EXTRA_S, ratios, strict=True):
            paid = np.maximum(0.0, numbers[extra_s]) / (baseline_s * (1 - 1 / ratio))
            calls[name] = np.where(faster, paid, np.nan)
    return calls


def exponentiated(interval: Interval | None, scale: float) -> Estimate | None:
    """An interval of logs as a figure times `scale`; infinite bounds are none."""
    if interval is None:
        return None
    low, high = (
        scale * math.exp(bound) if math.isfinite(bound) else None
        for bound in (interval.low, interval.high)
    )
    return Estimate(value=scale * math.exp(interval.estimate), low=low, high=high)


def reciprocal(log_s: Interval | None, batch_size: int) -> Estimate | None:
    """Throughput, samples per second, from the log of seconds a call."""
    if log_s is None:
        return None
    turned = Interval(estimate=-log_s.estimate, low=-log_s.high, high=-log_s.low)
    return exponentiated(turned, batch_size)
