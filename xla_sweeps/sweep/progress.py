"""Show how far a sweep is, how its jobs ended, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from xla_sweeps.schema.record import Record
from xla_sweeps.sweep.backlog import Backlog
from xla_sweeps.sweep.compose import Task
from xla_sweeps.sweep.forecast import Forecast
from xla_sweeps.sweep.launchers import Ended, Launcher
from xla_sweeps.sweep.outcomes import EndedJob, Judge, RunningJob, count_trials, detail_of

DRAW_S = 1.0


class Screen(Protocol):
    """Shows a person how a sweep is doing; `report.terminal` has one."""

    def running(self, slot: str, what: str, log: Path) -> None:
        """A job runs on a slot."""

    def ended(self, slot: str, what: str, outcome: str, detail: str) -> None:
        """A job ended, and how."""

    def progress(
        self,
        done: int,
        total: int,
        counts: Mapping[str, int],
        *,
        left_s: tuple[float, float] | None,
    ) -> None:
        """How far the sweep is."""

    def tick(self) -> None:
        """Time has passed."""

    def warn(self, message: str) -> None:
        """Something a person should know now."""


class Progress:
    """Keeps the screen up to date.

    Args:
        screen: to be updated.
        launcher: knows where jobs run.
        backlog: the tasks that wait.
        judge: knows which tasks were given up.
        costs: seconds that a replicate of a model took before, by model.
    """

    def __init__(
        self,
        screen: Screen,
        launcher: Launcher,
        backlog: Backlog,
        judge: Judge,
        costs: Mapping[str, float],
    ) -> None:
        self._screen, self._launcher, self._backlog = screen, launcher, backlog
        self._judge = judge
        self._forecast = Forecast(costs)
        self._slots: dict[int, str] = {}
        self._most = 0
        self._drawn = 0.0
        self._ended, self._reported = 0, 0

    def show(self, running: Mapping[Future[Ended], RunningJob]) -> None:
        """Show jobs that began to run, and once a second how far the sweep is."""
        for future, item in running.items():
            slot, shown = self._launcher.slot_of(future), self._slots.get(id(item))
            if slot and slot != shown:
                if shown is None and not self._launcher.targets:
                    item.started = time.monotonic()  # until now it was queued
                self._slots[id(item)] = slot
                self._screen.running(slot, self._what(item.task), item.job.log)
        self._most = max(self._most, len(self._slots))
        if time.monotonic() > self._drawn + DRAW_S:
            self._drawn = time.monotonic()
            self.report(running)
            self._screen.tick()

    def stopping(self) -> None:
        """The sweep was asked to stop."""
        self._screen.warn(
            "stopping: running trials are being saved; press Ctrl-C again to kill them"
        )

    def ended(self, job: EndedJob, word: str, new: Sequence[Record]) -> None:
        """A job ended, and was judged."""
        running = job.running
        self._slots.pop(id(running), None)
        self._ended += 1
        if new:
            self._forecast.add(time.monotonic() - running.started)
        detail = detail_of(job.ended, new)
        self._screen.ended(job.ended.slot, self._what(running.task), word, detail)

    def report(self, running: Mapping[Future[Ended], RunningJob]) -> None:
        """Show how far the sweep is, where that has changed: counting a large one takes a while."""
        if self._reported == self._ended:
            return
        self._reported = self._ended
        tasks = self._backlog.tasks
        done = sum(not task.wanted or task.key in self._judge.gave_up for task in tasks)
        self._screen.progress(done, len(tasks), self.counts(), left_s=self.left_s(running))

    def counts(self) -> dict[str, int]:
        """Number of trials by how they ended."""
        return count_trials(self._backlog.tasks, gave_up=self._judge.given_up_as)

    def left_s(self, running: Mapping[Future[Ended], RunningJob]) -> tuple[float, float] | None:
        """Seconds that the rest will take, as a range; None where nothing is known."""
        tasks = [*self._backlog.waiting, *(item.task for item in running.values())]
        slots = len(self._launcher.slots()) if self._launcher.targets else self._most
        return self._forecast.left_s([(task.model, task.wanted) for task in tasks], slots=slots)

    def _what(self, task: Task) -> str:
        return "anchor" if self._backlog.anchors.includes(task) else " ".join(task.words)
