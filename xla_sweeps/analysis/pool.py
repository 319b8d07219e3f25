"""Spread between processes, learned from all trials of one device and effort. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.interval import (
    BUILT_IN,
    FREEDOM,
    LEAST,
    MOST_FREEDOM,
    NORMAL_95,
    Numbers,
    Prior,
    built_in,
    errors_of,
    is_noisy,
)
from xla_sweeps.schema.comparisons import is_aa_pair
from xla_sweeps.schema.row import Figure

MIN_FLOOR = 0.01

MIN_FREEDOM = 4
"""The fewest degrees of freedom from which a mode or a pair learns from its own trials alone."""

LATEST = 200  # only so many trials of a device and effort count, the latest

MIN_AA_PAIRS = 6  # the fewest A/A pairs that raise a floor

MAX_AA_PAIRS = 100  # only so many pairs count, the latest

FAR = 4.0
"""Ratio of a round's variance to the largest that was seen, above which a prior may not hold."""

FEWEST_ALIKE = 3  # trials that show how alike they are
LIMMA_FREEDOM = 15  # the fewest degrees of freedom from which variances show how uneven they are

STEPS = 100  # steps in which the spread is fitted; each makes it likelier

ACROSS = "aa_across"
"""Name of the figure of an A/A pair across processes, which no other learns from."""

Key = tuple[str, tuple[str, ...]]
"""Name and labels of a figure."""


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """The figures of one trial, as far as others learn from them, and when it was measured."""

    trial_id: str
    measured_at: str
    host: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Pool:
    """Priors and floors of one device and effort.

    Attributes:
        priors: by figure and labels, where their own trials say enough.
        floors: the smallest relative difference that counts, by figure, host and `is_noisy`: pairs
            that the host holds up say nothing of trials that keep the device busy.
    """

    priors: Mapping[Key, Prior] = field(default_factory=dict)
    common: Mapping[str, Prior] = field(default_factory=dict)
    floors: Mapping[tuple[str, str, bool], float] = field(default_factory=dict)

    def prior(self, figure: Figure) -> Prior:
        """The prior of a figure; the built-in one where no trial says anything.

        Trials of steady rounds say nothing of one whose rounds scatter far more.
        """
        own = self.priors.get((figure.name, figure.labels))
        learned = own or self.common.get(figure.name)
        if learned and figure.scatter <= FAR * learned.scatter:
            return learned
        unknown = built_in(figure.name, on_gpu=figure.on_gpu, scatter=figure.scatter)
        if learned is None or unknown.variance_of(figure) > learned.variance_of(figure):
            return unknown
        return learned._replace(freedom=FREEDOM)

    def floor(self, host: str, *, noisy: bool = False) -> float:
        """The floor of trials that a host measured, by whether they are noisy."""
        return self.floors.get(("speedup", host, noisy), MIN_FLOOR)

    def floor_across(self, host: str, *, noisy: bool = False) -> float:
        """The floor of differences between processes of a host, at least its `floor`."""
        return max(self.floor(host, noisy=noisy), self.floors.get((ACROSS, host, noisy), MIN_FLOOR))


NOTHING = Pool()
"""No other trials."""


def pool_of(evidence: Iterable[Evidence]) -> Pool:
    """Priors and floors from the latest trials of one device and effort."""
    latest = sorted(evidence, key=lambda one: (one.measured_at, one.trial_id))[-LATEST:]
    groups: dict[Key, list[Figure]] = {}
    names: dict[str, list[Figure]] = {}
    twins: dict[tuple[str, str, bool], list[Figure]] = {}
    for one in latest:
        for figure in one.figures:
            if figure.contaminated:
                continue
            if figure.replicates > 1 and figure.name in BUILT_IN:
                groups.setdefault((figure.name, figure.labels), []).append(figure)
                names.setdefault(figure.name, []).append(figure)
            if figure.name == ACROSS or (figure.name == "speedup" and is_aa_pair(*figure.labels)):
                kind = (figure.name, one.host, is_noisy(figure))
                twins.setdefault(kind, []).append(figure)
    freedom = {key: sum(one.replicates - 1 for one in group) for key, group in groups.items()}
    pool = Pool(
        {key: prior_of(group) for key, group in groups.items() if freedom[key] >= MIN_FREEDOM},
        {name: prior_of(group) for name, group in names.items()},
    )
    floors = {}
    for kind, group in twins.items():
        if kind[0] == ACROSS:
            errors = np.sqrt([figure.within for figure in group])
        else:
            errors = errors_of(group, list(map(pool.prior, group)))[0]
        floors[kind] = floor_of([figure.mean for figure in group], errors)
    return replace(pool, floors=floors)


