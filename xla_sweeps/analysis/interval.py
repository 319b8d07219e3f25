"""Estimates of replicates to one interval, p-value and verdict. Pure.

One rule for every figure. Each process gives one number, a logarithm:

    y = truth + process + rounds

The variance of one such number is learned from the trial's own replicates and from other trials
(`Prior`), whose knowledge is worth more observations the more they are alike. Processes differ more
where their rounds scatter more. Student's t over the variance gives the interval, from the first
replicate on. A rule is changed here, and nowhere else.

References:
    Smyth (2004), Linear Models and Empirical Bayes Methods for Assessing Differential Expression in
    Microarray Experiments (moderated variance); Donner & Zou (2012), Closed-Form Confidence
    Intervals for Functions of the Normal Mean and Standard Deviation (`difference_of`).
"""

from __future__ import annotations

import itertools
import math
import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.row import Figure

Numbers = npt.NDArray[np.float64]

NORMAL_95 = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""

MIN_REPLICATES = 3  # the fewest replicates a side of an A/A pair across processes

FREEDOM, MOST_FREEDOM = 2.0, 8.0
"""The degrees of freedom that a prior is worth, at least and at most.

At least as many as three replicates have of their own: those of trials that differ much, or are
unknown. Simulated by `benchmarks/coverage.py`.
"""

LEVEL = 0.95

LOAD = 0.3
"""Standard deviation of the log that other load adds to a ratio of contaminated rounds.

It slows both modes, though not alike, and much the same in every round and replicate: so it shrinks
with the number of neither (`benchmarks/results/loaded.md`).
"""

LEAST = 1e-12
"""The least variance of logs that is taken for one: rounds that happen to agree exactly."""

NARROWER = 0.9
"""Inside the floor on both sides at this level, two one-sided 5 % tests find equivalence."""

MOST_TO_SETTLE = 100
"""The most further replicates that are estimated; one more stands for any larger number."""


class Prior(NamedTuple):
    """Spread of one replicate's estimate, as other trials say it.

    A trial whose own rounds give the variance w, and of which one round has the variance s, has the
    variance

        scale * (between + share * s + w)

    Attributes:
        between: variance of the logs between processes that has nothing to do with their rounds.
        share: part of the variance of one round by which processes differ besides.
        scale: factor, near 1.
        freedom: degrees of freedom that it is worth.
        scatter: the largest variance of a round that it has seen.
    """

    between: float
    share: float = 0.0
    scale: float = 1.0
    freedom: float = FREEDOM
    scatter: float = math.inf

    def variance_of(self, figure: Figure) -> float:
        """The variance of one replicate of a figure."""
        return self.scale * (self.between + self.share * figure.scatter + figure.within)


BUILT_IN = {
    "speedup": (0.015, 0.004),
    "latency": (0.015, 0.004),
    "call": (0.03, 0.008),
    "latency_p50": (0.03, 0.008),
    "latency_p90": (0.06, 0.016),
    "latency_p99": (0.1, 0.027),
    "copy_input": (0.05, 0.05),
    "copy_output": (0.05, 0.05),
    "input_share": (0.03, 0.03),
    "memory": (0.02, 0.005),
    "prepare": (0.1, 0.1),
    "sustained": (0.015, 0.015),
    "energy": (0.03, 0.03),
    "idle_power": (0.05, 0.05),
}
"""Standard deviation of the logs between processes assumed of each figure, on a CPU and on a GPU.

It counts as `FREEDOM` observations among those of the trials that were measured several times.
Copies of ResNet50 differ by 0.12 % over processes of an H100, so a speedup has 0.4 %, and calls and
percentiles their proportion to that. What the host does, or nobody measured there, is as on a CPU.
A memory ratio on a CPU has the smallest half percent with which 95 % of the intervals of one and of
two replicates hold in the records of `benchmarks/results` (`benchmarks/left_out.py`).
"""

SHARE = (0.2**2, 0.5**2)
"""The `share` assumed on a CPU and on a GPU.

Processes of `benchmarks/results/backends.tar.xz`, whose rounds scatter by 10 to 20 %, differ by 0.2
times as much beyond their own errors. On an H100 host-bound modes are in one state for many rounds,
so their rounds hide a part: with 0.5, 92 % of intervals and more hold (`benchmarks/coverage.py`).
"""


