"""Runs what is left of a sweep on a launcher: submits, learns from the records, tries again, stops in good order.

All decisions come from the records (`standing`), so that a driver which dies loses nothing: the
same command goes on.
"""

from __future__ import annotations

import os
import queue
import signal
import time
import types
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from xla_sweeps.errors import StoreError
from xla_sweeps.results.index import entry_of
from xla_sweeps.results.store import Store
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.sweep.anchors import Anchors
from xla_sweeps.sweep.compose import Task
from xla_sweeps.sweep.forecast import BREAKER, TOGETHER_S, Breaker, Forecast
from xla_sweeps.sweep.launchers import End, Ended, Job, Launcher
from xla_sweeps.sweep.outcomes import (
    Delivery,
    Harvest,
    Outcome,
    Screen,
    Source,
    count_trials,
    detail_of,
)
from xla_sweeps.sweep.plan import missing
from xla_sweeps.system.faults import fault_point

POLL_S = 0.25

DRAW_S = 1.0

MAX_DEATHS = 2

HELD_WAIT_S = 2.0

SPACE_WAIT_S = 5.0


@dataclass(eq=False)
class _Running:
    task: Task
    job: Job
    known: frozenset[tuple[str, int]]
    started: float


@dataclass(eq=False)
class _Over:
    """A job that ended, whose records are on their way into the store."""

    item: _Running
    ended: Ended
    delivery: Delivery


