"""Show how far a sweep is, how its jobs ended, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.sweep.backlog import Backlog
from xla_sweeps.sweep.compose import Task
from xla_sweeps.sweep.forecast import Forecast, replicates_left
from xla_sweeps.sweep.launchers import JobScreen, Launcher
from xla_sweeps.sweep.launchers.job import Ended
from xla_sweeps.sweep.outcomes import (
    Judge,
    Run,
    cause_of,
    count_trials,
    detail_of,
    figure_of,
)
from xla_sweeps.sweep.plan import ATTEMPTS

DRAW_S = 1.0


class SweepScreen(JobScreen, Protocol):
    """Shows a person how a sweep is doing."""

    def progress(
        self,
        done: int,
        total: int,
        counts: Mapping[str, int],
        *,
        left_s: tuple[float, float] | None,
    ) -> None:
        """Show how far the sweep is."""

    def busy(
        self,
        contaminated: int,
        measured: int,
        cause: str,
        *,
        kept: bool,
        attempt: int,
        attempts: int,
        again_s: float,
    ) -> None:
        """Show how many of the measured trials are contaminated.

        Args:
            contaminated: number of contaminated trials.
            measured: number of measured trials.
            cause: what contaminated the latest, in words, or "".
            kept: whether they count as measured.
            attempt: which attempt the next of them to be measured again gets; 0 where none does.
            attempts: how many it gets at most.
            again_s: seconds until then; 0 for now.
        """


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
        screen: SweepScreen,
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
        self._ended, self._reported = 0, -1
        self._measured, self._contaminated, self._cause = 0, 0, ""

    def show(self, running: Mapping[Future[Ended], Run]) -> None:
        """Show jobs that began to run, and once a second how far the sweep is."""
        for future, run in running.items():
            slot, shown = self._launcher.slot_of(future), self._slots.get(id(run))
            if slot and slot != shown:
                if shown is None and not self._launcher.targets:
                    run.started = time.monotonic()  # until now it was queued
                self._slots[id(run)] = slot
                self._screen.running(slot, self._what(run.task), run.job.log)
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

    def ended(self, run: Run, word: str, new: Sequence[Record]) -> None:
        """Show how a run ended, as it was judged."""
        self._slots.pop(id(run), None)
        self._ended += 1
        if new:
            self._forecast.add(time.monotonic() - run.started)
            self._measured += 1
            if new[-1].status is Status.CONTAMINATED:
                self._contaminated += 1
                self._cause = cause_of(new[-1])
        what, detail = self._what(run.task), detail_of(run.ended, new)
        self._screen.ended(run.ended.slot, what, word, detail, figure_of(new))

    def report(self, running: Mapping[Future[Ended], Run]) -> None:
        """Show how far the sweep is, where that has changed: counting a large one takes a while."""
        if self._reported == self._ended:
            return
        self._reported = self._ended
        tasks = self._backlog.tasks
        done = sum(not task.wanted or task.key in self._judge.gave_up for task in tasks)
        counts = self.counts()
        self._screen.progress(done, self._backlog.total, counts, left_s=self.left_s(running))
        self._report_busy(running, counts)

    def _report_busy(self, running: Mapping[Future[Ended], Run], counts: Mapping[str, int]) -> None:
        """Show how many trials are contaminated, and when the next of them is measured again."""
        contaminated = counts.get(str(Status.CONTAMINATED), 0)
        if not self._contaminated:
            return
        runs = [run.task for run in running.values()]
        order = [*runs, *self._backlog.waiting]
        places = (
            place for place, task in enumerate(order) if task.wanted and _contaminations(task)
        )
        place = next(places, None)
        waits = place is not None and place >= len(runs)
        before = self._left_s([(task.model, 1) for task in order[:place]]) if waits else None
        self._screen.busy(
            contaminated,
            sum(counts.values()) - counts.get("missing", 0),
            self._cause,
            kept=any(Status.CONTAMINATED in task.accepted for task in self._backlog.tasks[:1]),
            attempt=0 if place is None else _contaminations(order[place]) + 1,
            attempts=ATTEMPTS[Status.CONTAMINATED],
            again_s=sum(before) / 2 if before else 0.0,
        )

    def counts(self) -> dict[str, int]:
        """Number of trials by how they ended."""
        return count_trials(self._backlog.tasks, gave_up=self._judge.given_up_as)

    def left_s(self, running: Mapping[Future[Ended], Run]) -> tuple[float, float] | None:
        """Seconds that the rest will take, as a range; None where nothing is known."""
        tasks = [*self._backlog.waiting, *(run.task for run in running.values())]
        share = self._contaminated / max(1, self._measured)
        return self._left_s([(task.model, _expected(task, share)) for task in tasks])

    def _left_s(self, waiting: Sequence[tuple[str, float]]) -> tuple[float, float] | None:
        slots = len(self._launcher.slots()) if self._launcher.targets else self._most
        return self._forecast.left_s(waiting, slots=slots)

    def _what(self, task: Task) -> str:
        return "anchor" if self._backlog.anchors.includes(task) else " ".join(task.words)


def _contaminations(task: Task) -> int:
    """Number of contaminated replicates of a trial in this run, where they are not accepted."""
    return 0 if Status.CONTAMINATED in task.accepted else task.outcomes.count(Status.CONTAMINATED)


def _expected(task: Task, contaminated: float) -> float:
    """Expected number of replicates of a trial that will still be measured."""
    accepted = Status.CONTAMINATED in task.accepted
    attempts = ATTEMPTS[Status.CONTAMINATED] - _contaminations(task)
    return replicates_left(
        max(1, task.wanted), contaminated=contaminated, attempts=0 if accepted else attempts
    )
