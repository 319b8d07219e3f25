"""Spread between processes, learned from all trials of one device and effort. Pure.

A few replicates of one trial say little of how replicates differ; many trials together say much.

Only fresh processes say it. Older records may be of processes that were forked from one: they share
its layout of memory, and differ less. A trial with such a replicate learns from others, and they
nothing from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.interval import (
    BUILT_IN,
    FREEDOM,
    LEAST,
    NORMAL_95,
    Numbers,
    Prior,
    built_in,
    errors_of,
)
from xla_sweeps.schema.modes import is_aa_pair
from xla_sweeps.schema.row import Figure

MIN_FLOOR = 0.01

MIN_FREEDOM = 4
"""The fewest degrees of freedom from which a mode or a pair learns from its own trials alone."""

LATEST = 200
"""Only so many trials of a device and effort count, the latest."""

MIN_AA_PAIRS = 6
"""The fewest A/A pairs that raise a floor."""

MAX_AA_PAIRS = 100
"""Only so many pairs count, the latest."""

SLOPE_WEIGHT = 4.0
"""Weight of the assumption that processes differ alike however rounds do.

It is that of some trials: the slope is 0 for one trial, and free for a sweep of twenty.
"""

ACROSS = "aa_across"
"""Name of the figure of an A/A pair across processes, which no other learns from."""

Key = tuple[str, tuple[str, ...]]
"""Name and labels of a figure."""


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """The figures of one trial, as far as other trials learn from them.

    Attributes:
        measured_at: ISO time of its last replicate.
    """

    trial_id: str
    measured_at: str
    host: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Pool:
    """Priors and floors of one device and effort.

    Attributes:
        priors: by figure and labels, where their own trials say enough.
        common: by figure, of all labels together.
        floors: the smallest relative difference that counts, by host.
        floors_across: the same between processes.
    """

    priors: Mapping[Key, Prior] = field(default_factory=dict)
    common: Mapping[str, Prior] = field(default_factory=dict)
    floors: Mapping[str, float] = field(default_factory=dict)
    floors_across: Mapping[str, float] = field(default_factory=dict)

    def prior(self, figure: Figure) -> Prior:
        """The prior of a figure; the built-in one where no trial says anything."""
        own = self.priors.get((figure.name, figure.labels))
        return own or self.common.get(figure.name) or built_in(figure.name)

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
    latest = sorted(evidence, key=lambda one: (one.measured_at, one.trial_id))[-LATEST:]
    groups: dict[Key, list[Figure]] = {}
    names: dict[str, list[Figure]] = {}
    twins: dict[tuple[str, str], list[Figure]] = {}
    for one in latest:
        for figure in one.figures:
            if figure.contaminated:
                continue
            if figure.replicates > 1 and figure.name in BUILT_IN:
                groups.setdefault((figure.name, figure.labels), []).append(figure)
                names.setdefault(figure.name, []).append(figure)
            if figure.name == ACROSS or (figure.name == "speedup" and is_aa_pair(*figure.labels)):
                twins.setdefault((figure.name, one.host), []).append(figure)
    pool = Pool(
        {key: prior_of(group) for key, group in groups.items() if _freedom(group) >= MIN_FREEDOM},
        {name: prior_of(group) for name, group in names.items()},
    )
    floors: dict[str, dict[str, float]] = {ACROSS: {}, "speedup": {}}
    for (name, host), group in twins.items():
        if name == ACROSS:
            errors = np.sqrt([figure.within for figure in group])
        else:
            errors = errors_of(group, list(map(pool.prior, group)))[0]
        floors[name][host] = floor_of([figure.mean for figure in group], errors)
    return Pool(pool.priors, pool.common, floors["speedup"], floors[ACROSS])


def _freedom(figures: Iterable[Figure]) -> int:
    """The degrees of freedom that these say together of how processes differ."""
    return sum(figure.replicates - 1 for figure in figures)


def prior_of(figures: Sequence[Figure]) -> Prior:
    """The spread of one replicate's estimate from trials with several replicates each.

    The built-in spread counts like one more trial, of `FREEDOM` degrees of freedom. The slope is
    that of the log variances over those within processes, drawn towards 0 where little is known.
    The variance between processes is the mean of what the trials' variances exceed those within by.
    The scale lies halfway, in logs, between this mean and the typical trial: so a few noisy trials
    do not widen the intervals of all others, and are not called quiet either.

    Args:
        figures: of one name, at least one, each with several replicates.

    References:
        Smyth (2004), section 6.2: mean and variance of the log of a variance; Law, Chen, Shi &
        Smyth (2014), voom, and Phipson et al. (2016), for a trend of the prior (limma-trend).
    """
    facts = [(one.replicates - 1, one.between, one.within) for one in figures]
    freedom, variance, within = np.array(facts, dtype=float).T
    within = np.maximum(within, LEAST)
    logs, weights = _log_variances(np.maximum(variance, LEAST), freedom)
    middle = np.log(within) - np.average(np.log(within), weights=weights)
    slope = float((weights * middle) @ logs / ((weights * middle) @ middle + SLOPE_WEIGHT))
    slope = min(1.0, max(0.0, slope))
    typical = math.exp(float(np.average(np.log(within), weights=weights)))
    freedom, within = np.append(freedom, FREEDOM), np.append(within, typical)
    variance = np.append(variance, built_in(figures[0].name).between + typical)
    trend = (within / typical) ** slope
    between = max(0.0, float(freedom @ ((variance - within) / trend) / freedom.sum()))
    ratio = np.maximum(variance / (between * trend + within), 1e-5)
    logs, weights = _log_variances(ratio, freedom)
    return Prior(between, math.exp(float(np.average(logs, weights=weights)) / 2), typical, slope)


def _log_variances(variance: Numbers, freedom: Numbers) -> tuple[Numbers, Numbers]:
    """The logs of variances without the bias of few degrees of freedom, and their weights."""
    special, half = stats.special(), freedom / 2
    logs: Numbers = np.log(variance) - special.digamma(half) + np.log(half)
    weights: Numbers = 1 / special.polygamma(1, half)
    return logs, weights


def floor_of(logs: Sequence[float], errors: Numbers) -> float:
    """The smallest relative difference that counts, from A/A pairs of one host and kind.

    Args:
        logs: of the pairs' ratios, the latest last.
        errors: their standard errors.

    Returns:
        What 95 % of pairs of copies differ by beyond what their own errors explain (a random-effect
        model with mean zero, its variance estimated without bias of the median), from the latest
        `MAX_AA_PAIRS`; 1 % where that is less, or where there are fewer than `MIN_AA_PAIRS`.

    References:
        Paule & Mandel (1982), Consensus Values and Weighting Factors; Viechtbauer (2007),
        Confidence Intervals for the Amount of Heterogeneity in Meta-Analysis (Q profile).
    """
    if len(logs) < MIN_AA_PAIRS:
        return MIN_FLOOR
    squares = np.array(logs[-MAX_AA_PAIRS:]) ** 2
    variances = np.maximum(errors[-MAX_AA_PAIRS:] ** 2, 1e-18)
    median = float(stats.special().chdtri(squares.size, 0.5))
    low, high = 0.0, 2 * float(squares.max()) * squares.size
    if float((squares / variances).sum()) <= median:
        return MIN_FLOOR
    for _ in range(60):
        middle = (low + high) / 2
        if float((squares / (variances + middle)).sum()) > median:
            low = middle
        else:
            high = middle
    return max(MIN_FLOOR, math.expm1(NORMAL_95 * math.sqrt(high)))
