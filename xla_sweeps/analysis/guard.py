"""Verdicts on a change from pairs of processes, one of each side. Pure.

Each pair of fresh processes, which took turns, gives one number for each mode:

    log(after / before) = change + order + pair

Orders alternate, and what the second process loses or gains is estimated with the change. Student's
t over the pairs' own variance gives the interval: how much processes differ on a machine that never
measured before is unknown, and a prior that is too small finds differences between equal sides. The
pairs are looked at after numbers that are fixed before the first: a look after every pair finds one
in every fourth guard.

A neighbour's load, or a slow state of the machine, lasts over several pairs. Few pairs do not show
that, so before the last look only a large difference is named. Where pairs resemble their
neighbours, the error is that of runs of pairs. Where equal sides on a machine in two states explain
the pairs as well as a change does, the interval contains no change.

References:
    Alexopoulos & Seila (1996), Implementing the Batch Means Method in Simulation Experiments.
    Pocock (1977), Group Sequential Methods in the Design and Analysis of Clinical Trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.interval import LEAST, Numbers
from xla_sweeps.schema.columns import Verdict

LOOK = 4  # pairs between two looks

LEVELS = (0.05, 0.0262, 0.0188, 0.0152, 0.013, 0.0116)
"""Significance level of each look by the number of looks: at most 5 % over all of them.

The modes that are judged share it. Simulated by `benchmarks/guard.py`.
"""

MAX_PAIRS = LOOK * len(LEVELS)

EARLY = 3
"""Before the last look a difference is named only beyond this multiple of `detect`."""

ALIKE = 1.0
"""Standard errors of the correlation of neighbouring pairs above which runs give the error."""

RUN, FEWEST_RUNS = 4, 3  # pairs of a run, and the fewest runs that give an error

LASTS = 7.0  # pairs that a state of the machine is assumed to last on average

TAILS = 5.0
"""Degrees of freedom of the distribution about a state: few lone pairs are taken for one."""


class Pair(NamedTuple):
    """One pair of processes: whether before's started first, and log(after / before) by mode."""

    before_first: bool
    ratios: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Change of one mode.

    Attributes:
        change: relative change of the time of a call: 0.03 is 3 % slower.
        low: lower bound of its interval, at `confidence`; `high` likewise.
        missed: the relative difference that would have been missed half the time.
        confidence: of the interval at this look.
        spread: standard deviation of one pair's ratio.
    """

    mode: str
    verdict: Verdict
    change: float
    low: float
    high: float
    missed: float
    pairs: int
    confidence: float
    spread: float


def looks_within(pairs: float) -> int:
    """The number of looks that so many pairs allow, at most."""
    return max(0, min(len(LEVELS), int(pairs // LOOK)))


def is_enough(pairs: Sequence[Pair], mode: str) -> bool:
    """True if a verdict on a mode can be given: a look's pairs measured it, in both orders."""
    orders = [pair.before_first for pair in pairs if mode in pair.ratios]
    return len(orders) >= LOOK and len(set(orders)) == 2


def is_settled(changes: Sequence[Change]) -> bool:
    """True if no further pair is needed: every mode has a verdict."""
    return all(change.verdict is not Verdict.AMBIGUOUS for change in changes)


def judge(pairs: Sequence[Pair], mode: str, *, looks: int, modes: int, detect: float) -> Change:
    """The verdict on a mode at a look: `equivalent` within `detect`, else by the sign."""
    measured = [pair for pair in pairs if mode in pair.ratios]
    ratios = np.array([pair.ratios[mode] for pair in measured])
    orders = [pair.before_first for pair in measured]
    middle, error, freedom, spread = fit(ratios, orders)
    level = 1 - LEVELS[looks - 1] / modes
    interval = stats.interval_about(
        float(middle), float(error), freedom=float(freedom), level=level
    )
    low, high = interval.low, interval.high
    if low * high > 0 and not is_beyond_states(ratios, orders):
        low, high = min(low, 0.0), max(high, 0.0)
    bound = math.log1p(detect)
    least = 0.0 if len(pairs) >= LOOK * looks else EARLY * bound
    verdict = (
        Verdict.EQUIVALENT
        if -bound < low and high < bound
        else Verdict.SLOWER
        if low > least
        else Verdict.FASTER
        if high < -least
        else Verdict.AMBIGUOUS
    )
    return Change(
        mode=mode,
        verdict=verdict,
        change=math.expm1(middle),
        low=math.expm1(low),
        high=math.expm1(high),
        missed=math.expm1(interval.high - float(middle)),
        pairs=len(measured),
        confidence=level,
        spread=float(spread),
    )


