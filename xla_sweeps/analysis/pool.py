"""Spread between processes, learned from all trials of one device and effort. Pure.

A few replicates of one trial say little of how replicates differ; many trials together say much.

Only fresh processes say it. Older records may be of processes that were forked from one: they share
its layout of memory, and differ less. A trial with such a replicate learns from others, and they
nothing from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.interval import NORMAL_95, UNKNOWN, Numbers, Prior, errors_of
from xla_sweeps.schema.modes import is_aa_pair

MIN_FLOOR = 0.01

MIN_FREEDOM = 4
"""The fewest degrees of freedom from which a pooled variance is used."""

FREEDOM_A_TRIAL = 8
"""The most prior degrees of freedom of what differs between processes, times the number of trials.

Few trials do not say how trials differ: one, as where single replicates learn from the anchors
alone, says nothing of it. With 8, such an interval holds the truth in 93 % where the spread of
trials differs (standard deviation of its log 0.5), in 97 to 98 % where it does not (simulated by
`benchmarks/coverage.py`).
"""

LATEST = 200
"""Only so many trials of a device and effort count, the latest."""

MIN_AA_PAIRS = 20
"""The fewest A/A pairs that raise a floor."""

MAX_AA_PAIRS = 100
"""Only so many pairs count, the latest."""

FORKED = "forked"
"""Value of the column `process` of a trial with a forked replicate."""

Pair = tuple[str, str]
"""Labels of baseline and candidate."""


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """One comparison of one trial, as far as other trials learn from it.

    Attributes:
        measured_at: ISO time of its last replicate.
        replicates: how many count.
        speedup: the ratio.
        within_percent: standard error of one replicate's estimate, from its own rounds, percent.
        between_percent: standard deviation of the replicates' estimates, percent; None for one.
        aa_across: of an A/A pair, the ratio of its copies across processes, with its interval.
    """

    trial_id: str
    measured_at: str
    host: str
    baseline: str
    candidate: str
    headline: bool
    replicates: int
    speedup: float
    within_percent: float
    between_percent: float | None
    aa_across: float | None = None
    aa_across_low: float | None = None
    aa_across_high: float | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """Priors and floors of one device and effort.

    Attributes:
        priors: by pair of modes.
        headline: for other pairs.
        floors: the smallest relative difference that counts, by host.
        floors_across: the same between processes.
    """

    priors: Mapping[Pair, Prior] = field(default_factory=dict)
    headline: Prior = UNKNOWN
    floors: Mapping[str, float] = field(default_factory=dict)
    floors_across: Mapping[str, float] = field(default_factory=dict)

    def prior(self, baseline: str, candidate: str) -> Prior:
        """The prior of a pair of modes: its own where enough trials have one."""
        return self.priors.get((baseline, candidate), self.headline)

    def floor(self, host: str) -> float:
        """The floor of trials that a host measured."""
        return self.floors.get(host, MIN_FLOOR)

    def floor_across(self, host: str) -> float:
        """The floor of differences between processes of a host, at least its `floor`."""
        return max(self.floor(host), self.floors_across.get(host, MIN_FLOOR))


NOTHING = Pool()
"""No other trials."""


def pool_of(evidence: Iterable[Evidence]) -> Pool:
    """Priors and floors from the latest trials of one device and effort."""
    evidence = list(evidence)
    moments = {one.trial_id: one.measured_at for one in evidence}
    latest = {*sorted(moments, key=lambda trial: (moments[trial], trial))[-LATEST:]}
    counted = [one for one in evidence if one.trial_id in latest]
    counted.sort(key=lambda one: (one.measured_at, one.trial_id))
    several = [one for one in counted if one.replicates > 1]
    pairs: dict[Pair, list[Evidence]] = {}
    for one in several:
        pairs.setdefault((one.baseline, one.candidate), []).append(one)
    priors = {pair: prior_of(group) for pair, group in pairs.items()}
    pool = Pool(
        {pair: prior for pair, prior in priors.items() if prior is not UNKNOWN},
        prior_of([one for one in several if one.headline]),
    )
    twins: dict[str, list[Evidence]] = {}
    for one in counted:
        if is_aa_pair(one.baseline, one.candidate):
            twins.setdefault(one.host, []).append(one)
    return replace(
        pool,
        floors={
            host: floor_of([one.speedup for one in group], standard_errors(group, pool))
            for host, group in twins.items()
        },
        floors_across={host: _floor_across(group) for host, group in twins.items()},
    )


def _floor_across(twins: Iterable[Evidence]) -> float:
    """The floor between processes; Welch's degrees of freedom are taken as of equal spreads."""
    ratios, errors = [], []
    for pair in twins:
        if pair.aa_across and pair.aa_across_low and pair.aa_across_high:
            width = math.log(pair.aa_across_high / pair.aa_across_low)
            quantile = float(stats.special().stdtrit(pair.replicates - 2, 0.975))
            ratios.append(pair.aa_across)
            errors.append(width / 2 / quantile)
    return floor_of(ratios, np.array(errors))


