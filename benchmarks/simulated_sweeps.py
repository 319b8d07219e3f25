"""Simulated sweeps: the worlds that their trials come from, and figures of a known truth.

A sweep has 20 trials. A process adds its own deviation to all its rounds; rounds scatter beside it.
The worlds:

- `even`: all trials have the same spread between processes.
- `uneven`: a fifth of the trials have six times that spread, rounds and all.
- `heavy`: deviations of processes and of rounds have Student's t with 3 degrees of freedom.

Levels (throughput, compile time, latency) drift within a process (standard deviation 1 %,
correlation 0.9 from round to round) and share an effect of the day. Their truth is the day's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from xla_sweeps.analysis.interval import (
    Numbers,
    Prior,
    built_in,
    error_within,
    figure_of,
)
from xla_sweeps.analysis.pool import Pool, prior_of
from xla_sweeps.analysis.stats import (
    FALSE_DISCOVERY_RATE,
    log_quantile,
    q_values,
    signed_rank_interval,
)
from xla_sweeps.schema.row import Figure

SPREADS = (0.0, 0.005, 0.01, 0.02)
REPLICATES = (1, 2, 3, 5)
TRIALS, NOISY, DUPLICATES, ANCHORS = 20, 4, 4, 4
ROUNDS, ROUND_NOISE = 12, 0.006
DRIFT, CORRELATION = 0.01, 0.9
CALLS = 40

SLOW, STATE_ROUNDS = 0.8, 7
"""Part of the variance of rounds that is a state's, and the rounds that a state lasts."""

FLAT = Prior(0.015**2)
"""The prior of a speedup before rounds told how processes differ: 1.5 % everywhere."""

Draw = Callable[[tuple[int, ...]], Numbers]
"""Standard deviates of a shape."""