def fit(ratios: Numbers, before_first: Sequence[bool]) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """The change and the effect of the order, by least squares.

    The error is that of runs of pairs where neighbours are alike.

    Args:
        ratios: log ratios of pairs, shape (..., n), n at least 3.
        before_first: the order of each pair, both of them among these; shape (n,).

    Returns:
        The change, its standard error, the degrees of freedom of that, and the standard deviation
        of one pair; shape (...) each.
    """
    design = _design_of(before_first)
    coefficients = ratios @ np.linalg.pinv(design).T
    left = len(before_first) - design.shape[1]
    residuals = ratios - coefficients @ design.T
    squares = np.square(residuals).sum(axis=-1)
    variance = np.maximum(squares / left, LEAST)
    scale = np.linalg.inv(design.T @ design)[0, 0]
    error, freedom = np.sqrt(variance * scale), np.full(variance.shape, float(left))
    count, runs = len(before_first), len(before_first) // RUN
    if runs >= FEWEST_RUNS:
        products = (residuals[..., 1:] * residuals[..., :-1]).sum(axis=-1)
        alike = count * products + squares > ALIKE * math.sqrt(count) * squares
        latest = residuals[..., count - runs * RUN :]
        means = latest.reshape(*variance.shape, runs, RUN).mean(axis=-1)
        of_runs = np.sqrt(np.square(means).sum(axis=-1) / (runs - 1) / runs)
        error = np.where(alike, np.maximum(error, of_runs), error)
        freedom = np.where(alike, runs - 1.0, freedom)
    return coefficients[..., 0], error, freedom, np.sqrt(variance)


def is_beyond_states(ratios: Numbers, before_first: Sequence[bool]) -> bool:
    """True if a change explains pairs better than equal sides on a machine in two states.

    A state lasts for `LASTS` pairs, and the first may be either; one side loses in the one what the
    other side loses in the other. Likelihoods are the largest of some distances and scatters.

    Args:
        ratios: log ratios of pairs, shape (n,).
        before_first: the order of each pair, whose effect is taken out; shape (n,).

    References:
        Rabiner (1989), A Tutorial on Hidden Markov Models, section III A (the forward procedure).
    """
    design = _design_of(before_first)
    ratios = ratios - design[:, 1] * (np.linalg.pinv(design) @ ratios)[1]
    size = max(float(np.median(np.abs(ratios))), math.sqrt(LEAST))
    grid = np.meshgrid(np.linspace(0.15, 2, 10), np.geomspace(0.15, 2, 8))
    apart, scatter = (size * values for values in grid)
    slower, faster = (
        -(TAILS + 1) / 2 * np.log1p(((ratios[:, None, None] - level) / scatter) ** 2 / TAILS)
        - np.log(scatter)
        for level in (apart, -apart)
    )
    stays, ends = math.log1p(-1 / LASTS), -math.log(LASTS)
    up, down = slower[0], faster[0]
    for one, other in zip(slower[1:], faster[1:], strict=True):
        up, down = (
            np.logaddexp(up + stays, down + ends) + one,
            np.logaddexp(down + stays, up + ends) + other,
        )
    changed = max(slower.sum(axis=0).max(), faster.sum(axis=0).max())
    return bool(changed > np.logaddexp(up, down).max() - math.log(2))


def _design_of(before_first: Sequence[bool]) -> Numbers:
    """The columns of a change and of the order."""
    return np.column_stack([np.ones(len(before_first)), np.where(before_first, 1.0, -1.0)])
