"""Rounds of a trial's replicates to an estimate of each replicate. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.interval import figure_within
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.schema.measurement import INPUTS, Block, Round
from xla_sweeps.schema.row import Figure

Seconds = npt.NDArray[np.float64]

LATENCY = "latency"
"""Name of the figure of a pair's single calls."""

FILL_ERROR = 0.25
"""Standard error of what filling the device's queue takes, relative to it."""

_FEW = 4

_UNKNOWN = -1  # the input of a block that took several, or of an older record


def counting(
    samples: Sequence[Samples], *labels: str, contaminated: bool = False, single: bool = False
) -> tuple[list[Seconds], bool]:
    """Seconds a call of the replicates that count, and whether what counts is contaminated.

    The first of these that there is counts: the uncontaminated rounds of clean replicates, those of
    contaminated replicates, all rounds; with `contaminated` the last. What counts is never chosen
    by the figures themselves. Only rounds with all these labels count; with `single` it is calls
    with a synchronization of their own.

    Returns:
        Shape (rounds, modes) for each replicate with at least `stats.MIN_PAIRS` such rounds.
    """
    if not contaminated:
        quiet = [
            (replicate.contaminated, replicate.call_s(*labels, single=single))
            for replicate in samples
        ]
        enough = [(busy, call_s) for busy, call_s in quiet if len(call_s) >= stats.MIN_PAIRS]
        if enough:
            clean = [call_s for busy, call_s in enough if not busy]
            return clean or [call_s for _, call_s in enough], not clean
    every = [replicate.call_s(*labels, contaminated=True, single=single) for replicate in samples]
    every = [call_s for call_s in every if len(call_s) >= stats.MIN_PAIRS]
    return every, bool(every)


def intervals(call_s: Sequence[Seconds]) -> list[Interval]:
    """The 95 % interval of each replicate, from its rounds: of what `logs` gives."""
    return [
        (stats.signed_rank_interval if one.shape[1] == 1 else stats.ratio_interval)(values)
        for one, values in zip(call_s, logs(call_s), strict=True)
    ]


def logs(call_s: Iterable[Seconds]) -> list[Seconds]:
    """The log of one mode's seconds a call, or of the ratio of two's, of each replicate."""
    return [np.log(one[:, 0] if one.shape[1] == 1 else one[:, 0] / one[:, 1]) for one in call_s]


def figure(name: str, samples: Sequence[Samples], *labels: str) -> Figure | None:
    """The figure of one mode's log seconds a call, or of the ratio of two's, if it has rounds."""
    single = name == LATENCY
    call_s, contaminated = counting(samples, *labels, single=single)
    within = intervals(call_s)
    if not within:
        return None
    one = figure_within(
        name,
        labels,
        within,
        list(map(len, call_s)),
        contaminated=contaminated,
        loaded=len(labels) > 1 and is_loaded(samples, *labels),
        on_gpu=any(replicate.on_gpu for replicate in samples),
    )
    fills = [max(each.fill_shares.get(label, 0.0) for each in samples) for label in labels]
    fill = 0.0 if single else FILL_ERROR * math.hypot(*fills)
    return msgspec.structs.replace(one, within=one.within + fill**2)


def is_loaded(samples: Sequence[Samples], *labels: str) -> bool:
    """True if no replicate has enough clean rounds, so that contaminated ones count."""
    return all(len(replicate.call_s(*labels)) < stats.MIN_PAIRS for replicate in samples)


