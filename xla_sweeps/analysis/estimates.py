"""From the rounds of replicates to one interval, verdict and p-value of a log ratio. Pure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.pool import MIN_REPLICATES, NORMAL_95, Numbers, errors_of
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Round
from xla_sweeps.schema.row import Estimate

LEVEL = 0.95

NARROWER = 0.9
"""Inside the floor on both sides at this level, two one-sided 5 % tests find equivalence."""


def over_replicates(within: Sequence[Interval]) -> Interval | None:
    """Mean of the replicates' estimates with Student's t interval, from three replicates on.

    Fewer have no interval: drift of the machine makes the rounds of one process alike, so that the
    interval of their level would hold the truth in about half of all cases. (Drift leaves ratios,
    which are paired.)
    """
    if not within:
        return None
    level, estimates = within[0].level, [interval.estimate for interval in within]
    if len(within) >= MIN_REPLICATES:
        return stats.t_interval(estimates, level=level)
    mean = statistics.fmean(estimates)
    return Interval(estimate=mean, low=-math.inf, high=math.inf, level=level)


def variance_budget(within: Sequence[Interval]) -> dict[str, Any]:
    """Where the uncertainty comes from, in percent: rounds within a replicate, or the replicates.

    The larger says what to increase: time per replicate, or the number of replicates.

    Args:
        within: intervals of the log speedup, of each replicate, at 95 %.
    """
    errors = [(interval.high - interval.low) / 2 / NORMAL_95 for interval in within]
    estimates = [interval.estimate for interval in within]
    return {
        "within_percent": 100 * statistics.fmean(errors) if errors else None,
        "between_percent": 100 * statistics.stdev(estimates) if len(estimates) > 1 else None,
    }


def verdict_of(interval: Interval, narrower: Interval, *, floor: float) -> Verdict:
    """Verdict on a log speedup: faster or slower where the whole interval lies past the floor.

    Args:
        interval: at 95 %.
        narrower: at 90 %: inside the floor on both sides, two one-sided 5 % tests find equivalence.
        floor: the smallest relative difference that counts.
    """
    bound = math.log1p(floor)
    if interval.low > bound:
        return Verdict.FASTER
    if interval.high < -bound:
        return Verdict.SLOWER
    if -bound < narrower.low and narrower.high < bound:
        return Verdict.EQUIVALENT
    return Verdict.AMBIGUOUS


@dataclass(frozen=True, slots=True)
class Judgement:
    """Intervals, p-values and verdicts of speedups, an array each.

    Attributes:
        low: of the speedup's interval at `LEVEL`; so is `high`, and `_90` at `NARROWER`.
        freedom: degrees of freedom of the interval; NaN where it holds within the processes only.
        p_value: of the speedup against the floor; NaN where `freedom` is.
    """

    low: Numbers
    high: Numbers
    low_90: Numbers
    high_90: Numbers
    freedom: Numbers
    p_value: Numbers
    verdict: list[Verdict]


def judge(
    speedup: Numbers,
    *,
    within_percent: Numbers,
    between_percent: Numbers,
    replicates: Numbers,
    priors: Numbers,
    floor: Numbers,
) -> Judgement:
    """Judge speedups, each from its replicates and from what other trials say of their spread.

    A verdict is a difference exactly where the p-value is below 0.05, wherever there is one.

    Args:
        speedup: the ratios.
        within_percent: as in `errors_of`.
        between_percent: likewise.
        replicates: likewise.
        priors: likewise.
        floor: the smallest relative difference that counts.
    """
    special = stats.special()
    logs, bound = np.log(speedup), np.log1p(floor)
    error, freedom, extra = errors_of(
        within_percent=within_percent,
        between_percent=between_percent,
        replicates=replicates,
        priors=priors,
    )
    wide, narrow = (
        extra + error * special.stdtrit(freedom, (1 + level) / 2) for level in (LEVEL, NARROWER)
    )
    low, high = logs - wide, logs + wide
    excess = np.abs(logs) - bound
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = 2 * special.stdtr(freedom, -excess / error)
    p_value = np.where(error > 0, np.fmin(1.0, p_value), np.where(excess > 0, 0.0, 1.0))
    verdict = np.select(
        [low > bound, high < -bound, (logs - narrow > -bound) & (logs + narrow < bound)],
        [0, 1, 2],
        3,
    )
    words = (Verdict.FASTER, Verdict.SLOWER, Verdict.EQUIVALENT, Verdict.AMBIGUOUS)
    return Judgement(
        np.exp(low),
        np.exp(high),
        np.exp(logs - narrow),
        np.exp(logs + narrow),
        np.where(np.isinf(freedom), np.nan, freedom),
        np.where(np.isinf(freedom), np.nan, p_value),
        [words[place] for place in verdict],
    )


def break_even(
    judgement: Judgement, speedup: Numbers, *, extra_s: Numbers, baseline_s: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Calls after which extra time is paid back, with its least and its most.

    NaN where the verdict is not faster: then nothing is known to be gained.

    Args:
        judgement: of the speedups.
        speedup: the ratios.
        extra_s: the extra time with its least and its most, shape (n, 3), seconds.
        baseline_s: a call of the baseline, seconds.
    """
    faster = np.array([verdict is Verdict.FASTER for verdict in judgement.verdict], dtype=bool)
    least, most = judgement.high, judgement.low
    with np.errstate(divide="ignore", invalid="ignore"):
        value, low, high = (
            np.where(faster, np.maximum(0.0, extra) / (baseline_s * (1 - 1 / ratio)), np.nan)
            for extra, ratio in zip(extra_s.T, (speedup, least, most), strict=True)
        )
    return value, low, high


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
    turned = Interval(estimate=-log_s.estimate, low=-log_s.high, high=-log_s.low, level=log_s.level)
    return exponentiated(turned, batch_size)


