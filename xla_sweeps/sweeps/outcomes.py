"""Act on the end of a job: collect its records, learn from them, judge its task.

`Judge` decides on an action for each `End`. Nothing here starts or stops a job.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xla_sweeps.errors import ALREADY_MEASURED, StoreError
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record, RecordFormatError, differ, outcome_of
from xla_sweeps.store.claim import is_claimed
from xla_sweeps.store.derive import is_clear, record_facts
from xla_sweeps.store.rows import load_runs
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.backlog import Backlog
from xla_sweeps.sweeps.compose import Composer, Known, Task
from xla_sweeps.sweeps.launchers import Launcher
from xla_sweeps.sweeps.launchers.job import End, Ended, Job
from xla_sweeps.sweeps.launchers.slots import place_of
from xla_sweeps.sweeps.plan import assign_records, missing
from xla_sweeps.trial.recording import record_death

MAX_DEATHS = 2

MAX_BROKEN = 3
"""Starts of a trial whose command met an error that says nothing about the model."""

MAX_CHANGES = 3
"""Changes of a trial's build after which no more replicates are measured."""

LOCKED_WAIT_S = 2.0

SPACE_WAIT_S = 5.0
"""Seconds between two warnings that the store takes no records."""

BREAKER = 3
"""Jobs in a row that a slot may lose before it gets no more."""

TOGETHER_S = 10.0
"""Time within which losses on a cluster are one event: a node that dies loses all its jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of a run of a sweep.

    Attributes:
        counts: trials by `Progress.counts`.
        broken: why the circuit breaker stopped it, or "".
        gave_up: why, by key of the tasks that were given up without a record that says it.
    """

    counts: Mapping[str, int]
    signal_number: int = 0
    broken: str = ""
    left: tuple[Task, ...] = ()
    gave_up: Mapping[str, str] = field(default_factory=dict)


_NOT_ENDED = Ended(how=End.LOST)


@dataclass(eq=False)
class Run:
    """One run of a task's job, from its submission until its records are in the store.

    Attributes:
        known: the task's records when it was submitted.
        started: seconds of the monotonic clock.
        ended: how it ended; LOST, which says nothing, until it has.
        unsaved: records that were copied back and are not in the store yet; then `saved`.
    """

    task: Task
    job: Job
    known: Known
    started: float
    ended: Ended = _NOT_ENDED
    unsaved: deque[bytes] = field(default_factory=deque)
    saved: list[Record] = field(default_factory=list)


class Collector:
    """Bring the records of ended jobs into the store, and read those of a task."""

    def __init__(self, store: Store, warn: Callable[..., None]) -> None:
        self.store, self.warn = store, warn
        self._warned = -SPACE_WAIT_S

    def is_held(self, task: Task) -> bool:
        """True if another process measures the trial now; a second one would only disturb it."""
        return any(is_claimed(self.store.results_dir, each) for each in task.trial_ids)

    def load(self, task: Task) -> list[Record]:
        """The task's records in the store, where its trial ids are known."""
        if not task.trial_ids:
            return []
        loaded = self.store.load(*task.trial_ids)
        self.warn(*loaded.problems)
        return [record for group in loaded.records.values() for record in group]

    def collect(self, run: Run) -> list[Record] | None:
        """The records of a run that ended, stored; None while the store is full."""
        if not self._takes(lambda: self._save(run)):
            return None
        if run.ended.records:
            return run.saved
        paths = run.ended.paths
        stored = self.store.load_paths(paths) if paths else self.load(run.task)
        return [record for record in stored if (record.trial_id, record.replicate) not in run.known]

    def is_clear(self, trial_id: str) -> bool:
        """True if a trial's records settle it together, the contaminated ones included."""
        return is_clear(self.store.load(trial_id).records.get(trial_id, []))

    def has_space(self) -> bool:
        """True if the store takes records; where it does not, the sweep waits and does not fail."""
        return self._takes(self.store.check_space)

    def _save(self, run: Run) -> None:
        while run.unsaved:
            try:
                run.saved.append(self.store.save(Record.from_json(run.unsaved[0]))[0])
            except RecordFormatError as error:
                self.warn(f"ignored an invalid record from {run.ended.slot}: {error}")
            run.unsaved.popleft()

    def _takes(self, attempt: Callable[[], None]) -> bool:
        """True if the store takes it; warns where it is full."""
        try:
            attempt()
        except StoreError as error:
            if time.monotonic() > self._warned + SPACE_WAIT_S:
                self._warned = time.monotonic()
                self.warn(f"{str(error).removesuffix('.')}. The sweep is paused until then.")
            return False
        return True


