"""Fixed cost of a call, cost of a sample, and where two ways to call cross. Pure.

The time of a call of `k` batches of `n` samples is taken as `fixed + further (k - 1) + sample n k`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.interval import built_in, errors_of
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import TrialSummary

_LEAST_ERROR = 1e-4
"""Relative; rounds that happen to agree exactly do not weigh without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The time of a call of one size.

    Attributes:
        seconds: of one call.
        error: its relative standard error, from the rounds, and between replicates if several.
    """

    batch_size: int
    batches: int
    seconds: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of one way to call, in seconds.

    Attributes:
        fixed: of a call before its first sample.
        sample: of a sample.
        further: of each batch after the first, before its first sample; None where no call had
            several.
        covariance: of `fixed`, `sample` and, where there is one, `further`, in this order.
        freedom: degrees of freedom of the fit.
        misfit: the largest relative difference between a point and the fit.
    """

    fixed: Interval
    sample: Interval
    further: Interval | None
    covariance: tuple[tuple[float, ...], ...]
    freedom: int
    misfit: float
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Cost of a number of samples in all, in batches of one size.

    Attributes:
        batch_size: of all batches but the last, which may be smaller.
        batches: how many it takes.
        last_batch: samples of the last one.
        seconds: of all; never below 0.
    """

    batch_size: int
    batches: int
    last_batch: int
    seconds: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One way among all, for a number of samples.

    Attributes:
        best: at the batch size at which it takes least, by the upper end of the interval.
        behind: seconds that it takes more than the fastest; None of the fastest itself.
    """

    label: str
    best: Total
    behind: Interval | None

    @property
    def may_be_fastest(self) -> bool:
        """True if it is the fastest, or cannot be told apart from it."""
        return self.behind is None or self.behind.low <= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """The batch size at which two ways take equally long; bounds are None where there is none."""

    batch_size: float
    low: float | None
    high: float | None


def points_of(trials: Iterable[tuple[TrialSummary, Sequence[Record]]], label: str) -> list[Point]:
    """The time of a call in a mode, of each trial that measured it without a failure.

    Args:
        trials: each with its records.
        label: of the mode.
    """
    points = []
    for summary, _ in trials:
        mode = next((mode for mode in summary.modes if mode.label == label), None)
        if mode is None or mode.status is not Status.OK or mode.columns.call_ms is None:
            continue
        figures = [one for one in summary.figures if (one.name, one.labels) == ("call", (label,))]
        error = float(errors_of(figures, [built_in("call")])[0][0])
        points.append(
            Point(
                batch_size=summary.trial.batch_size,
                batches=summary.trial.batches,
                seconds=mode.columns.call_ms / 1e3,
                error=max(error, _LEAST_ERROR),
            )
        )
    return sorted(points, key=lambda point: (point.batches, point.batch_size))


def cost_of(points: Sequence[Point]) -> Cost | None:
    """The costs that fit these points best; None for fewer points than can show how well they fit.

    Weighted least squares, each point by its own error. Where the points lie further from the fit
    than their errors say, all errors are scaled up by the Birge ratio, sqrt(chi² / freedom).

    References:
        Draper & Smith (1998), Applied Regression Analysis, section 9.2 (weighted least squares);
        Birge (1932), The Calculation of Errors by the Method of Least Squares.
    """
    several = any(point.batches > 1 for point in points)
    columns = 3 if several else 2
    freedom = len(points) - columns
    sizes = {point.batch_size * point.batches for point in points if point.batches == 1}
    if freedom < 1 or len(sizes) < 2:
        return None
    rows = np.array(
        [[1.0, point.batch_size * point.batches, point.batches - 1][:columns] for point in points]
    )
    seconds = np.array([point.seconds for point in points])
    weights = 1 / (seconds * np.array([point.error for point in points]))
    scaled = rows * weights[:, None]
    inverse = np.linalg.pinv(scaled.T @ scaled)
    coefficients = inverse @ scaled.T @ (seconds * weights)
    misfit = (seconds - rows @ coefficients) * weights
    covariance = inverse * max(1.0, float(misfit @ misfit) / freedom)
    fixed, sample, *further = (
        stats.interval_about(float(value), math.sqrt(variance), freedom=freedom)
        for value, variance in zip(coefficients, np.diag(covariance), strict=True)
    )
    return Cost(
        fixed=fixed,
        sample=sample,
        further=further[0] if further else None,
        covariance=tuple(map(tuple, covariance.tolist())),
        freedom=freedom,
        misfit=float(np.abs(seconds / (rows @ coefficients) - 1).max()),
        points=tuple(points),
    )


