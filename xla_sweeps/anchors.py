"""When a sweep's anchor trial is measured: at the start, every half hour and at the end, on every device at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xla_sweeps.planning import Task

EVERY_S = 1800.0


class Anchors:
    """The anchor trial's turns.

    Args:
        tasks: the anchor trial, one for each device, so that all can be measured at once; or none.

    Attributes:
        due: what is to be measured next: an anchor, and the device it must run on or None.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = list(tasks)
        self._called = -math.inf
        self._since = False
        self.due: list[tuple[Task, str | None]] = []

    def includes(self, task: Task) -> bool:
        """Whether a task is an anchor."""
        return any(task is anchor for anchor in self._tasks)

    def call(self, lanes: Sequence[str | None], *, now: float) -> None:
        """Have the anchor trial measured next, on each of these devices."""
        if self._tasks:
            self._called, self._since = now, False
            self.due = list(zip(self._tasks, lanes, strict=False))

    def overdue(self, *, now: float) -> bool:
        """Whether half an hour has passed since they were called."""
        return now >= self._called + EVERY_S

    def note(self) -> None:
        """Something else was measured."""
        self._since = True

    @property
    def owed(self) -> bool:
        """Whether something else was measured since they were called: then they close the sweep."""
        return bool(self._tasks) and self._since
