"""Wait for a quiet machine before a replicate is measured again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

LIMIT_S = 60.0
"""Longest wait of a replicate whose predecessor was contaminated."""

SAY_S = 10.0
"""Between two reports of what disturbs."""


class QuietWait:
    """A wait that ends once nothing disturbs any more, or after a while.

    Args:
        disturbance: what disturbs now, in words, or "".
        limit_s: how long to wait at most; 0 for no wait.
        say: called with what disturbs and the seconds left, now and then.

    Attributes:
        waited_s: how long it has waited.
    """

    def __init__(
        self, disturbance: Callable[[], str], limit_s: float, say: Callable[[str, float], None]
    ) -> None:
        self._disturbance, self._limit_s, self._say = disturbance, limit_s, say
        self._began: float | None = None
        self._said = -math.inf
        self.waited_s = 0.0

    def is_over(self) -> bool:
        """True once the wait is over; to be asked twice a second."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        self.waited_s = min(now - self._began, self._limit_s)
        left_s = self._limit_s - self.waited_s
        cause = self._disturbance() if left_s > 0 else ""
        if cause and now >= self._said + SAY_S:
            self._said = now
            self._say(cause, left_s)
        return not cause