def as_rates(call_s: Seconds, inputs: npt.NDArray[np.int64]) -> Seconds:
    """Seconds a call over all inputs, from rounds that each time one of them.

    The seconds of the inputs are added up, so the level is that of a rate and not of the middle
    input. Each round keeps its deviation from the middle of the rounds with its input. The
    deviations are widened: a middle was estimated for each input, and inputs that take long weigh
    more in the sum.

    Args:
        call_s: shape (rounds, modes).
        inputs: of each round, its position.
    """
    counts = np.bincount(inputs)
    place = np.cumsum(counts > 0)[inputs] - 1
    counts = counts[counts > 0]
    rounds, chosen = len(call_s), len(counts)
    if rounds <= chosen:
        return call_s
    logs = np.log(call_s)
    logs[:, :-1] -= logs[:, -1:]  # ratios to the last mode, whose seconds are their weights
    middles = np.array(
        [[_middle(column) for column in logs[place == index].T] for index in range(chosen)]
    )
    weights = np.exp(middles)
    weights[:, :-1] *= weights[:, -1:]
    sums = weights.sum(axis=0)
    levels = np.log(np.append(sums[:-1] / sums[-1], sums[-1] / chosen))
    shares = (weights / sums * (rounds / counts)[:, None])[place]
    widened = np.sqrt(np.square(shares).sum(axis=0) / (rounds - chosen))
    logs = levels + (logs - middles[place]) * widened
    logs[:, :-1] += logs[:, -1:]
    rates: Seconds = np.exp(logs)
    return rates


def _middle(values: Seconds) -> float:
    """The Hodges-Lehmann estimate; of few values, where one outlier would move it, the median."""
    if len(values) < _FEW:
        return float(np.median(values))
    return stats.signed_rank_interval(values).estimate


class Samples:
    """The blocks of one replicate in their order, and the single calls after them.

    Attributes:
        fill_shares: of a block, at most, that filling the device's queue takes, by mode.
    """

    def __init__(
        self, rounds: Sequence[Round], *, contaminated: bool = False, on_gpu: bool = False
    ) -> None:
        self.contaminated, self.on_gpu = contaminated, on_gpu
        self.fill_shares: dict[str, float] = {}
        timed: dict[str, list[tuple[float, ...]]] = {}
        for place, one in enumerate(rounds):
            for block in one.blocks:
                label, share = block.mode, block.fill_ns / block.elapsed_ns
                self.fill_shares[label] = max(share, self.fill_shares.get(label, 0.0))
                of_label = timed.setdefault(label, [_NOTHING + _NOTHING] * len(rounds))
                stream = block.call_s, _UNKNOWN if block.input is None else block.input
                of_label[place] = stream + _of_singles(block, stream, one.round)
        self._timed = {label: np.array(blocks).T for label, blocks in timed.items()}
        self._quiet = np.array([not one.dirty for one in rounds], dtype=bool)
        self._kept: dict[tuple[tuple[str, ...], bool, bool], Seconds] = {}

    def call_s(self, *labels: str, contaminated: bool = False, single: bool = False) -> Seconds:
        """Seconds a call of these modes in the rounds that hold all of them, shape (rounds, modes).

        Where one input was timed, each round is brought to the rate over all inputs.
        """
        key = labels, contaminated, single
        if key not in self._kept:
            self._kept[key] = self._call_s(*key)
        return self._kept[key]

    def _call_s(self, labels: tuple[str, ...], contaminated: bool, single: bool) -> Seconds:
        if not {*labels} <= self.fill_shares.keys():
            return np.empty((0, len(labels)))
        chosen = np.array([self._timed[label][2 * single :][:2] for label in labels])
        counts = ~np.isnan(chosen[:, 0].sum(axis=0))
        places = np.flatnonzero(counts if contaminated else counts & self._quiet)
        inputs = chosen[:, 1, places].max(axis=0).astype(int)
        call_s: Seconds = chosen[:, 0, places].T
        whole = not places.size or _UNKNOWN in inputs.tolist()
        return call_s if whole else as_rates(call_s, inputs)


_NOTHING = (math.nan, _UNKNOWN)


def _of_singles(block: Block, stream: tuple[float, int], number: int) -> tuple[float, int]:
    """The median of a round's single calls of a mode, and the input of a single one."""
    if not block.single_ns:
        return stream if block.calls == 1 else _NOTHING
    at = number % INPUTS if len(block.single_ns) == 1 else _UNKNOWN
    return statistics.median(block.single_ns) / 1e9, at