class Driver:
    """Runs tasks until none wants a replicate.

    Args:
        launcher: where they run.
        store: the records.
        extra: overrides that every job gets besides its own (`tracker.group=…`).
        logs: folder of the jobs' output.
        costs: seconds that a replicate of a model took before, by model.
        anchors: the anchor trial, one for each lane, so that all can be measured at once: at the
            start, every half hour and at the end.
        source: of further tasks.
        record_death: records that a trial's own process died, where it can be said on which device.
        rematch: looks a task's records up again, where its ids are not known here.
    """

    def __init__(
        self,
        launcher: Launcher,
        store: Store,
        screen: Screen,
        *,
        extra: Sequence[str],
        logs: Path,
        costs: Mapping[str, float] | None = None,
        anchors: Sequence[Task] = (),
        source: Source | None = None,
        record_death: Callable[[Task, str], Record] | None = None,
        rematch: Callable[[Task], None] | None = None,
    ) -> None:
        self._launcher, self._store, self._screen = launcher, store, screen
        self._harvest = Harvest(store, screen.warn)
        self._extra, self._logs, self._anchors, self._source = (
            tuple(extra),
            logs,
            Anchors(anchors),
            source,
        )
        self._record_death, self._rematch = record_death, rematch
        self._forecast = Forecast(costs or {})
        self._breaker = Breaker(together_s=0.0 if launcher.targets else TOGETHER_S)
        self._ended: queue.Queue[Future[Ended]] = queue.Queue()
        self._running: dict[Future[Ended], _Running] = {}
        self._unsaved: list[_Over] = []
        self._pending: deque[Task] = deque()
        self._later: list[tuple[float, Task]] = []
        self._all: list[Task] = []
        self._gave_up: dict[str, str] = {}
        self._deaths: Counter[str] = Counter()
        self._jobs = 0
        self._broken, self._signal, self._stopping, self._kill = "", 0, False, False
        self._space_asked = -SPACE_WAIT_S
        self._drained: set[str] = set()
        self._jobs_ended, self._reported = 0, 0
        self._shown: dict[Future[Ended], str] = {}
        self._at_once = 0

    def run(self, tasks: Iterable[Task]) -> Outcome:
        """Run the tasks that want a replicate; returns when none does, or when it was stopped."""
        self._all = list(tasks)
        self._pending = deque(task for task in self._all if task.wanted)
        fault_point("plan.loaded")
        drawn = 0.0
        with self._stoppable():
            while self._more():
                self._obey()
                self._take_from_source()
                if not self._signal and not self._broken:
                    self._submit_what_fits()
                self._wait()
                self._save_again()
                self._show_running()
                if time.monotonic() - drawn > DRAW_S:
                    drawn = time.monotonic()
                    self._report()
                    self._screen.tick()
            while not self._ended.empty():
                self._take_in(self._ended.get_nowait())
            self._save_again()
            for over in self._unsaved:
                self._screen.warn(
                    f"what {over.ended.where} measured could not be kept; the same sweep measures it again"
                )
            self._report()
        return self._outcome()

    def _obey(self) -> None:
        """Do what a signal asked for: here, since a handler may interrupt whoever holds a lock that this needs."""
        if self._signal and not self._stopping:
            self._stopping = True
            self._launcher.stop(now=False)
            self._screen.warn(
                "stopping: what runs is being saved; Ctrl-C once more ends it at once"
            )

    def _more(self) -> bool:
        if self._kill:
            return False  # what runs ends with the launcher
        if self._signal or self._broken:
            return bool(self._running)
        if self._running or self._unsaved or self._pending or self._later or self._anchors.due:
            return True
        if self._source is not None and not self._source.exhausted:
            return True
        if self._anchors.owed:
            self._call_anchors()  # the last ones, behind everything
            return True
        return False

    def _take_from_source(self) -> None:
        if self._source is None or self._signal or self._broken:
            return
        while (
            self._launcher.free(None) > len(self._pending)
            and (task := self._source.next()) is not None
        ):
            self._all.append(task)
            if task.wanted:
                self._pending.append(task)
            else:
                self._source.done(task)

    def _submit_what_fits(self) -> None:
        """Give every device that is idle the first task that may run on it."""
        now = time.monotonic()
        due = [task for at, task in self._later if at <= now]
        self._later = [(at, task) for at, task in self._later if at > now]
        self._pending.extend(due)
        if self._pending and self._anchors.overdue(now=now):
            self._call_anchors()
        if (
            not (self._pending or self._anchors.due)
            or not self._launcher.free(None)
            or not self._space()
        ):
            return
        self._submit_anchors()
        waiting: list[Task] = []
        while self._pending and not self._signal and self._launcher.free(None):
            task = self._pending.popleft()
            if self._is_running(task) or not self._launcher.free(task.accelerator):
                waiting.append(task)
                continue
            self._submit(task)
        self._pending.extendleft(reversed(waiting))

    def _call_anchors(self) -> None:
        lanes: list[str | None] = [*self._launcher.lanes()] if self._launcher.targets else [None]
        self._anchors.call(lanes, now=time.monotonic())

    def _submit_anchors(self) -> None:
        for anchor, lane in list(self._anchors.due):
            if (
                not self._signal
                and self._launcher.free(None, lane)
                and not self._is_running(anchor)
            ):
                self._anchors.due.remove((anchor, lane))
                self._submit(anchor, lane)

    def _submit(self, task: Task, lane: str | None = None) -> None:
        """Start a task's next replicate, unless somebody else has measured it meanwhile."""
        known = self._harvest.known(task)
        if task.trial_ids:
            task.seen &= (
                known  # what was damaged and moved away gives its number to the next record
            )
        if known - task.seen and not self._anchors.includes(task):
            self._learn(task, self._harvest.of(task))
            if not task.wanted:
                self._finish(task)
                return
        self._jobs += 1
        counted = f"known_records={max(len(known), len(task.seen))}"
        job = Job(
            arguments=(*task.words, *self._extra, counted),
            accelerator=task.accelerator,
            lane=lane,
            log=self._logs / f"{self._jobs:05d}-{os.getpid()}.log",
        )
        fault_point("driver.submit")
        future = self._launcher.submit(job)
        self._running[future] = _Running(task, job, known, time.monotonic())
        future.add_done_callback(self._ended.put)

    def _is_running(self, task: Task) -> bool:
        """Whether a replicate of the same trial runs: on one machine they would only wait for each other."""
        return any(item.task is task for item in self._running.values())

    def _space(self) -> bool:
        """Whether the disk takes records.

        A full one pauses the sweep rather than fail what is left of it.
        """
        try:
            self._store.check_space()
        except StoreError as error:
            self._wait_for_store(error)
            return False
        return not self._unsaved

    def _wait_for_store(self, error: StoreError) -> None:
        if time.monotonic() > self._space_asked + SPACE_WAIT_S:
            self._space_asked = time.monotonic()
            self._screen.warn(f"{str(error).removesuffix('.')}. The sweep waits for it.")

    def _wait(self) -> None:
        """Wait for a job to end, and take in all that have."""
        try:
            first = self._ended.get(timeout=POLL_S)
        except queue.Empty:
            return
        self._take_in(first)
        while not self._ended.empty():
            self._take_in(self._ended.get_nowait())

    def _take_in(self, future: Future[Ended]) -> None:
        item = self._running.pop(future)
        self._shown.pop(future, None)
        ended = future.result()
        fault_point("driver.ended")
        self._settle(_Over(item, ended, Delivery.of(ended)))

    def _save_again(self) -> None:
        """Try again to save the records that were sent home when the store did not take them."""
        again, self._unsaved = self._unsaved, []
        for over in again:
            self._settle(over)

    def _settle(self, over: _Over) -> None:
        """Take a job's records into the store, learn from them, and decide what becomes of its task."""
        item, ended = over.item, over.ended
        try:
            self._harvest.save(over.delivery)
        except StoreError as error:
            self._unsaved.append(over)
            self._wait_for_store(error)
            return
        self._jobs_ended += 1
        new = (
            over.delivery.saved
            if ended.records
            else self._harvest.found(item.task, ended, item.known)
        )
        self._learn(item.task, new)
        if new:
            self._forecast.add(time.monotonic() - item.started)
        self._watch_device(ended, new)
        outcome = self._judge(item.task, ended, new)
        self._screen.ended(ended.where, self._what(item.task), outcome, detail_of(ended, new))

    def _judge(self, task: Task, ended: Ended, new: Sequence[Record]) -> str:
        """Decide what becomes of the task; returns a word on how the job ended."""
        if ended.how is End.STOPPED and (self._signal or self._broken):
            self._pending.append(task)
            return "stopped"
        if ended.how is End.HELD:
            if self._rematch is not None and not task.trial_ids:
                self._rematch(task)
            if not task.wanted:
                self._finish(task)
                return "measured elsewhere"
            self._later.append((time.monotonic() + HELD_WAIT_S, task))
            return "held"
        if ended.how is End.FAILED and not new:
            self._give_up(task, ended.detail)
            return "refused"
        if ended.how is End.LOST:
            self._pending.append(task)
            return "lost"
        if not new:
            self._note_death(task, ended.detail)
            return "died"
        if self._anchors.includes(task):
            return str(entry_of(new[-1]).outcome)
        self._anchors.note()
        if task.wanted:
            self._pending.append(task)
        else:
            self._finish(task)
        return str(entry_of(new[-1]).outcome)

    def _note_death(self, task: Task, detail: str) -> None:
        """A trial's own process died: recorded as crashed, so that no resume tries it for ever."""
        self._deaths[task.key] += 1
        recorded = False
        if self._record_death is not None:
            try:
                self._learn(task, [self._record_death(task, detail)])
                recorded = True
            except StoreError as error:
                self._screen.warn(f"a death could not be recorded: {error}")
        if self._deaths[task.key] < MAX_DEATHS and (task.wanted or self._anchors.includes(task)):
            self._pending.append(task)
        elif recorded:
            self._finish(task)
        else:
            self._give_up(task, f"its process died {MAX_DEATHS} times; {detail}")

    def _give_up(self, task: Task, why: str) -> None:
        self._gave_up[task.key] = why
        self._finish(task)

    def _finish(self, task: Task) -> None:
        if self._source is not None:
            self._source.done(task)

    def _learn(self, task: Task, new: Sequence[Record]) -> None:
        """Take records into the task's standing, each once."""
        fresh = [record for record in new if (record.trial_id, record.replicate) not in task.seen]
        task.seen |= {(record.trial_id, record.replicate) for record in fresh}
        task.outcomes = [*task.outcomes, *(entry_of(record).outcome for record in fresh)]
        if not self._anchors.includes(task):
            task.wanted = missing(task.outcomes, replicates=task.replicates)

    def _watch_device(self, ended: Ended, new: Sequence[Record]) -> None:
        """Take a device out that loses one job after the other.

        On a cluster, which has its own ways, stop instead.
        """
        where = ended.where if self._launcher.targets else ""
        lost = ended.how in (End.DIED, End.LOST, End.FAILED) or any(
            item.status is Status.INFRA for item in new
        )
        if not lost and ended.how is End.FINISHED:
            self._breaker.worked(where)
        if not lost or self._signal or self._broken or where in self._drained:
            return
        if not self._breaker.lost(where, now=time.monotonic()):
            return
        why = f"{where or self._launcher.name} failed {BREAKER} times in a row, last: {ended.detail or 'no word'}"
        if self._launcher.drain(where):
            self._drained.add(where)
            self._screen.warn(f"{why}. It gets no more trials.")
            return
        self._broken = why
        self._screen.warn(f"{why}. Stopping; mend it, then run the same command again.")
        self._launcher.stop(now=False)

    def left_s(self) -> tuple[float, float] | None:
        """How long the rest will take, from what replicates took so far and before: a range."""
        tasks = [
            *self._pending,
            *(task for _, task in self._later),
            *(item.task for item in self._running.values()),
        ]
        lanes = len(self._launcher.lanes()) if self._launcher.targets else self._at_once
        return self._forecast.left_s([(task.model, task.wanted) for task in tasks], lanes=lanes)

    def _what(self, task: Task) -> str:
        return "anchor" if self._anchors.includes(task) else " ".join(task.words)

    def _show_running(self) -> None:
        for future, item in self._running.items():
            lane = self._launcher.where(future)
            if lane and self._shown.get(future) != lane:
                if future not in self._shown and not self._launcher.targets:
                    item.started = time.monotonic()  # until now it was queued
                self._shown[future] = lane
                self._screen.running(lane, self._what(item.task), item.job.log)
        self._at_once = max(self._at_once, len(self._shown))

    def _report(self) -> None:
        """Show how far the sweep is, where that has changed.

        Counting a large sweep takes a while.
        """
        if self._reported == self._jobs_ended:
            return
        self._reported = self._jobs_ended
        tasks = [task for task in self._all if not self._anchors.includes(task)]
        done = sum(not task.wanted or task.key in self._gave_up for task in tasks)
        self._screen.progress(done, len(tasks), self._counts(), left_s=self.left_s())

    def _counts(self) -> dict[str, int]:
        tasks = [task for task in self._all if not self._anchors.includes(task)]
        return count_trials(tasks, gave_up=self._gave_up, died=self._deaths)

    def _outcome(self) -> Outcome:
        left = tuple(task for task in self._all if task.wanted and not self._anchors.includes(task))
        return Outcome(
            counts=self._counts(),
            signal_number=self._signal,
            broken=self._broken,
            left=left,
            gave_up=dict(self._gave_up),
        )

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """First Ctrl-C or SIGTERM: save what runs. Second Ctrl-C: kill it.

        Always: leave nothing running.
        """

        def handle(number: int, frame: types.FrameType | None) -> None:
            self._kill = self._kill or (
                bool(self._signal) and number == signal.SIGINT
            )  # schedulers repeat SIGTERM
            self._signal = self._signal or number

        previous = {
            number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            self._launcher.close()
