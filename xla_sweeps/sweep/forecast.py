"""Time that the rest of a sweep will take, and when a slot has failed too often. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter, deque
from collections.abc import Mapping, Sequence

BREAKER = 3
"""Jobs in a row that a slot may lose before it gets no more."""

TOGETHER_S = 10.0
"""On a cluster, losses within this time are one event: a node that dies loses all its jobs."""

_RECENT = 50

_ENOUGH = 4

_UNCERTAINTY = 0.1


class Forecast:
    """Estimates the time left from what replicates took, in this run and before.

    Args:
        past: seconds that a replicate of a model took before, by model.
    """

    def __init__(self, past: Mapping[str, float]) -> None:
        self._past = dict(past)
        self._took: deque[float] = deque(maxlen=_RECENT)

    def add(self, seconds: float) -> None:
        """Note the time of a replicate."""
        self._took.append(seconds)

    def left_s(
        self, waiting: Sequence[tuple[str, float]], *, slots: int
    ) -> tuple[float, float] | None:
        """Seconds that the rest will take, as a range; None where nothing is known.

        Args:
            waiting: model and expected replicates of each trial that is not done.
            slots: how many run at once.
        """
        took = list(self._took) or [cost for cost in self._past.values() if cost > 0]
        if not took:
            return None
        typical = statistics.median(took)
        total = sum(self._past.get(model, typical) * max(1, wanted) for model, wanted in waiting)
        quartiles = statistics.quantiles(took, n=4) if len(took) >= _ENOUGH else [0.0, 0.0, 0.0]
        error = (quartiles[2] - quartiles[0]) / 2 * len(waiting) ** 0.5 + _UNCERTAINTY * total
        return max(0.0, total - error) / max(1, slots), (total + error) / max(1, slots)


class Breaker:
    """Counts the jobs that a slot loses in a row.

    Args:
        together_s: losses within this time of the first of them count as one.
    """

    def __init__(self, *, together_s: float = 0.0) -> None:
        self._together_s = together_s
        self._lost: Counter[str] = Counter()
        self._since: dict[str, float] = {}

    def worked(self, slot: str) -> None:
        """Note that a job ran to its end there."""
        self._lost.pop(slot, None)

    def lost(self, slot: str, *, now: float) -> bool:
        """Count a lost job; returns True if it was one too many."""
        if now >= self._since.get(slot, -math.inf) + self._together_s:
            self._since[slot] = now
            self._lost[slot] += 1
        return self._lost[slot] >= BREAKER