def prior_of(evidence: Sequence[Evidence]) -> Prior:
    """The variance of one replicate's estimate from trials with several replicates each.

    The variance between processes is the mean of what the trials' variances exceed their squared
    errors within processes by. How much the trials' variances scatter beyond chance gives the prior
    degrees of freedom.

    Returns:
        `UNKNOWN` below `MIN_FREEDOM` degrees of freedom.

    References:
        Smyth (2004), Linear Models and Empirical Bayes Methods for Assessing Differential
        Expression in Microarray Experiments, section 6.2 (limma).
    """
    freedom = np.array([one.replicates - 1 for one in evidence], dtype=float)
    if freedom.sum() < MIN_FREEDOM:
        return UNKNOWN
    variance = np.array([one.between_percent or 0.0 for one in evidence]) ** 2 / 1e4
    within = np.array([one.within_percent for one in evidence]) ** 2 / 1e4
    between = max(0.0, float(freedom @ (variance - within) / freedom.sum()))
    expected = between + within
    share = between / float(expected.mean()) if between else 0.0
    most = FREEDOM_A_TRIAL * len(evidence) / share**2 if share else math.inf
    if not (expected > 0).all():
        return Prior(between, 1.0, most, float(freedom.sum()))
    ratio = np.maximum(variance / expected, 1e-5)
    special = stats.special()
    logs = np.log(ratio) - special.digamma(freedom / 2) + np.log(freedom / 2)
    excess = -math.inf
    if logs.size > 1:
        excess = float(np.var(logs, ddof=1) - special.polygamma(1, freedom / 2).mean())
    prior = 2 * stats.trigamma_inverse(excess) if excess > 0 else math.inf
    if prior >= most:
        return Prior(between, 1.0, most, float(freedom.sum()))
    scale = math.exp(float(logs.mean() + special.digamma(prior / 2)) - math.log(prior / 2))
    return Prior(between, scale, prior, float(freedom.sum()))


def floor_of(ratios: Sequence[float], errors: Numbers) -> float:
    """The smallest relative difference that counts, from A/A pairs of one host and kind.

    Args:
        ratios: of the pairs, the latest last.
        errors: standard errors of their logs.

    Returns:
        What 95 % of pairs of copies differ by beyond what their own errors explain (a random-effect
        model with mean zero), from the latest `MAX_AA_PAIRS`; 1 % where that is less, or where
        there are fewer than `MIN_AA_PAIRS`.

    References:
        Paule & Mandel (1982), Consensus Values and Weighting Factors.
    """
    if len(ratios) < MIN_AA_PAIRS:
        return MIN_FLOOR
    squares = np.log(ratios[-MAX_AA_PAIRS:]) ** 2
    variances = errors[-MAX_AA_PAIRS:] ** 2
    low, high = 0.0, float(squares.max())
    if high == 0 or float((squares / np.maximum(variances, 1e-18)).sum()) <= squares.size:
        return MIN_FLOOR
    for _ in range(60):
        middle = (low + high) / 2
        if float((squares / (variances + middle)).sum()) > squares.size:
            low = middle
        else:
            high = middle
    return max(MIN_FLOOR, math.expm1(NORMAL_95 * math.sqrt(high)))


def standard_errors(evidence: Sequence[Evidence], pool: Pool) -> Numbers:
    """Standard errors of the log speedups, as their intervals have them."""
    numbers = {
        name: np.array([getattr(one, name) or 0.0 for one in evidence])
        for name in ("within_percent", "between_percent", "replicates")
    }
    priors = np.array([pool.prior(one.baseline, one.candidate) for one in evidence])
    return errors_of(numbers, priors)[0]
