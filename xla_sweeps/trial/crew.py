"""The workers of a replicate: started, prepared, and lost; one that dies ends its own modes."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from xla_sweeps.schema.comparisons import by_backend
from xla_sweeps.schema.measurement import Failure, Flag, Flagged, Phase, Status
from xla_sweeps.schema.modes import SCENARIOS, mode_of
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system.files import folder_in, scratch_folder
from xla_sweeps.trial import protocol, workers
from xla_sweeps.trial.contender import Contender, PreparedMode
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.trial.gpu import SHARED
from xla_sweeps.trial.monitor import Sampler
from xla_sweeps.trial.replicate import ReplicateResult, Setting
from xla_sweeps.trial.workers import RequestFailed, Worker

WRONG_CLOCK = "the measuring process's clock ran at another speed than the machine's"


@dataclass
class Crew:
    """The workers while a replicate is measured.

    Attributes:
        labels: of each worker, those still to be measured.
        contenders: what takes turns, by label: all that are prepared.
        warm: what their warm-up showed; those of a lost worker vanish from it.
        shared: folder of what several workers share; "" where none does.
        is_shared: true once a worker has written there: the first whose model could be built.
        built_at: time when the last model was built, by the `clock`.
    """

    job: ReplicateJob
    setting: Setting
    watcher: Sampler
    mark: Mapping[str, str]
    started: ExitStack
    result: ReplicateResult
    clock: Callable[[], float]
    alive: dict[int, Worker] = field(default_factory=dict)
    contenders: dict[str, Contender] = field(default_factory=dict)
    warm: dict[str, protocol.Warmed] = field(default_factory=dict)
    losses: list[WorkerLost] = field(default_factory=list)
    shared: str = ""
    is_shared: bool = False
    built_at: float = 0.0

    def __post_init__(self) -> None:
        trial = self.job.trial
        self.labels = [list(labels) for labels in trial.workers]
        self._workers: list[Worker] = []
        self._backends = [mode_of(labels[0]).backend for labels in trial.workers]
        self._loaded: dict[str, Mapping[str, Any]] = {}
        self._syncs: dict[str, Mapping[str, Any]] = {}
        self._kind = pkgutil.resolve_name(SCENARIOS[trial.scenario].contender)
        several = trial.copies == "together" and len(by_backend(trial.modes)) > 1
        if self._kind.shares or several:
            self.shared = str(self.started.enter_context(scratch_folder()))

    def make_ready(self, wait: Callable[[], bool]) -> None:
        """Start the workers, prepare and warm up their modes.

        A worker that dies of a mode is started again without it; the others wait for it.
        """
        while missing := self._missing():
            while missing:
                for index in missing:
                    self._start_first(index, beside=len(missing) > 1)
                for index in missing:
                    self._build(index, loads=len(missing) > 1)
                for index in missing:
                    self._prepare_all(index)
                missing = self._missing()
            self._take_turn(wait)
            self.warm_up()

    def _take_turn(self, wait: Callable[[], bool]) -> None:
        """Wait for the device; a worker that ended while others had it is lost."""
        shared = self.setting.leases.shared
        if self.alive and not wait():
            raise self.interruption()
        for index, worker in list(self.alive.items()) if shared else ():
            with self._preparing(index):
                worker.require_alive()

    def _missing(self) -> list[int]:
        """The workers with modes that do not run: not yet, or not any more."""
        return [i for i, labels in enumerate(self.labels) if labels and i not in self.alive]

    def _start_first(self, index: int, *, beside: bool) -> None:
        """Start a worker; `beside` others, it loads its framework meanwhile."""
        worker = self._start(index, tuple(self.labels[index]), partial(self._take, index))
        self.started.enter_context(worker)
        self.watcher.add(worker.pid, worker.memory.request)
        self.alive[index] = worker
        self._workers.append(worker)
        if beside:
            worker.send(protocol.Load(), deadline_s=self.job.trial.timeouts.build_s)

    def _build(self, index: int, *, loads: bool) -> None:
        """Have a worker build the model, once its framework is loaded if it `loads` it already."""
        worker = self.alive[index]
        with self._preparing(index):
            if loads:
                ready = worker.receive_or_end(protocol.Ready)
                self.result.seconds = {**ready.seconds, **self.result.seconds}
            self._set_up(worker, index)
            self.setting.tracker.begin()
            self.built_at = self.clock()

    def _prepare_all(self, index: int) -> None:
        """Prepare the modes of a worker, if it lives; what kills it is left out from then on."""
        with self._preparing(index):
            for label in list(self.labels[index]) if index in self.alive else ():
                self._prepare(self.alive[index], label, index)

    @contextmanager
    def _preparing(self, index: int) -> Iterator[None]:
        try:
            yield
        except WorkerLost as lost:
            self._lose_preparing(index, lost)

    def _start(
        self,
        index: int,
        labels: tuple[str, ...],
        on_event: Callable[[protocol.Event], None],
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Worker:
        """Start a process at a worker's place, for these labels; a stop raises `WorkerLost`."""
        command = self.setting.commands[index]
        environment = {**command.environment, **variables}
        command = replace(command, labels=labels, environment=environment)
        sys.audit("xla_sweeps.spawn.before")
        worker = workers.start(command, mark=self.mark, stop=self.setting.stop, on_event=on_event)
        sys.audit("xla_sweeps.spawn.after")
        if worker is None:
            raise self.interruption()
        return worker

    def _job_of(self, index: int, labels: tuple[str, ...], *, adopts: bool) -> ReplicateJob:
        """The job of a worker, which shares with its own further processes or with the others."""
        shared, trial = self.shared, self.setting.commands[index].trial
        if self._kind.shares:
            shared = str(folder_in(Path(shared), str(index)))
        adopts = adopts and bool(shared)
        return replace(self.job, modes=labels, trial=trial, adopts=adopts, shared=shared)

    def _leads(self, index: int) -> bool:
        """True for the first worker of its backend: what it tells of the backend is recorded."""
        return self._backends.index(self._backends[index]) == index

    def _take(self, index: int, event: protocol.Event) -> None:
        """Take in an event of a worker; facts that all workers share are the first one's."""
        match event:
            case protocol.Stage(phase=phase, mode=mode, detail=detail):
                self.show(phase, mode, detail)
            case protocol.Loaded(environment=environment) if self._leads(index):
                self._loaded[self._backends[index]] = environment
                self.result.environment = _merge(self._loaded)
            case protocol.Built(model=model):
                self.result.built[index] = model
                self.result.model = self.result.built[min(self.result.built)]
            case protocol.Caveat(flagged=flagged):
                self.result.flag(flagged)

    def _set_up(self, worker: Worker, index: int) -> None:
        adopts = self.is_shared and not self._kind.shares
        job = self._job_of(index, tuple(self.labels[index]), adopts=adopts)
        limit_s, request = self.job.trial.timeouts.build_s, protocol.SetUp(job=job)
        ready = worker.request_or_end(request, protocol.Ready, deadline_s=limit_s)
        self.is_shared = True
        if self._leads(index):
            self._syncs[self._backends[index]] = ready.sync
            self.result.sync = _merge(self._syncs)
        self.result.seconds = {**ready.seconds, **self.result.seconds}

    def _prepare(self, worker: Worker, label: str, index: int) -> None:
        limit_s, request = self.job.trial.timeouts.trace_s, protocol.Prepare(mode=label)
        try:
            ready = worker.request(request, protocol.ModeReady, deadline_s=limit_s)
        except RequestFailed as failed:
            self._drop_mode(label, failed, index)
            return
        self.result.modes[label] = ready.outcome
        if ready.outcome.status is not Status.MODE_NOT_EFFECTIVE:
            self.contenders[label] = self._kind(
                PreparedMode(
                    label=label,
                    outcome=ready.outcome,
                    worker=worker,
                    job=self._job_of(index, (label,), adopts=True),
                    start=partial(self._start, index, (label,)),
                    environment=self.setting.commands[index].environment,
                    watcher=self.watcher,
                )
            )
        else:
            self.labels[index].remove(label)

    def show(self, stage: str, mode: str = "", detail: str = "") -> None:
        """Show that a stage begins."""
        self.setting.screen.stage(self.job.replicate, stage, mode or None, detail)

    def warm_up(self, *, again: bool = False) -> None:
        """Warm up what is not warm yet; a worker that is lost `again` is not started again."""
        for index in list(self.alive):
            for label in [label for label in self.labels[index] if label not in self.warm]:
                if self._kind.shares:  # a worker says so itself
                    self.show(Phase.WARMUP, label)
                try:
                    warmed = self.contenders[label].warm_up()
                except RequestFailed as failed:
                    self._drop_mode(label, failed, index)
                except WorkerLost as lost:
                    if again:
                        self.lose(lost)
                    else:
                        self._lose_preparing(index, lost)
                    break
                else:
                    self.result.modes[label] = warmed.outcome
                    self.warm[label] = warmed

    def _drop_mode(self, label: str, failed: RequestFailed, index: int) -> None:
        """A mode cannot be measured; its worker goes on."""
        self.result.fail(label, failed.status, failed.failure)
        self.setting.screen.warn(f"{label}: {failed.failure.message}")
        self.labels[index].remove(label)

    def _lose_preparing(self, index: int, lost: WorkerLost) -> None:
        """Lose a worker, or only the mode that killed it; raises the loss after an interrupt."""
        self._forget(lost)
        if lost.status is Status.INTERRUPTED:
            raise lost
        if lost.mode:
            left = self.labels[index]
            left.remove(lost.mode)
            self.result.fail(lost.mode, lost.status, lost.failure)
            others = [label for labels in self.labels for label in labels]
            self.setting.screen.warn(
                f"{lost.mode}: {lost.failure.message}; "
                + (f"continuing with {', '.join(others)}" if others else "no mode is left")
            )
            if left:
                return
        elif len(self.labels) > 1:
            self.setting.screen.warn(f"{', '.join(self.labels[index])}: {lost.failure.message}")
        self.labels[index] = []
        self.losses.append(lost)

    def lose(self, lost: WorkerLost) -> None:
        """A worker ended while it was measured; the others' modes go on."""
        self._forget(lost)
        self.losses.append(lost)
        if self.warm and lost.status is not Status.INTERRUPTED:
            labels = ", ".join(sorted(lost.labels))
            self.setting.screen.warn(
                f"{labels}: {lost.failure.message}; continuing with {', '.join(self.warm)}"
            )

    def _forget(self, lost: WorkerLost) -> None:
        """Nothing is asked of a lost worker any more."""
        gone = [index for index, worker in self.alive.items() if lost.labels >= {*worker.labels}]
        for index in gone:
            del self.alive[index]
        for label in lost.labels:
            self.warm.pop(label, None)

    def interruption(self) -> WorkerLost:
        """Exception for a stop that was requested."""
        failure = Failure(phase=Phase.MEASURE, kind="interrupted", message="interrupted")
        return WorkerLost(self.job.modes, status=Status.INTERRUPTED, failure=failure)

    def take_in_watch(self) -> None:
        """Take in what the watcher and the workers' clocks showed until the end of measuring."""
        result, watch = self.result, self.watcher.gpu
        if watch and result.rounds:
            watch.end()
            if watch.newcomers:  # since when is unknown
                result.contaminate(SHARED)
        if result.rounds and any(worker.clock_differs for worker in self._workers):
            result.flag(Flagged(Flag.CLOCK_DIFFERS))
            result.contaminate(WRONG_CLOCK)
        if watch:
            result.gpu = tuple(watch.spans)
            result.flags += map(Flagged, watch.flags())
        result.contamination = self.watcher.summary()

    def finish(self, calls: Mapping[str, int]) -> None:
        """Have each worker check what its modes have become, given the calls of their blocks."""
        for worker in list(self.alive.values()):
            request = protocol.Finish(calls={label: calls.get(label, 0) for label in worker.labels})
            limit_s = self.job.trial.timeouts.measure_s
            try:
                finished = worker.request_or_end(request, protocol.Finished, deadline_s=limit_s)
            except WorkerLost as lost:
                self.lose(lost)
            else:
                self.result.finished = True
                self.result.seconds |= finished.seconds
                for label, (status, failure) in finished.spoilt.items():
                    self.result.fail(label, status, failure)


def _merge(told: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The values of all backends; where one differs from an earlier one's, its name says whose."""
    together: dict[str, Any] = {}
    for backend, values in told.items():
        for key, value in values.items():
            differs = key in together and together[key] != value
            together[f"{backend}.{key}" if differs else key] = value
    return together
