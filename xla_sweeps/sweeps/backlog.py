"""Choose the next trial of a sweep: of those that wait, those tried again later, the anchors."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence

from xla_sweeps.sweeps.compose import Task
from xla_sweeps.sweeps.launchers import Launcher
from xla_sweeps.sweeps.launchers.slots import place_of
from xla_sweeps.sweeps.search import Search

ANCHORS_EVERY_S = 1800.0

UNANSWERED = 4
"""Trials that a search proposes to a cluster before it has results, unless `--slots` says more."""


class Backlog:
    """The tasks that are not running, those that a source proposes, and the anchors of each slot.

    Anchors are measured as often as a trial is repeated; late ones after the first half hour, so
    that a short sweep has none. They are owed, and close the sweep, if a trial was measured since.

    Attributes:
        tasks: all of the sweep, running and done ones too, without anchors.
    """

    def __init__(
        self,
        anchors: Sequence[Sequence[Task]] = (),
        source: Search | None = None,
        *,
        repeats: int = 1,
        late_anchors: bool = False,
    ) -> None:
        self.tasks: list[Task] = []
        self.anchors_owed = False
        self._anchors, self._repeats = list(anchors), repeats
        self._anchors_at = time.monotonic() + ANCHORS_EVERY_S if late_anchors else -math.inf
        self._anchors_due: list[tuple[Task, str | None]] = []
        self._anchored = False
        self._source = source
        self._waiting: deque[Task] = deque()
        self._later: list[tuple[float, Task]] = []

    def extend(self, tasks: Sequence[Task]) -> None:
        """Add the planned tasks; those that want no replicate only count."""
        self.tasks += tasks
        self._waiting += [task for task in tasks if task.wanted]

    def add(self, task: Task) -> None:
        """Have a task run again, behind the others."""
        self._waiting.append(task)

    def add_later(self, task: Task, *, at: float) -> None:
        """Have a task run again, not before that time of the monotonic clock."""
        self._later.append((at, task))

    def finish(self, task: Task) -> None:
        """A task has all that it wants, or was given up."""
        if self._source is not None and not self.is_anchor(task):
            self._source.done(task)

    def note_measured(self) -> None:
        """A trial that is no anchor was measured."""
        self.anchors_owed = self._anchored

    def is_anchor(self, task: Task) -> bool:
        """True if a task is an anchor."""
        return any(task is anchor for anchors in self._anchors for anchor in anchors)

    @property
    def waiting(self) -> list[Task]:
        """The tasks that are still to be run, without anchors."""
        return [*self._waiting, *(task for _, task in self._later)]

    @property
    def empty(self) -> bool:
        """True if nothing is left to run but the closing anchors."""
        return not (
            self._waiting
            or self._later
            or self._anchors_due
            or (self._source is not None and not self._source.exhausted)
        )

    @property
    def total(self) -> int:
        """Number of trials, as far as it is known."""
        return max(len(self.tasks), self._source.total if self._source else 0)

    def refill(self, launcher: Launcher) -> None:
        """Take tasks from the source, so that as many wait as jobs can be submitted.

        From a search for a cluster, whose queue takes any number, only a few: each result helps.
        """
        if self._source is None:
            return
        free = launcher.free(None)
        most = math.inf if launcher.targets else launcher.asked_slots or UNANSWERED
        while (
            free > len(self._waiting)
            and self._source.pending_count < most
            and (task := self._source.next()) is not None
        ):
            self.extend([task])
            if not task.wanted:
                self._source.done(task)

    def call_anchors(self, launcher: Launcher, *, now: float) -> None:
        """Have the anchor trials run next, on each slot that can be chosen."""
        if self._anchors:
            names = launcher.slots() if launcher.targets else [None]
            slots = [name for name in names if name is None or name == place_of(name)]
            self._anchors_due = self._repeats * [
                (anchor, slot)
                for anchors, slot in zip(self._anchors, slots, strict=False)
                for anchor in anchors
            ]
            self._anchors_at = now + ANCHORS_EVERY_S
            self._anchored, self.anchors_owed = True, False

    def ready(
        self, launcher: Launcher, is_running: Callable[[Task], bool], *, now: float
    ) -> Generator[tuple[Task, str | None], None, None]:
        """The tasks to submit now, each with the slot that it must run on or None: anchors first.

        A trial that runs is not started again beside itself, where it would only wait.
        """
        due = [task for at, task in self._later if at <= now]
        self._later = [(at, task) for at, task in self._later if at > now]
        self._waiting.extend(due)
        if self._waiting and now >= self._anchors_at:
            self.call_anchors(launcher, now=now)
        for anchor, slot in list(self._anchors_due):
            if launcher.free(None, slot) and not is_running(anchor):
                self._anchors_due.remove((anchor, slot))
                yield anchor, slot
        skipped: list[Task] = []
        try:
            while self._waiting and launcher.free(None):
                task = self._waiting.popleft()
                if is_running(task) or not launcher.free(task.accelerator):
                    skipped.append(task)
                else:
                    yield task, None
        finally:
            self._waiting.extendleft(reversed(skipped))