class Judge:
    """Decide what follows for a task and a slot from how a job ended; arguments as the driver's.

    Attributes:
        gave_up: one word (`refused`, `died` or `infra`) and why, by key of the tasks that were.
        broken: why the sweep must stop, or "".
    """

    def __init__(
        self,
        backlog: Backlog,
        launcher: Launcher,
        collector: Collector,
        composer: Composer | None = None,
    ) -> None:
        self._backlog, self._launcher, self._collector = backlog, launcher, collector
        self._warn, self._composer = collector.warn, composer
        self.gave_up: dict[str, tuple[str, str]] = {}
        self._deaths, self._broke = Counter[str](), Counter[str]()
        self._changes, self._losses = Counter[str](), Counter[str]()
        self._since: dict[str, float] = {}
        self._drained: set[str] = set()
        self.broken = ""

    def learn(self, task: Task, records: Sequence[Record]) -> None:
        """Count a task's records, each once; another build's are in place of the earlier ones."""
        fresh = [each for each in records if (each.trial_id, each.replicate) not in task.seen]
        task.seen |= {(record.trial_id, record.replicate) for record in fresh}
        if task.trial_ids:  # its device may have changed since the sweep was planned
            ids = (*task.trial_ids, *(record.trial_id for record in fresh))
            task.trial_ids = tuple(dict.fromkeys(ids))
        for run in map(record_facts, fresh):
            build = task.builds.get(run.trial_id, {})
            if differ(build, run.build):
                task.outcomes, build = [], {}
                self._changes[task.key] += 1
            task.builds[run.trial_id] = {**build, **run.build}
            task.outcomes = [*task.outcomes, run.outcome]
        is_clear = self._collector.is_clear
        task.clear = Status.CONTAMINATED in task.outcomes and any(map(is_clear, task.builds))
        if not self._backlog.is_anchor(task):
            task.wanted = missing(task.outcomes, replicates=task.replicates, accepted=task.counted)

    def judge(self, task: Task, ended: Ended, new: Sequence[Record]) -> str:
        """Act on a job's end (`end_with_records`) and new records; returns one word for it."""
        self.learn(task, new)
        match ended.how:
            case End.FINISHED:
                return self._after_measuring(task, new)
            case End.FAILED:
                return self._give_up(task, "refused", ended.detail)
            case End.LOCKED:
                return self._after_lock(task, ended, new)
            case End.DIED:
                return self._after_death(task, ended.detail)
            case End.BROKEN:
                return self._after_defect(task, ended.detail)
            case End.STOPPED | End.LOST:
                self._backlog.add(task)
                return str(ended.how)

    def _after_measuring(self, task: Task, new: Sequence[Record]) -> str:
        if not self._backlog.is_anchor(task):
            self._backlog.note_measured()
            if task.wanted and self._changes[task.key] >= MAX_CHANGES:
                why = f"its model changed {MAX_CHANGES} times: each process builds another, so its "
                self._give_up(task, "refused", f"{why}replicates cannot be pooled")
            elif task.wanted:
                self._backlog.add(task)
            else:
                self._backlog.finish(task)
        return str(outcome_of(new[-1]))

    def _after_lock(self, task: Task, ended: Ended, new: Sequence[Record]) -> str:
        """Wait for the process that measures it; not if it has records that are not found."""
        seen = task.seen
        if self._composer is not None and not task.trial_ids:
            runs, software = load_runs(self._collector.store), self._composer.software
            assign_records([task], runs, software=software, retry=())
        if not task.wanted:
            self._backlog.finish(task)
            return "measured elsewhere"
        if ALREADY_MEASURED in ended.detail and not new and task.seen == seen:
            self._broke[task.key] += 1
            if self._broke[task.key] >= MAX_BROKEN:
                return self._give_up(task, "infra", f"failed {MAX_BROKEN} times: {ended.detail}")
        self._backlog.add_later(task, at=time.monotonic() + LOCKED_WAIT_S)
        return "locked"

    def _after_death(self, task: Task, detail: str) -> str:
        """Record the death of a trial's process; one that was killed is measured again."""
        self._deaths[task.key] += 1
        recorded = False
        if self._composer is not None and task.trial_ids:
            try:
                settings, trial_id = self._composer.settings(task.words), task.trial_ids[0]
                died = record_death(settings, trial_id, self._collector.store, detail)
                self.learn(task, [died])
                recorded = True
            except StoreError as error:
                self._warn(f"could not record that a trial died: {error}")
        again = task.wanted or self._backlog.is_anchor(task)
        if self._deaths[task.key] < MAX_DEATHS and again:
            self._backlog.add(task)
        elif recorded:
            self._backlog.finish(task)
        else:
            self._give_up(task, "died", f"its process died {MAX_DEATHS} times; {detail}")
        return "died"

    def _after_defect(self, task: Task, detail: str) -> str:
        """Nothing is recorded: the error is not the model's, and a resume measures the trial."""
        self._broke[task.key] += 1
        if self._broke[task.key] < MAX_BROKEN:
            self._backlog.add(task)
        else:
            self._give_up(task, "infra", f"failed {MAX_BROKEN} times; last: {detail}")
        return "infra"

    def _give_up(self, task: Task, word: str, why: str) -> str:
        self.gave_up[task.key] = word, why
        self._backlog.finish(task)
        return word

    def watch(self, ended: Ended, new: Sequence[Record], *, now: float) -> None:
        """Stop using a slot that loses one job after the other: this one ended on its slot.

        On a cluster, which chooses nodes itself, the sweep must stop instead.
        """
        slot = place_of(ended.slot) if self._launcher.targets else ""
        lost = ended.how in (End.DIED, End.BROKEN, End.LOST, End.FAILED) or any(
            record.status is Status.INFRA for record in new
        )
        if not lost:
            if ended.how is End.FINISHED:
                self._losses.pop(slot, None)
            return
        together_s = 0.0 if self._launcher.targets else TOGETHER_S
        if now >= self._since.get(slot, -math.inf) + together_s:
            self._since[slot] = now
            self._losses[slot] += 1
        if self.broken or slot in self._drained or self._losses[slot] < BREAKER:
            return
        why = f"{slot or self._launcher.name} failed {BREAKER} times in a row, "
        why += f"last error: {ended.detail or 'none'}"
        if self._launcher.drain(slot):
            self._drained.add(slot)
            self._warn(f"{why}. It gets no more trials.")
            return
        self.broken = why
        self._warn(f"{why}. Stopping. Fix the cause and rerun to resume.")


def end_with_records(ended: Ended, new: Sequence[Record], *, stopping: bool) -> Ended:
    """The end of a job, in view of its records.

    Records say more than an exit code. Without any, a command that ran to its end or that somebody
    else stopped is `BROKEN`; not where the sweep itself is `stopping`.
    """
    if ended.how is End.STOPPED and stopping:
        return ended
    if new and ended.how not in (End.LOCKED, End.LOST):
        return replace(ended, how=End.FINISHED)
    reasons = {End.FINISHED: "ended without a record", End.STOPPED: "stopped by another process"}
    if ended.how in reasons:
        return replace(ended, how=End.BROKEN, detail=ended.detail or reasons[ended.how])
    return ended
