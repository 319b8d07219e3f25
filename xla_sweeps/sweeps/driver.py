"""Run what is left of a sweep on a launcher: submit, collect, try again, stop.

All decisions follow from the records, so that nothing is lost when the driver dies: the same
command resumes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from xla_sweeps.schema.overrides import key_of, keys_of
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps import outcomes
from xla_sweeps.sweeps.backlog import Backlog
from xla_sweeps.sweeps.compose import Composer, Task
from xla_sweeps.sweeps.launchers import Launcher, Screen
from xla_sweeps.sweeps.launchers.job import Ended, Job
from xla_sweeps.sweeps.progress import Progress
from xla_sweeps.system.process import StopSignals

POLL_S = 0.25


class Driver:
    """Run tasks until none wants a replicate.

    Args:
        extra: overrides that every job gets besides its own (`tracker.group=…`).
        costs: seconds that a replicate of a model took before, by model.
        composer: composed the tasks; without one, a death of a trial is not recorded.
    """

    def __init__(
        self,
        launcher: Launcher,
        store: Store,
        screen: Screen,
        *,
        extra: Sequence[str],
        logs: Path,
        backlog: Backlog | None = None,
        costs: Mapping[str, float] | None = None,
        composer: Composer | None = None,
    ) -> None:
        self._launcher, self._store, self._screen = launcher, store, screen
        self._backlog = backlog or Backlog()
        self._collector = outcomes.Collector(store, screen.warn)
        self._judge = outcomes.Judge(self._backlog, launcher, self._collector, composer)
        self._progress = Progress(screen, launcher, self._backlog, self._judge, costs or {})
        self._extra, self._logs = tuple(extra), logs
        self._numbers = itertools.count(1)
        self._running: dict[Future[Ended], outcomes.Run] = {}
        self._ended: queue.Queue[Future[Ended]] = queue.Queue()
        self._unsaved: list[outcomes.Run] = []
        """Runs that ended while the store was full."""
        self._stop = StopSignals()
        self._asked = False

    def run(self, tasks: Iterable[Task]) -> outcomes.Outcome:
        """Run the tasks that want a replicate; returns when none does, or when it was stopped."""
        self._backlog.extend(list(tasks))
        sys.audit("xla_sweeps.plan.loaded")
        with self._stop:
            try:
                while self._goes_on():
                    if self._stopping:
                        self._ask_to_stop()
                    else:
                        self._submit_ready()
                    self._progress.show(self._running)
                    self._collect_ended(wait_s=POLL_S)
                self._collect_ended(wait_s=0.0)
                for run in self._unsaved:
                    slot = run.ended.slot
                    self._screen.warn(f"could not save results from {slot}; rerun the sweep")
                self._progress.report(self._running)
            finally:
                self._launcher.close()
        return outcomes.Outcome(
            counts=self._progress.counts(),
            signal_number=self._stop.number,
            broken=self._judge.broken,
            left=tuple(task for task in self._backlog.tasks if task.wanted),
            gave_up={key: why for key, (_, why) in self._judge.gave_up.items()},
        )

    @property
    def _stopping(self) -> bool:
        return bool(self._stop.number or self._judge.broken)

    def _goes_on(self) -> bool:
        if self._stop.kill:
            return False  # closing the launcher kills what runs
        if self._stopping:
            return bool(self._running)
        if self._running or self._unsaved or not self._backlog.empty:
            return True
        if self._backlog.anchors_owed:
            self._backlog.call_anchors(self._launcher, now=time.monotonic())
            return True
        return False

    def _ask_to_stop(self) -> None:
        """Stop the jobs, once; not in the handler, which may interrupt the holder of a lock."""
        if self._asked:
            return
        self._asked = True
        self._launcher.stop(now=False)
        if self._stop.number:
            text = "stopping: running trials are being saved; press Ctrl-C again to kill them"
            self._screen.warn(text)

    def _submit_ready(self) -> None:
        """Give every idle slot the first task that may run on it."""
        self._backlog.refill(self._launcher)
        free = self._launcher.free(None)
        if not free or self._backlog.empty or self._unsaved or not self._collector.has_space():
            return
        ready = self._backlog.ready(self._launcher, self._is_running, now=time.monotonic())
        with contextlib.closing(ready):
            for task, slot in ready:
                self._submit(task, slot)
                if self._stop.number:
                    break

    def _submit(self, task: Task, slot: str | None) -> None:
        """Start a task's next replicate, unless another process measures or has measured it."""
        stored = task.stored_keys(self._store)
        if task.trial_ids:
            task.seen &= stored  # the number of a record in quarantine is used again
        if stored - task.seen and not self._backlog.is_anchor(task):
            self._judge.learn(task, self._collector.load(task))
            if not task.wanted:
                self._backlog.finish(task)
                return
        if self._collector.is_held(task):
            self._backlog.add_later(task, at=time.monotonic() + outcomes.LOCKED_WAIT_S)
            return
        given = keys_of(task.words)
        job = Job(
            arguments=(*task.words, *(word for word in self._extra if key_of(word) not in given)),
            known_records=max(len(stored), len(task.seen)),
            accelerator=task.accelerator,
            slot=slot,
            silent_s=task.silent_s,
            log=self._logs / f"{next(self._numbers):05d}-{os.getpid()}.log",
        )
        sys.audit("xla_sweeps.driver.submit")
        future = self._launcher.submit(job)
        self._running[future] = outcomes.Run(task, job, stored, time.monotonic())
        future.add_done_callback(self._ended.put)

    def _is_running(self, task: Task) -> bool:
        return any(run.task is task for run in self._running.values())

    def _collect_ended(self, *, wait_s: float) -> None:
        """Collect what is unsaved, and all jobs that have ended, after a wait for the first."""
        unsaved, self._unsaved = self._unsaved, []
        for run in unsaved:
            self._collect(run)
        with contextlib.suppress(queue.Empty):
            while True:
                future = self._ended.get(timeout=wait_s)
                run, wait_s = self._running.pop(future), 0.0
                run.ended = future.result()
                run.unsaved.extend(run.ended.records)
                sys.audit("xla_sweeps.driver.ended")
                self._collect(run)

    def _collect(self, run: outcomes.Run) -> None:
        new = self._collector.collect(run)
        if new is None:
            self._unsaved.append(run)
            return
        run.ended = outcomes.end_with_records(run.ended, new, stopping=self._stopping)
        if not self._stop.number:
            self._judge.watch(run.ended, new, now=time.monotonic())
        word = self._judge.judge(run.task, run.ended, new)
        self._progress.show_end(run, word, new)
