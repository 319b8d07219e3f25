"""A record's blocks as arrays: seconds a call by round and mode, with what was disturbed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from xla_sweeps import stats
from xla_sweeps.measurement import Round

Seconds = npt.NDArray[np.float64]


class Samples:
    """The blocks of one replicate.

    Args:
        rounds: in the order they were measured.
    """

    def __init__(self, rounds: Sequence[Round]) -> None:
        labels = dict.fromkeys(block.mode for item in rounds for block in item.blocks)
        self._place = {label: number for number, label in enumerate(labels)}
        call_s = [[np.nan] * len(labels) for _ in rounds]
        queued = [[np.nan] * len(labels) for _ in rounds]
        for number, item in enumerate(rounds):
            for block in item.blocks:
                place = self._place[block.mode]
                call_s[number][place] = block.elapsed_ns / block.calls / 1e9
                queued[number][place] = block.enqueue_ns / block.elapsed_ns
        shape = (len(rounds), len(labels))
        self._call_s = np.array(call_s).reshape(shape)
        self._queued = np.array(queued).reshape(shape)
        self._known = ~np.isnan(self._call_s)
        self._whole = bool(self._known.all()) and not any(item.dirty for item in rounds)
        self._quiet = np.array([not item.dirty for item in rounds], dtype=bool)
        self._chosen: dict[tuple[tuple[str, ...], bool], Seconds] = {}

    def call_s(self, *labels: str, undisturbed: bool = True) -> Seconds:
        """Seconds a call of these modes in the rounds that hold all of them, shape (rounds, modes).

        Args:
            labels: of modes; one that was never measured gives no rounds.
            undisturbed: leave out disturbed rounds, unless fewer than `stats.MIN_PAIRS` are left without them.
        """
        kept = self._chosen.get((labels, undisturbed))
        if kept is None:
            kept = self._chosen[labels, undisturbed] = self._choose(labels, undisturbed)
        return kept

    def log_ratios(self, baseline: str, candidate: str, *, undisturbed: bool = True) -> Seconds:
        """log(baseline / candidate) of each round that holds both, shape (rounds,)."""
        both = self.call_s(baseline, candidate, undisturbed=undisturbed)
        ratios: Seconds = np.log(both[:, 0] / both[:, 1])
        return ratios

    def queued_share(self, label: str) -> Seconds:
        """Time to enqueue a block's calls / time of the block, of every block of a mode."""
        if label not in self._place:
            return np.empty(0)
        shares = self._queued[:, self._place[label]]
        known: Seconds = shares[~np.isnan(shares)]
        return known

    def _choose(self, labels: tuple[str, ...], undisturbed: bool) -> Seconds:
        if not all(label in self._place for label in labels):
            return np.empty((0, len(labels)))
        places = [self._place[label] for label in labels]
        if self._whole:
            kept: Seconds = self._call_s[:, places]
            return kept
        whole = self._known[:, places].all(axis=1)
        quiet = whole & self._quiet
        if undisturbed and np.count_nonzero(quiet) >= stats.MIN_PAIRS:
            whole = quiet
        kept = self._call_s[whole][:, places]
        return kept
