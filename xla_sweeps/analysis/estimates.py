"""Rounds of a trial's replicates to an estimate of each replicate. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.interval import error_within, figure_of
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.schema.measurement import Round
from xla_sweeps.schema.row import Figure

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
        quiet = [(replicate.contaminated, replicate.call_s(*labels)) for replicate in samples]
        enough = [(busy, call_s) for busy, call_s in quiet if len(call_s) >= stats.MIN_PAIRS]
        if enough:
            clean = [call_s for busy, call_s in enough if not busy]
            return clean or [call_s for _, call_s in enough], not clean
    every = [replicate.call_s(*labels, contaminated=True) for replicate in samples]
    every = [call_s for call_s in every if len(call_s) >= stats.MIN_PAIRS]
    return every, bool(every)


def intervals(call_s: Iterable[Seconds]) -> list[Interval]:
    """The 95 % interval of each replicate, from its rounds: of what `logs` gives."""
    return list(map(stats.signed_rank_interval, logs(call_s)))


def logs(call_s: Iterable[Seconds]) -> list[Seconds]:
    """The log of one mode's seconds a call, or of the ratio of two's, of each replicate."""
    return [np.log(one[:, 0] if one.shape[1] == 1 else one[:, 0] / one[:, 1]) for one in call_s]


def figure(name: str, samples: Sequence[Samples], *labels: str) -> Figure | None:
    """The figure of one mode's log seconds a call, or of the ratio of two's, if it has rounds."""
    call_s, contaminated = counting(samples, *labels)
    within = intervals(call_s)
    if not within:
        return None
    values, errors = [one.estimate for one in within], list(map(error_within, within))
    return figure_of(name, labels, values, errors, contaminated=contaminated)


class Samples:
    """The blocks of one replicate.

    Args:
        rounds: in the order they were measured.
        contaminated: whether the replicate is.
    """

    def __init__(self, rounds: Sequence[Round], *, contaminated: bool = False) -> None:
        self.contaminated = contaminated
        call_s_by_mode = [
            {block.mode: block.elapsed_ns / block.calls / 1e9 for block in one.blocks}
            for one in rounds
        ]
        labels = list(dict.fromkeys(label for call_s in call_s_by_mode for label in call_s))
        self._place = {label: place for place, label in enumerate(labels)}
        self._call_s = np.array(
            [[call_s.get(label, math.nan) for call_s in call_s_by_mode] for label in labels]
        )
        self._quiet = np.array([not one.dirty for one in rounds], dtype=bool)

    def call_s(self, *labels: str, contaminated: bool = False) -> Seconds:
        """Seconds a call of these modes in the rounds that hold all of them, shape (rounds, modes).

        Args:
            labels: of modes; one that was never measured gives no rounds.
            contaminated: include contaminated rounds.
        """
        if not {*labels} <= self._place.keys():
            return np.empty((0, len(labels)))
        kept: Seconds = self._call_s[[self._place[label] for label in labels]]
        counts = ~np.isnan(kept).any(axis=0)
        kept = kept[:, counts if contaminated else counts & self._quiet]
        return kept.T