def prior_of(figures: Sequence[Figure]) -> Prior:
    """The spread of one replicate's estimate from trials with several replicates each.

    The parts of the variance, `between` and `share`, are the likeliest, where each built-in one
    counts like one more trial of `FREEDOM` degrees of freedom. The scale lies halfway, in logs,
    between this mean and the typical trial: so a few noisy trials do not widen the intervals of all
    others, and are not called quiet either. It is 1 where processes of a trial agree exactly: their
    values come in steps, as memory does, and the log of no variance tells nothing.

    It is worth as many degrees of freedom as the trials are alike, in their rounds' variances and,
    from `LIMMA_FREEDOM` on, between processes; and no more than they have together.

    References:
        Smyth (2004), section 6.2: mean and variance of the log of a variance, and degrees of
        freedom of the prior; Févotte & Idier
        (2011), Algorithms for Nonnegative Matrix Factorization with the beta-Divergence: the steps.
    """
    facts = [(one.replicates - 1, one.between, one.within, one.scatter) for one in figures]
    assumed = built_in(figures[0].name, on_gpu=figures[0].on_gpu)
    freedom, variance, within, scatter = np.array(
        [*facts, (FREEDOM, assumed.between, 0, 0), (FREEDOM, assumed.share, 0, 0)], dtype=float
    ).T
    parts = np.stack([np.ones_like(scatter), scatter], axis=1)
    parts[-2:] = np.eye(2)
    fitted = np.array([assumed.between, assumed.share])
    for _ in range(STEPS):
        mean = np.maximum(parts @ fitted + within, LEAST)
        fitted *= np.sqrt((freedom * variance / mean**2) @ parts / ((freedom / mean) @ parts))
    ratio = np.maximum(variance / np.maximum(parts @ fitted + within, LEAST), 1e-5)
    logs, weights = _log_variances(ratio[:-1], freedom[:-1])
    scale = math.exp(float(np.average(logs, weights=weights)) / 2) if variance.all() else 1.0
    own = freedom[:-2]
    rounds = np.array([one.scatter / one.within - 1 if one.within else 0.0 for one in figures])
    worth = _evenness(scatter[:-2], np.maximum(0.0, rounds) * (own + 1))
    if own.sum() >= LIMMA_FREEDOM:
        by_process = _evenness(ratio[:-2], own)
        worth = min(worth, by_process) if scatter.any() else by_process
    worth = max(FREEDOM, 1 / (1 / worth + 1 / (own.sum() + 2 * FREEDOM)))
    return Prior(float(fitted[0]), float(fitted[1]), scale, worth, float(scatter.max()) or math.inf)


def _evenness(variance: Numbers, freedom: Numbers) -> float:
    """Degrees of freedom of the prior from which variances come, from `FREEDOM` to `MOST_FREEDOM`.

    `FREEDOM` where they are too few to tell, or a variance is 0.
    """
    if variance.size < FEWEST_ALIKE or not (variance * freedom).all():
        return FREEDOM
    logs, weights = _log_variances(variance, freedom)
    middle, size = float(np.average(logs, weights=weights)), variance.size
    squares = size / (size - 1) * (logs - middle) ** 2
    apart = float(np.average(squares - 1 / weights, weights=weights))
    special, worths = stats.special(), np.linspace(FREEDOM, MOST_FREEDOM, 61)
    alike = int((special.polygamma(1, worths / 2) > apart).sum())
    return float(worths[max(0, alike - 1)])


def _log_variances(variance: Numbers, freedom: Numbers) -> tuple[Numbers, Numbers]:
    """The logs of variances without the bias of few degrees of freedom, and their weights."""
    special, half = stats.special(), freedom / 2
    logs: Numbers = np.log(variance) - special.digamma(half) + np.log(half)
    weights: Numbers = 1 / special.polygamma(1, half)
    return logs, weights


def floor_of(logs: Sequence[float], errors: Numbers) -> float:
    """The smallest relative difference that counts, from A/A pairs of one host, the latest last.

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