QUIET, STEEP, MOST_UNKNOWN = 0.02, 2.0, 0.055
"""Where rounds scatter by more than `QUIET`, processes nobody has seen may differ by more.

By `STEEP` times the excess, at most by `MOST_UNKNOWN`: so 94 % of first trials hold whose rounds
scatter by 3.6 % and whose processes differ by 12 %.
"""


def built_in(name: str, *, on_gpu: bool = False, scatter: float = 0.0) -> Prior:
    """The prior of a figure of which no other trial says anything, by the variance of a round."""
    excess = min(STEEP**2 * max(0.0, scatter - QUIET**2), MOST_UNKNOWN**2)
    return Prior(BUILT_IN[name][on_gpu] ** 2 + excess, SHARE[on_gpu])


NOISY = 0.05
"""Standard deviation of a GPU's rounds above which the host sets the pace, and not the device.

On an H100 rounds scatter by 0.3 to 3 % where the device does, by 10 to 38 % where the host does.
"""


def is_noisy(figure: Figure | None) -> bool:
    """True if a figure's rounds on a GPU scatter as they do where the host sets the pace."""
    return figure is not None and figure.on_gpu and figure.scatter > NOISY**2


def figure_of(
    name: str,
    labels: tuple[str, ...],
    values: Sequence[float],
    errors: Sequence[float] = (),
    counts: Sequence[int] = (),
    *,
    contaminated: bool = False,
    loaded: bool = False,
    on_gpu: bool = False,
) -> Figure:
    """A figure from the log that each replicate gives, at least one, as `Figure` says.

    Of the standard `errors` there are none where they are not known, of the `counts` of their
    rounds none where processes do not differ by how these scatter.
    """
    squares = [error**2 for error in errors]
    return Figure(
        name=name,
        labels=labels,
        replicates=len(values),
        mean=statistics.fmean(values),
        within=statistics.fmean(squares) if squares else 0.0,
        between=statistics.variance(values) if len(values) > 1 else 0.0,
        contaminated=contaminated,
        loaded=loaded,
        scatter=statistics.fmean(map(operator.mul, squares, counts)) if counts else 0.0,
        on_gpu=on_gpu,
        values=tuple(values),
        errors=tuple(errors),
    )


def figure_within(
    name: str,
    labels: tuple[str, ...],
    within: Sequence[Interval],
    counts: Sequence[int] = (),
    **also: bool,
) -> Figure:
    """A figure from the interval of each replicate's own rounds; otherwise as `figure_of`."""
    errors = list(map(error_within, within))
    return figure_of(name, labels, [one.estimate for one in within], errors, counts, **also)


def error_within(interval: Interval) -> float:
    """The standard error of an estimate with this 95 % interval."""
    return (interval.high - interval.low) / 2 / NORMAL_95


def errors_of(figures: Sequence[Figure], priors: Sequence[Prior]) -> tuple[Numbers, Numbers]:
    """Standard errors of the figures' means, each from its replicates and its prior.

    The variance is moderated: the mean of the prior's and the replicates' own, weighted by their
    degrees of freedom. A loaded figure has `LOAD` on top.

    Returns:
        Standard errors, and degrees of freedom of Student's t; shape (n,) each.
    """
    facts = [(one.replicates, one.within, one.between, one.scatter) for one in figures]
    replicates, within, between, scatter = np.array(facts, dtype=float).reshape(-1, 4).T
    spread, share, scale, worth, _ = np.array(priors, dtype=float).reshape(-1, 5).T
    freedom = worth + replicates - 1
    expected = scale * (spread + share * scatter + within)
    variance = (worth * expected + (replicates - 1) * between) / freedom
    load = LOAD * np.array([one.loaded for one in figures])
    return np.hypot(np.sqrt(variance / replicates), load), freedom


def reach_of(error: Numbers, freedom: Numbers, *, level: float = LEVEL) -> Numbers:
    """The half-width of the interval of an estimate with this standard error."""
    quantile: Numbers = stats.special().stdtrit(freedom, (1 + level) / 2)
    return error * quantile


