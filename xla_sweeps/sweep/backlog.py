"""Choose the next trial of a sweep: of those that wait, those tried again later, the anchors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence

from xla_sweeps.sweep.anchors import Anchors
from xla_sweeps.sweep.compose import Task
from xla_sweeps.sweep.launchers import Launcher
from xla_sweeps.sweep.search import Search


class Backlog:
    """The tasks that are not running.

    Args:
        anchors: the anchor trial, once for each slot.
        source: proposes further tasks.
        late_anchors: the first anchors run after half an hour.

    Attributes:
        tasks: all of the sweep, running and done ones too, without anchors.
    """

    def __init__(
        self,
        anchors: Sequence[Task] = (),
        source: Search | None = None,
        *,
        late_anchors: bool = False,
    ) -> None:
        self.anchors = Anchors(anchors, late=late_anchors)
        self.tasks: list[Task] = []
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
        if self._source is not None:
            self._source.done(task)

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
            or self.anchors.due
            or (self._source is not None and not self._source.exhausted)
        )

    @property
    def total(self) -> int:
        """Number of trials, as far as it is known."""
        return max(len(self.tasks), self._source.total if self._source else 0)

    def refill(self, free: int) -> None:
        """Take tasks from the source, so that as many wait as jobs can be submitted."""
        while (
            self._source is not None
            and free > len(self._waiting)
            and (task := self._source.next()) is not None
        ):
            self.tasks.append(task)
            if task.wanted:
                self._waiting.append(task)
            else:
                self._source.done(task)

    def call_anchors(self, launcher: Launcher, *, now: float) -> None:
        """Have the anchor trial run next, on each slot that can be chosen."""
        self.anchors.call([*launcher.slots()] if launcher.targets else [None], now=now)

    def ready(
        self, launcher: Launcher, is_running: Callable[[Task], bool], *, now: float
    ) -> Generator[tuple[Task, str | None], None, None]:
        """The tasks to submit now, each with the slot that it must run on or None: anchors first.

        A trial that runs is not started again beside itself, where it would only wait.
        """
        due = [task for at, task in self._later if at <= now]
        self._later = [(at, task) for at, task in self._later if at > now]
        self._waiting.extend(due)
        if self._waiting and self.anchors.overdue(now=now):
            self.call_anchors(launcher, now=now)
        for anchor, slot in list(self.anchors.due):
            if launcher.free(None, slot) and not is_running(anchor):
                self.anchors.due.remove((anchor, slot))
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
