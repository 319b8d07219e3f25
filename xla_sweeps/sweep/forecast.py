"""How long the rest of a sweep will take, and when a device has failed too often. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter, deque
from collections.abc import Mapping, Sequence

BREAKER = 3
"""Jobs in a row that a device or machine may lose before it gets no more."""

TOGETHER_S = 10.0
"""Losses within so long are one event where a launcher chooses devices itself: a node that dies loses all its jobs."""

_RECENT = 50

_ENOUGH = 4

_UNSURE = 0.1


class Forecast:
    """Estimates time from what replicates took, in this run and before.

    Args:
        past: seconds that a replicate of a model took before, by model.
    """

    def __init__(self, past: Mapping[str, float]) -> None:
        self._past = dict(past)
        self._took: deque[float] = deque(maxlen=_RECENT)

    def add(self, seconds: float) -> None:
        """A replicate took so long."""
        self._took.append(seconds)

    def left_s(
        self, waiting: Sequence[tuple[str, int]], *, lanes: int
    ) -> tuple[float, float] | None:
        """How long the rest will take, as a range; None where nothing is known.

        Args:
            waiting: model and wanted replicates of each trial that is not done.
            lanes: how many run at once.
        """
        took = list(self._took) or [cost for cost in self._past.values() if cost > 0]
        if not took:
            return None
        typical = statistics.median(took)
        total = sum(self._past.get(model, typical) * max(1, wanted) for model, wanted in waiting)
        quartiles = statistics.quantiles(took, n=4) if len(took) >= _ENOUGH else [0.0, 0.0, 0.0]
        error = (quartiles[2] - quartiles[0]) / 2 * len(waiting) ** 0.5 + _UNSURE * total
        return max(0.0, total - error) / max(1, lanes), (total + error) / max(1, lanes)


class Breaker:
    """Counts what a device loses in a row.

    Args:
        together_s: losses within so long of the first of them count as one.
    """

    def __init__(self, *, together_s: float = 0.0) -> None:
        self._together_s = together_s
        self._lost: Counter[str] = Counter()
        self._since: dict[str, float] = {}

    def worked(self, where: str) -> None:
        """A job ran to its end there."""
        self._lost.pop(where, None)

    def lost(self, where: str, *, now: float) -> bool:
        """A job was lost there; whether that was one too many."""
        if now >= self._since.get(where, -math.inf) + self._together_s:
            self._since[where] = now
            self._lost[where] += 1
        return self._lost[where] >= BREAKER
