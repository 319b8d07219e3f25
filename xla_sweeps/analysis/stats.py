"""Estimates, intervals and tests: numbers in, numbers out.

Quantiles come from `scipy.special`, imported when one is needed: most commands show kept results.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

MIN_PAIRS = 6
"""The fewest differences that have a 95 % signed-rank interval: 2 * 0.5**6 < 0.05 < 2 * 0.5**5."""

MAX_PAIRED = 2000
"""The most differences whose pairs are all used; the pairs of 12,000 take 2 GB."""

FALSE_DISCOVERY_RATE = 0.05

DRIFT = 0.1  # relative change of a ratio from which it is no steady state's

_DRIFT_PARTS = 100

_DRIFT_CHANCE = 0.0075  # share of noisy series without a shift that may be taken for one

_SHORTEST = 3  # the fewest values on a level

_ORDERS = 4000  # random orders of which chance is told

_EXACT_UP_TO = 50

_Numbers = npt.NDArray[np.float64]


class Interval(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An estimate with its confidence interval; infinite bounds where the data allow none."""

    estimate: float
    low: float
    high: float

    def map(self, function: Callable[[float], float]) -> Interval:
        """The interval of a function of the estimate, one that rises."""
        low, high = function(self.low), function(self.high)
        return Interval(estimate=function(self.estimate), low=low, high=high)