@dataclass(frozen=True, slots=True)
class World:
    """Scatter of the processes and rounds of a sweep's trials.

    Attributes:
        spreads: standard deviation between processes, of each trial.
        noises: of rounds within one.
        draw: standard deviates.
    """

    spreads: Numbers
    noises: Numbers
    draw: Draw

    @property
    def noisiest(self) -> npt.NDArray[np.intp]:
        """Places of the noisiest tenth of the trials."""
        return np.argsort(-self.spreads, kind="stable")[: TRIALS // 10]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A first trial.

    Attributes:
        name: in the table.
        processes: standard deviation between processes.
        rounds: of rounds within one.
        on_gpu: whether the device is a GPU.
        states: whether rounds are slow or fast for a while.
    """

    name: str
    processes: float
    rounds: float
    on_gpu: bool = True
    states: bool = False

    def drawn(self, source: np.random.Generator, replicates: int, rounds: int = ROUNDS) -> Numbers:
        """Log ratios of the rounds of each process, whose truth is 0."""
        own: Numbers = self.processes * source.normal(0, 1, (replicates, 1))
        noise: Numbers = source.normal(0, 1, (replicates, rounds))
        if self.states:
            switches = source.random((replicates, rounds)) < 1 / STATE_ROUNDS
            switches[:, 0] = source.random(replicates) < 0.5
            state = 1 - 2 * (np.cumsum(switches, axis=1) % 2)
            noise = math.sqrt(SLOW) * state + math.sqrt(1 - SLOW) * noise
        return own + self.rounds * noise


CASES = (
    Case(name="GPU, device-bound", processes=0.0012, rounds=0.005),
    Case(name="GPU, host-bound", processes=0.05, rounds=0.2),
    Case(name="GPU, host-bound in states", processes=0.05, rounds=0.2, states=True),
    Case(name="GPU, host-bound in states", processes=0.12, rounds=0.2, states=True),
    Case(name="CPU", processes=0.02, rounds=0.02, on_gpu=False),
    Case(name="CPU", processes=0.02, rounds=0.2, on_gpu=False),
)


def world_of(source: np.random.Generator, kind: str, spread: float) -> World:
    """A sweep's trials, of one of the kinds."""
    factors = np.ones(TRIALS)
    if kind == "uneven":
        factors[source.permutation(TRIALS)[:NOISY]] = 6

    def draw(shape: tuple[int, ...]) -> Numbers:
        if kind == "heavy":
            return source.standard_t(3, shape) / math.sqrt(3)
        return source.normal(0, 1, shape)

    return World(spread * factors, ROUND_NOISE * factors, draw)


def counts(replicates: int) -> list[int]:
    """Number of replicates of each trial of a sweep."""
    if replicates > 1:
        return [replicates] * TRIALS
    return [2 if place % DUPLICATES == 0 else 1 for place in range(TRIALS)]


def figure(name: str, rounds: Iterable[Numbers], *, on_gpu: bool = False) -> Figure:
    """The figure of the logs of each replicate's rounds."""
    rounds = list(rounds)
    within = [signed_rank_interval(values) for values in rounds]
    values, errors = [one.estimate for one in within], list(map(error_within, within))
    made = figure_of(name, ("graph", "xla"), values, errors, list(map(len, rounds)))
    return replace(made, on_gpu=on_gpu)


def prior(figures: Sequence[Figure]) -> Prior:
    """The prior that these trials give together."""
    several = [one for one in figures if one.replicates > 1]
    return prior_of(several) if several else built_in(figures[0].name, on_gpu=figures[0].on_gpu)


def priors(figures: Sequence[Figure]) -> list[Prior]:
    """The prior of each of these trials, which learn from each other."""
    pool = Pool({}, {figures[0].name: prior(figures)})
    return list(map(pool.prior, figures))


def ratios(world: World, times: Sequence[int]) -> list[Figure]:
    """Log speedups of the trials, whose truth is 0."""
    figures = []
    for place, replicates in enumerate(times):
        own = world.spreads[place] * world.draw((replicates, 1))
        rounds = own + world.noises[place] * world.draw((replicates, ROUNDS))
        figures.append(figure("speedup", rounds))
    return figures


def levels(world: World, times: Sequence[int], source: np.random.Generator) -> list[Figure]:
    """Log seconds a call of the trials, whose truth is 0; rounds of a process drift."""
    figures = []
    for place, replicates in enumerate(times):
        drift = np.empty((replicates, ROUNDS))
        drift[:, 0] = source.normal(0, DRIFT, replicates)
        for number in range(1, ROUNDS):
            step = source.normal(0, DRIFT * math.sqrt(1 - CORRELATION**2), replicates)
            drift[:, number] = CORRELATION * drift[:, number - 1] + step
        own = world.spreads[place] * world.draw((replicates, 1))
        rounds = own + drift + world.noises[place] * world.draw((replicates, ROUNDS))
        figures.append(figure("call", rounds))
    return figures


def latencies(
    world: World, times: Sequence[int], source: np.random.Generator, share: float, name: str
) -> list[Figure]:
    """Log percentiles of calls that are log-normal about a process's own level; the truth is 0."""
    figures = []
    middle = float(np.quantile(source.normal(0, 0.03, 200_000), share))
    for place, replicates in enumerate(times):
        own = world.spreads[place] * world.draw((replicates, 1))
        calls = own + source.normal(0, 0.03, (replicates, CALLS))
        values, errors = zip(*(log_quantile(np.exp(one), share) for one in calls), strict=True)
        figures.append(figure_of(name, ("graph",), [value - middle for value in values], errors))
    return figures


def single(world: World, times: Sequence[int], name: str, spread: float) -> list[Figure]:
    """A figure of which each process gives one number; the truth is 0."""
    factors = world.spreads / max(float(world.spreads.min()), 1e-12) if spread else world.spreads
    return [
        figure_of(name, ("graph",), spread * max(1.0, factor) * world.draw((replicates,)))
        for factor, replicates in zip(factors, times, strict=True)
    ]


def moved(one: Figure, shift: float) -> Figure:
    """The figure, with all its logs shifted."""
    return replace(one, mean=one.mean + shift)


def discoveries(p_values: Numbers) -> int:
    """Number of hypotheses rejected at `FALSE_DISCOVERY_RATE`; NaN is none."""
    rates = np.array(q_values(p_values[~np.isnan(p_values)].tolist()))
    return int(np.count_nonzero(rates <= FALSE_DISCOVERY_RATE * (1 + 1e-12)))