def interval_of(figure: Figure, prior: Prior) -> Interval:
    """The 95 % interval of one figure's log."""
    reach = float(reach_of(*errors_of([figure], [prior]))[0])
    return Interval(estimate=figure.mean, low=figure.mean - reach, high=figure.mean + reach)


def interval_alone(figure: Figure) -> Interval:
    """The 95 % interval of one figure's log where no other trial is known."""
    return interval_of(figure, built_in(figure.name, on_gpu=figure.on_gpu, scatter=figure.scatter))


class Bounds(NamedTuple):
    """Estimates with the bounds of their 95 % intervals, one for each row."""

    value: Numbers
    low: Numbers
    high: Numbers

    @classmethod
    def of(cls, interval: Interval) -> Bounds:
        """Bounds of one estimate, shape ()."""
        return cls(*map(np.array, (interval.estimate, interval.low, interval.high)))


def difference_of(first: Bounds, second: Bounds) -> Bounds:
    """The second less the first, from intervals of both (method of variance estimates recovery).

    Either may have bounds that are not symmetric, and degrees of freedom of its own.
    """
    return propagate(operator.sub, second, first)


def propagate(function: Callable[..., Any], *parts: Bounds) -> Bounds:
    """The interval of a function of independent estimates, from theirs.

    Each estimate alone is moved to its bounds, and the changes are added in quadrature.
    """
    middle = [part.value for part in parts]
    value = function(*middle)
    below = above = np.zeros_like(value, dtype=float)
    for place, part in enumerate(parts):
        ends = [[*middle[:place], end, *middle[place + 1 :]] for end in (part.low, part.high)]
        low, high = (function(*each) - value for each in ends)
        below = below + np.minimum(0.0, np.minimum(low, high)) ** 2
        above = above + np.maximum(0.0, np.maximum(low, high)) ** 2
    return Bounds(value, value - np.sqrt(below), value + np.sqrt(above))


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Difference of two logs, and its standard error."""

    interval: Interval
    verdict: Verdict
    p_value: float
    error: float
    freedom: float


def contrast(
    first: tuple[Figure, Prior],
    second: tuple[Figure, Prior],
    *,
    floor: float,
    shift: tuple[float, float, float] = (0.0, 0.0, math.inf),
) -> Contrast:
    """Difference of the second figure's log and the first's, which nothing pairs.

    Each comes with its prior. `shift` is what both differ by anyway, subtracted from the
    difference: its estimate, its standard error and the degrees of freedom of that.

    References:
        Welch (1947), The Generalization of Student's Problem When Several Different Population
        Variances Are Involved.
    """
    errors, freedoms = errors_of([first[0], second[0]], [first[1], second[1]])
    variance, freedom = _sum_of((errors**2).tolist(), freedoms.tolist())
    own = max(FREEDOM, freedom - first[1].freedom)  # both sides' variances rest on one prior
    variance, freedom = _sum_of([variance, shift[1] ** 2], [own, shift[2]])
    error = math.sqrt(variance)
    middle = second[0].mean - first[0].mean - shift[0]
    made = decide(*(np.array([one]) for one in (middle, error, freedom, floor)))
    low, high, p_value = (float(made[name][0]) for name in ("low", "high", "p_value"))
    return Contrast(
        interval=Interval(estimate=middle, low=low, high=high),
        verdict=made["verdict"][0],
        p_value=p_value,
        error=error,
        freedom=freedom,
    )


def _sum_of(variances: Sequence[float], freedoms: Sequence[float]) -> tuple[float, float]:
    """Sum of independent variances, and the degrees of freedom of that (Welch-Satterthwaite)."""
    total = sum(variances)
    shares = sum(one**2 / freedom for one, freedom in zip(variances, freedoms, strict=True))
    return total, total**2 / shares if shares else math.inf


def decide(logs: Numbers, error: Numbers, freedom: Numbers, floor: Numbers) -> dict[str, Any]:
    """Verdict, p-value and the bounds of both intervals of log ratios, by their names in columns.

    Faster or slower where the whole interval lies past the floor, so exactly where the two-sided
    p-value against the hypothesis that the truth lies within the floor is below 0.05; equivalent
    where the narrower interval, at 90 %, lies inside the floor: two one-sided 5 % tests.
    """
    wide, narrow = (reach_of(error, freedom, level=level) for level in (LEVEL, NARROWER))
    ends = {"low": logs - wide, "high": logs + wide}
    ends |= {"low_90": logs - narrow, "high_90": logs + narrow}
    bound = np.log1p(floor)
    settled = [
        ends["low"] > bound,
        ends["high"] < -bound,
        (ends["low_90"] > -bound) & (ends["high_90"] < bound),
    ]
    words = (Verdict.FASTER, Verdict.SLOWER, Verdict.EQUIVALENT, Verdict.AMBIGUOUS)
    verdicts = [words[place] for place in np.select(settled, [0, 1, 2], 3)]
    excess = np.abs(logs) - bound
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = np.fmin(1.0, 2 * stats.special().stdtr(freedom, -excess / error))
    p_value = np.where(error > 0, p_value, np.where(excess > 0, 0.0, 1.0))
    return {"verdict": verdicts, "p_value": p_value, **ends}


def judge(figures: Sequence[Figure], priors: Sequence[Prior], floor: Numbers) -> dict[str, Any]:
    """The columns of speedups that depend on other trials, by their names in `SpeedupColumns`."""
    error, freedom = errors_of(figures, priors)
    logs = np.array([one.mean for one in figures])
    made = decide(logs, error, freedom, floor)
    is_clear = np.array([verdict.is_clear for verdict in made["verdict"]], dtype=bool)
    replicates = np.array([one.replicates for one in figures], dtype=float)
    more = _replicates_to_settle(replicates, error, np.abs(logs) - np.log1p(floor), freedom)
    more[[one.loaded for one in figures]] = MOST_TO_SETTLE + 1
    return made | {
        "excluded_above": np.expm1(np.maximum(made["high_90"], -made["low_90"])),
        "replicates_to_settle": np.where(is_clear, np.nan, more),
        **{end: np.exp(made[end]) for end in ("low", "high", "low_90", "high_90")},
    }


def _replicates_to_settle(
    replicates: Numbers, error: Numbers, excess: Numbers, freedom: Numbers
) -> Numbers:
    """About how many further replicates would settle each verdict, if the estimate stayed.

    The interval becomes narrower until it ends at the nearer edge of the floor.
    """
    counts = np.arange(1.0, replicates.max(initial=1) + MOST_TO_SETTLE + 1)
    with np.errstate(divide="ignore", invalid="ignore"):  # processes that agree exactly
        wanted = np.nan_to_num(np.abs(excess) / (error * np.sqrt(replicates)))
    needed = np.empty_like(excess)
    worth = freedom - replicates + 1
    for level, one in itertools.product((LEVEL, NARROWER), np.unique(worth)):
        chosen = (worth == one) & ((excess > 0) == (level == LEVEL))
        reach = reach_of(1 / np.sqrt(counts), one + counts - 1, level=level)
        needed[chosen] = 1 + np.searchsorted(-reach, -wanted[chosen], side="right")
    more: Numbers = np.clip(needed - replicates, 1, MOST_TO_SETTLE + 1)
    return more


def break_even(extra_s: Bounds, call_s: Bounds, speedup: Bounds) -> Mapping[str, Numbers]:
    """Calls after which extra time is paid back: extra / (call * (1 - 1 / speedup)).

    The logs of its three parts are combined as in `propagate`. Extra time of which it is not
    known whether there is any gives the lower bound 0; extra time below 0 is paid back at once.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        extra = Bounds(*(np.log(np.maximum(0.0, seconds)) for seconds in extra_s))
        call = Bounds(*(np.log(seconds) for seconds in call_s))
        gain = Bounds(*(np.log1p(-1 / np.maximum(ratio, 1.0)) for ratio in speedup))
        calls = propagate(lambda extra, call, gain: extra - call - gain, extra, call, gain)
        most = np.exp(extra.high - call.low - gain.low)
        none = ~(extra_s.value > 0)
        return {
            "break_even_calls": np.exp(calls.value),
            "break_even_low": np.where(none, 0.0, np.exp(calls.low)),
            "break_even_high": np.where(none, most, np.exp(calls.high)),
        }