def signed_rank_interval(differences: Sequence[float] | _Numbers) -> Interval:
    """Hodges-Lehmann estimate with the 95 % interval from inverting Wilcoxon's signed-rank test.

    Args:
        differences: paired differences, shape (n,); symmetric about the estimate under the model.

    Returns:
        The median of the n(n+1)/2 Walsh averages; the bounds are order statistics of them, infinite
        for n < 6. Of more than `MAX_PAIRED` differences, two million drawn pairs stand for all.

    Raises:
        ValueError: no differences, or one that is not finite.

    References:
        Hollander, Wolfe & Chicken (2014), Nonparametric Statistical Methods, sections 3.2 and 3.3.
    """
    values = np.asarray(differences, dtype=float)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise ValueError("differences must be finite and at least one")
    first, second = _pairs(values.size)
    walsh = (values[first] + values[second]) / 2
    walsh.sort()  # partitioning takes seven times longer
    estimate = _middle_of(walsh)
    skip = _signed_rank_quantile(values.size, 0.025)
    if values.size > MAX_PAIRED:
        skip = max(1, skip * walsh.size // (values.size * (values.size + 1) // 2))
    low, high = (walsh[skip - 1], walsh[-skip]) if skip else (-math.inf, math.inf)
    return Interval(estimate=estimate, low=float(low), high=float(high))


def _middle_of(ordered: _Numbers) -> float:
    """`numpy.median` of ordered values, to the last bit, without its overhead."""
    middle, odd = divmod(ordered.size, 2)
    return float(ordered[middle] if odd else (ordered[middle - 1] + ordered[middle]) / 2)


@functools.lru_cache(maxsize=2)  # one may take 32 MB
def _pairs(count: int) -> tuple[Any, Any]:
    """The indices of all pairs, each value with itself too; of many values, of drawn pairs."""
    if count <= MAX_PAIRED:
        return np.triu_indices(count)
    drawn = np.random.default_rng(0).integers(count, size=(2, MAX_PAIRED**2 // 2))
    return drawn[0], drawn[1]


def interval_about(
    estimate: float, error: float, *, freedom: float = math.inf, level: float = 0.95
) -> Interval:
    """The interval of an estimate with this standard error: Student's, or normal by default."""
    reach = error * float(special().stdtrit(freedom, (1 + level) / 2))
    return Interval(estimate=estimate, low=estimate - reach, high=estimate + reach)


def log_quantile(
    values: Sequence[float] | _Numbers, share: float, *, group: int = 1
) -> tuple[float, float]:
    """The log of a quantile of positive values, and its standard error.

    The error is that of the 95 % interval between two order statistics. Their ranks are binomial,
    or scatter as much more as the groups' shares of values below the quantile do.

    Args:
        values: at least one, in the order they were measured.
        share: of the values that lie below: 0.9 is the 90th percentile.
        group: number of consecutive values that may resemble each other.

    References:
        Hollander, Wolfe & Chicken (2014), section 3.6 (interval of a quantile); Woodruff (1952),
        Confidence Intervals for Medians and Other Position Measures (groups).
    """
    logs = np.log(np.asarray(values, dtype=float))
    ordered = np.sort(logs)
    middle = _quantile_of(ordered, share)
    variance = ordered.size * share * (1 - share)
    starts = np.arange(0, logs.size, group)
    if group > 1 < starts.size:
        sums = np.add.reduceat((logs <= middle) - share, starts)
        variance = max(variance, float(sums @ sums) * starts.size / (starts.size - 1))
    reach = 1.96 * math.sqrt(variance)
    first = max(0, int(ordered.size * share - reach))
    last = min(int(ordered.size * share + reach), ordered.size - 1)
    return middle, float(ordered[last] - ordered[first]) / 2 / 1.96


def _quantile_of(ordered: _Numbers, share: float) -> float:
    """`numpy.quantile` of ordered values, to the last bit, without its overhead."""
    place = (ordered.size - 1) * share
    below = int(place)
    low, high = ordered[below : below + 2].tolist() if place % 1 else [float(ordered[below])] * 2
    part = place - below
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def q_values(p_values: Sequence[float]) -> list[float]:
    """The smallest false discovery rate at which each p-value counts as a discovery.

    References:
        Benjamini & Hochberg (1995), Controlling the False Discovery Rate.
    """
    values = np.asarray(p_values, dtype=float)
    order = np.argsort(-values, kind="stable")
    ranks = np.arange(values.size, 0, -1)
    adjusted = np.empty(values.size)
    adjusted[order] = np.minimum.accumulate(np.minimum(1.0, values[order] * values.size / ranks))
    return [float(value) for value in adjusted]


def stationary(first: Sequence[float], second: Sequence[float], *, tolerance: float = 0.01) -> bool:
    """True if two windows of positive figures agree in median and show no trend over both.

    The trend is the Theil-Sen slope times the length of both windows, relative to the median.
    """
    early, late, both = statistics.median(first), statistics.median(second), [*first, *second]
    middle = statistics.median(both)
    if middle <= 0 or abs(late - early) > tolerance * middle:
        return False
    return abs(float(np.median(_slopes(both)))) * len(both) <= tolerance * middle


def trend_interval(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """Change over evenly spaced positive values, relative to their median, with its interval.

    The change is the Theil-Sen slope times the number of values; the interval is that of Kendall's
    tau, infinite where there are too few values for the level (fewer than 5 at 95 %).

    References:
        Sen (1968), Estimates of the regression coefficient based on Kendall's tau.
    """
    slopes = np.sort(_slopes(values)) * len(values) / statistics.median(values)
    skip = _kendall_quantile(len(values), round((1 - level) / 2, 12))
    low, high = (float(slopes[skip - 1]), float(slopes[-skip])) if skip else (-math.inf, math.inf)
    estimate = _middle_of(slopes) if slopes.size else 0.0
    return Interval(estimate=estimate, low=low, high=high)


def drifts(log_ratios: Sequence[float] | _Numbers) -> bool:
    """True if a ratio surely changes over the rounds by more than `DRIFT`, slowly or at once."""
    if len(log_ratios) < 2:
        return False
    starts, sizes = _split(len(log_ratios))
    levels = (np.add.reduceat(np.exp(log_ratios), starts) / sizes).tolist()
    if max(levels) <= (1 + DRIFT) * min(levels):
        return False
    change = trend_interval(levels, level=0.995)
    return (
        change.low > DRIFT or change.high < -DRIFT or shifts(levels, by=DRIFT, chance=_DRIFT_CHANCE)
    )


@functools.lru_cache(maxsize=32)
def _split(count: int) -> tuple[Any, Any]:
    """First places and sizes of at most `_DRIFT_PARTS` nearly equal parts of a series."""
    share, more = divmod(count, min(count, _DRIFT_PARTS))
    sizes = share + (np.arange(min(count, _DRIFT_PARTS)) < more)
    return np.cumsum(sizes) - sizes, sizes


def shifts(values: Sequence[float], *, by: float, chance: float) -> bool:
    """True if positive values are at another level, a median, from some point on: by over `by`.

    The point is where the ranks before it and after it are farthest apart. Values in any order are
    as far apart in no more than the share `chance` of cases.

    References:
        Pettitt (1979), A Non-Parametric Approach to the Change-Point Problem.
    """
    numbers = np.asarray(values, dtype=float)
    if numbers.size < 2 * _SHORTEST:
        return False
    apart = _apart(numbers.argsort().argsort().astype(float))
    point = int(apart.argmax()) + _SHORTEST
    before, after = (_middle_of(np.sort(part)) for part in (numbers[:point], numbers[point:]))
    if max(before, after) <= (1 + by) * min(before, after):
        return False
    by_chance = (_farthest_by_chance(numbers.size) >= apart.max() - 1e-9).mean()
    return bool(by_chance <= chance)


def _apart(ranks: _Numbers) -> _Numbers:
    """Distance of the ranks before each point and after it, in standard errors up to a factor."""
    size = ranks.shape[-1]
    splits = np.arange(_SHORTEST, size - _SHORTEST + 1)
    sums = np.cumsum(ranks - (size - 1) / 2, axis=-1)[..., splits - 1]
    distances: _Numbers = np.abs(sums) / np.sqrt(splits * (size - splits))
    return distances


@functools.cache
def _farthest_by_chance(size: int) -> _Numbers:
    """The largest of these distances of random orders."""
    ranks = np.tile(np.arange(size, dtype=float), (_ORDERS, 1))
    farthest: _Numbers = _apart(np.random.default_rng(0).permuted(ranks, axis=1)).max(axis=-1)
    return farthest


def ratio_interval(log_ratios: Sequence[float] | _Numbers) -> Interval:
    """`signed_rank_interval` of a ratio; of one that drifts also its first and its last third."""
    interval = signed_rank_interval(log_ratios)
    if not drifts(log_ratios):
        return interval
    third = len(log_ratios) // 3
    ends = [_middle_of(np.sort(part)) for part in (log_ratios[:third], log_ratios[-third:])]
    low, high = min(interval.low, *ends), max(interval.high, *ends)
    return Interval(estimate=interval.estimate, low=low, high=high)


def _slopes(values: Sequence[float]) -> _Numbers:
    """Slopes between all pairs of evenly spaced values; their median is the Theil-Sen slope."""
    numbers = np.asarray(values, dtype=float)
    first, second, between = _steps(numbers.size)
    slopes: _Numbers = (numbers[second] - numbers[first]) / between
    return slopes


@functools.lru_cache(maxsize=32)
def _steps(count: int) -> tuple[Any, Any, Any]:
    """The indices of all pairs of different values, and how far apart these are."""
    first, second = np.triu_indices(count, k=1)
    return first, second, second - first


def special() -> Any:
    """`scipy.special`, imported when it is first needed."""
    from scipy import special

    return special


@functools.cache
def _signed_rank_quantile(count: int, tail: float) -> int:
    """The largest k with P(W < k) <= tail, W the signed-rank statistic of `count` values."""
    if count <= _EXACT_UP_TO:
        return _quantile_of_sum([[1] + [0] * rank + [1] for rank in range(count)], tail)
    mean, variance = count * (count + 1) / 4, count * (count + 1) * (2 * count + 1) / 24
    return _normal_quantile(mean, variance, tail)


@functools.cache
def _kendall_quantile(count: int, tail: float) -> int:
    """The largest k with P(Q < k) <= tail, Q the number of inversions of `count` values."""
    if count <= _EXACT_UP_TO:
        return _quantile_of_sum([[1] * size for size in range(1, count + 1)], tail)
    mean, variance = count * (count - 1) / 4, count * (count - 1) * (2 * count + 5) / 72
    return _normal_quantile(mean, variance, tail)


def _normal_quantile(mean: float, variance: float, tail: float) -> int:
    """The largest k with P(X < k) <= tail, X a normally distributed count."""
    return max(0, math.floor(mean + float(special().ndtri(tail)) * math.sqrt(variance) + 0.5))


def _quantile_of_sum(parts: Sequence[Sequence[int]], tail: float) -> int:
    """The largest k with P(X < k) <= tail, X a sum; parts: the ways to get 0, 1, 2 of each term."""
    ways = functools.reduce(np.convolve, [np.array(part, dtype=object) for part in parts])
    allowed = tail * sum(ways)  # whole numbers of Python, which have no limit
    return next(k for k, below in enumerate(itertools.accumulate(ways)) if below > allowed)