Seconds = npt.NDArray[np.float64]


def counting(
    samples: Sequence[Samples], *labels: str, contaminated: bool = False
) -> tuple[list[Seconds], bool]:
    """Seconds a call of the replicates that count, and whether what counts is contaminated.

    The first of these that there is counts: the uncontaminated rounds of clean replicates, those of
    contaminated replicates, all rounds. What counts is never chosen by the figures themselves.

    Args:
        samples: of each replicate.
        labels: of modes; only rounds that hold all of them count.
        contaminated: take all rounds of all replicates.

    Returns:
        Shape (rounds, modes) for each replicate with at least `stats.MIN_PAIRS` such rounds.
    """
    if not contaminated:
        quiet = [(item.contaminated, item.call_s(*labels)) for item in samples]
        enough = [(busy, call_s) for busy, call_s in quiet if len(call_s) >= stats.MIN_PAIRS]
        if enough:
            clean = [call_s for busy, call_s in enough if not busy]
            return clean or [call_s for _, call_s in enough], not clean
    every = [item.call_s(*labels, contaminated=True) for item in samples]
    every = [call_s for call_s in every if len(call_s) >= stats.MIN_PAIRS]
    return every, bool(every)


class Replicates:
    """The replicates of one trial: which of their blocks count, and the intervals of these.

    Args:
        samples: of each replicate.
    """

    def __init__(self, samples: Sequence[Samples]) -> None:
        self.samples = samples
        self._counting: dict[tuple[str, ...], tuple[list[Seconds], bool]] = {}
        self._within: dict[tuple[str, ...], list[Interval]] = {}

    def counting(self, *labels: str) -> tuple[list[Seconds], bool]:
        """What counts of one mode, or of a pair: `counting`."""
        if labels not in self._counting:
            self._counting[labels] = counting(self.samples, *labels)
        return self._counting[labels]

    def within(self, *labels: str) -> list[Interval]:
        """The interval, at `LEVEL`, of each replicate that counts, from its rounds.

        Args:
            labels: of one mode, for log seconds a call; of two, for the log of first / second.
        """
        if labels not in self._within:
            compute_intervals([(self, labels)])
        return self._within[labels]


def compute_intervals(wanted: Iterable[tuple[Replicates, tuple[str, ...]]]) -> None:
    """Compute what `Replicates.within` gives of these modes and pairs of modes, all at once."""
    asked = [(replicates, labels, replicates.counting(*labels)[0]) for replicates, labels in wanted]
    logs = _logs([figures for *_, call_s in asked for figures in call_s])
    found = iter(stats.signed_rank_intervals(logs))
    for replicates, labels, call_s in asked:
        replicates._within[labels] = list(itertools.islice(found, len(call_s)))


def log_ratios(call_s: Iterable[Seconds]) -> list[Seconds]:
    """log(first mode / second mode) of each round, of each replicate that `counting` gave."""
    return _logs(list(call_s))


def _logs(call_s: Sequence[Seconds]) -> list[Seconds]:
    """The log of one mode's seconds a call, or of the ratio of two's, of each replicate.

    All logs are computed at once, which is faster.
    """
    figures = [one[:, 0] if one.shape[1] == 1 else one[:, 0] / one[:, 1] for one in call_s]
    logs = np.log(np.concatenate([np.empty(0), *figures]))
    ends = itertools.accumulate(map(len, figures))
    return [logs[end - len(one) : end] for one, end in zip(figures, ends, strict=True)]


class Samples:
    """The blocks of one replicate.

    Args:
        rounds: in the order they were measured.
        contaminated: whether the replicate is.
    """

    def __init__(self, rounds: Sequence[Round], *, contaminated: bool = False) -> None:
        self.contaminated = contaminated
        found = [
            {block.mode: block.elapsed_ns / block.calls / 1e9 for block in item.blocks}
            for item in rounds
        ]
        labels: dict[str, float] = {}
        for call_s in found:
            labels.update(call_s)
        self._place = {label: place for place, label in enumerate(labels)}
        self._call_s = np.array(
            [[call_s.get(label, math.nan) for call_s in found] for label in labels]
        )
        quiet = [not item.dirty for item in rounds]
        self._quiet = np.array(quiet, dtype=bool)
        self._whole = all(quiet) and all(len(call_s) == len(labels) for call_s in found)

    def call_s(self, *labels: str, contaminated: bool = False) -> Seconds:
        """Seconds a call of these modes in the rounds that hold all of them, shape (rounds, modes).

        Args:
            labels: of modes; one that was never measured gives no rounds.
            contaminated: include contaminated rounds.
        """
        try:
            places = [self._place[label] for label in labels]
        except KeyError:
            return np.empty((0, len(labels)))
        kept: Seconds = self._call_s[places]
        if not self._whole:
            counts = ~np.isnan(kept).any(axis=0)
            kept = kept[:, counts if contaminated else counts & self._quiet]
        return kept.T