def crossing(one: Cost, other: Cost) -> Crossing | None:
    """The batch size at which a call of one batch takes equally long; None where there is none.

    The interval is Fieller's, for the ratio of the differences of fixed and of sample costs; the
    two fits count as independent, which is cautious, since they were measured in the same rounds.

    References:
        Fieller (1954), Some Problems in Interval Estimation, J. R. Stat. Soc. B 16.
    """
    above = one.fixed.estimate - other.fixed.estimate
    below = other.sample.estimate - one.sample.estimate
    if not below or above / below <= 0:
        return None
    v_above, v_below = (one.covariance[i][i] + other.covariance[i][i] for i in (0, 1))
    v_both = -(one.covariance[0][1] + other.covariance[0][1])
    freedom = min(one.freedom, other.freedom)
    reach = stats.interval_about(0.0, 1.0, freedom=freedom).high ** 2
    # (above - size * below)^2 <= reach * variance of that, as a quadratic in size
    a = below**2 - reach * v_below
    b = above * below - reach * v_both
    c = above**2 - reach * v_above
    root = b**2 - a * c
    low = high = None
    if a > 0 and root >= 0:
        low, high = ((b + sign * math.sqrt(root)) / a for sign in (-1, 1))
    return Crossing(batch_size=above / below, low=low, high=high)


def totals_of(cost: Cost, samples: int) -> list[Total]:
    """Cost of so many samples at each measured batch size, in ascending order.

    They are one call of several batches; where no such call was measured, a call for each batch.
    Batches larger than all the samples are one batch of these.
    """
    sizes = {min(point.batch_size, samples) for point in cost.points}
    return [_total(cost, samples, size) for size in sorted(sizes)]


def ranking(costs: Mapping[str, Cost], samples: int) -> list[Ranked]:
    """The ways for so many samples, each at its best batch size, the fastest first.

    Ways whose interval reaches 0 come last: they cannot be the answer. Differences have intervals
    that count the fits as independent, as in `crossing`.
    """
    best = [
        (label, min(totals_of(cost, samples), key=lambda total: total.seconds.high))
        for label, cost in costs.items()
    ]
    best.sort(key=lambda choice: (choice[1].seconds.low <= 0, choice[1].seconds.estimate))
    first, fastest = best[0]
    behind = {
        label: _difference((costs[first], fastest), (costs[label], total), samples)
        for label, total in best[1:]
    }
    return [Ranked(label=label, best=total, behind=behind.get(label)) for label, total in best]


def _total(cost: Cost, samples: int, size: int) -> Total:
    batches = math.ceil(samples / size)
    estimate, variance = _sum_of(cost, samples, batches)
    about = stats.interval_about(estimate, math.sqrt(variance), freedom=cost.freedom)
    return Total(
        batch_size=size,
        batches=batches,
        last_batch=samples - (batches - 1) * size,
        seconds=Interval(
            estimate=max(0.0, estimate), low=max(0.0, about.low), high=max(0.0, about.high)
        ),
    )


def _sum_of(cost: Cost, samples: int, batches: int) -> tuple[float, float]:
    """Seconds of so many samples in so many batches, and their variance."""
    parts = [part.estimate for part in (cost.fixed, cost.sample, cost.further) if part]
    counts = np.array([batches, samples] if len(parts) == 2 else [1, samples, batches - 1])
    variance = counts @ np.array(cost.covariance) @ counts
    return float(counts @ np.array(parts)), max(0.0, float(variance))


def _difference(fastest: tuple[Cost, Total], other: tuple[Cost, Total], samples: int) -> Interval:
    """Seconds that the other takes more."""
    (least, its_variance), (seconds, variance) = (
        _sum_of(cost, samples, total.batches) for cost, total in (fastest, other)
    )
    return stats.interval_about(
        seconds - least,
        math.sqrt(its_variance + variance),
        freedom=min(fastest[0].freedom, other[0].freedom),
    )


def copies_of(summaries: Iterable[TrialSummary]) -> Mapping[int, Mapping[str, float]]:
    """Median seconds of the copies of a call of one batch, alone, by batch size."""
    copies: dict[int, Mapping[str, float]] = {}
    for summary in summaries:
        for mode in summary.modes if summary.trial.batches == 1 else ():
            copied, returned = mode.columns.copy_input_ms, mode.columns.copy_output_ms
            if copied is not None and returned is not None:
                seconds = {"input": copied / 1e3, "output": returned / 1e3}
                copies.setdefault(summary.trial.batch_size, seconds)
    return dict(sorted(copies.items()))
