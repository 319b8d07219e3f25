"""Conduct one replicate: its workers prepare the modes, then take turns block by block.

The parent decides what is measured when; a worker does what it is asked. A replicate has one
worker, or several that each measure some of its modes. One that dies ends its own modes, not the
others'.
"""

from __future__ import annotations

import math
import select
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from xla_sweeps.analysis import stats
from xla_sweeps.schema.measurement import (
    INPUTS,
    Block,
    Failure,
    Flag,
    Flagged,
    ModeOutcome,
    Phase,
    Round,
    Status,
    Trend,
)
from xla_sweeps.schema.modes import Mode, by_backend, headline_pairs, mode_of
from xla_sweeps.schema.trial import ENERGY_PASSES, Effort, ReplicateJob
from xla_sweeps.system.energy import Meter
from xla_sweeps.system.process import adopting_orphans
from xla_sweeps.trial import idle, pacing, protocol, rounds, workers
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.trial.metering import measure_energy
from xla_sweeps.trial.monitor import Sampler
from xla_sweeps.trial.replicate import WAITING, ClockCheck, ReplicateResult, Setting
from xla_sweeps.trial.workers import Answer, RequestFailed, Worker, WorkerCommand

RAMP_S = 0.02
"""The first calls after a review are untimed until none was faster for so long: a GPU's clock."""

TIMED_SHARE = 0.15
"""Share of what preparing took for which modes are timed at least, unless the interval is narrow
enough before: noise that no round averages out is worth some more of them."""

ALONE_S = 5.0
"""Time for each mode alone where power limits a GPU, which averages its power over less."""

WARM_CALLS = 100
WARM_S = 1.0
"""A mode whose warm-up was too short to assess makes so many calls, or calls for so long, before
its rounds count: it may have become faster."""

WAIT_SAY_S = 10.0
"""Between two reports of what disturbs."""


def measure(job: ReplicateJob, setting: Setting) -> ReplicateResult:
    """Measure one replicate to its end, whatever that is.

    Raises:
        OSError: a worker cannot be started, or its log cannot be written.
    """
    with adopting_orphans() as mark, ExitStack() as started, setting.watch() as watcher:
        conductor = _Conductor(job, setting, watcher, mark, started)
        conductor.run()
        return conductor.result


@dataclass
class _Conductor:
    """The state of a replicate while it is measured."""

    job: ReplicateJob
    setting: Setting
    watcher: Sampler
    mark: Mapping[str, str]
    started: ExitStack
    result: ReplicateResult = field(default_factory=ReplicateResult)
    alive: dict[int, Worker] = field(default_factory=dict)
    warm: dict[str, protocol.Warmed] = field(default_factory=dict)
    paces: dict[str, pacing.Pace] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    loaded: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    syncs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    shared: str = ""
    """Folder of what workers of several backends share."""
    is_shared: bool = False
    """True once a worker has written there: the first one whose model could be built."""
    losses: list[WorkerLost] = field(default_factory=list)
    until: float = math.inf
    """Time when measuring must be over, monotonic."""
    began: float = 0.0
    built_at: float = 0.0
    """Times when the replicate began and its last model was built, by `time.perf_counter`."""
    wait_began: float = math.inf
    wait_said: float = -math.inf
    """Times of the wait for a quiet machine, monotonic."""
    paused: bool = True
    """True if the device idled since the last block, so that a GPU's clock may have fallen."""
    waited_s: float = 0.0
    """Seconds that it has waited for a quiet machine."""

    def __post_init__(self) -> None:
        self.labels = [list(labels) for labels in self.job.trial.workers]
        """Labels still to be measured, of each worker."""
        self.worker_of = {
            label: index for index, labels in enumerate(self.labels) for label in labels
        }
        self.clocks = [ClockCheck() for _ in self.labels]
        if len(by_backend(self.job.trial.modes)) > 1:
            self.shared = self.started.enter_context(TemporaryDirectory(prefix="xla-sweeps-"))

    def run(self) -> None:
        """Prepare, measure, finish."""
        self.began = time.perf_counter()
        try:
            self._make_ready()
            prepared_at = time.perf_counter()
            if self.warm:
                self._measure()
            self._finish()
            if self.result.finished:
                self.result.seconds["prepare"] = prepared_at - self.built_at
                self.result.seconds["measure"] = time.perf_counter() - prepared_at
        except WorkerLost as interrupted:
            self.losses.append(interrupted)
        self._conclude()

    def _make_ready(self) -> None:
        """Start the workers, prepare and warm up their modes.

        A worker that dies of a mode is started again without it; the others wait for it.
        """
        while True:
            for index, labels in enumerate(self.labels):
                if labels and index not in self.alive:
                    self._bring_up(index)
            if self.alive:
                self._wait_for_turn()
            for index in list(self.alive):
                self._warm_up(index)
            if all(index in self.alive for index, left in enumerate(self.labels) if left):
                return

    def _bring_up(self, index: int) -> None:
        """Start a worker, prepare its modes; again without each mode that kills it."""
        while self.labels[index] and index not in self.alive:
            worker = self._start(index)
            try:
                self._set_up(worker, index)
                self.built_at = time.perf_counter()
                for label in list(self.labels[index]):
                    self._prepare(worker, label, index)
            except RequestFailed as failed:
                self._lose(index, worker.give_up(failed))
            except WorkerLost as lost:
                self._lose(index, lost)
            else:
                self.alive[index] = worker

    def _start(self, index: int) -> Worker:
        setting, usual = self.setting, (self.setting.backend, self.setting.environment)
        backend, environment = setting.others.get(self._backend(index), usual)
        command = WorkerCommand(
            backend=backend,
            environment=environment,
            log=setting.log,
            labels=tuple(self.labels[index]),
            trial=self.job.trial,
        )
        if setting.places:
            place = setting.places[index]
            command = replace(
                command,
                environment=place.environment,
                python=place.python,
                folder=place.folder,
            )
        sys.audit("xla_sweeps.spawn.before")
        worker = workers.start(
            command, mark=self.mark, stop=setting.stop, on_event=partial(self._take, index)
        )
        sys.audit("xla_sweeps.spawn.after")
        if worker is None:
            raise self._interrupted()
        self.started.enter_context(worker)
        self.watcher.add(worker.pid, worker.memory.request)
        return worker

    def _backend(self, index: int) -> str:
        """The backend of a worker, by its name."""
        return mode_of(self.job.trial.workers[index][0]).backend

    def _leads(self, index: int) -> bool:
        """True for the first worker of its backend: what it tells of the backend is recorded."""
        backends = [mode_of(labels[0]).backend for labels in self.job.trial.workers]
        return backends.index(backends[index]) == index

    def _take(self, index: int, event: protocol.Event) -> None:
        """Take in an event of a worker; facts that all workers share are the first one's."""
        match event:
            case protocol.Stage(phase=phase, mode=mode, detail=detail):
                self._show(phase, mode, detail)
            case protocol.Loaded(environment=environment) if self._leads(index):
                self.loaded[self._backend(index)] = environment
                self.result.environment = _together(self.loaded)
            case protocol.Built(model=model):
                self.result.built[index] = model
                self.result.model = self.result.built[min(self.result.built)]
            case protocol.Caveat(flagged=flagged):
                self.result.flag(flagged)

    def _set_up(self, worker: Worker, index: int) -> None:
        job = replace(self.job, modes=tuple(self.labels[index]))
        if self.setting.places:
            job = replace(job, trial=self.setting.places[index].trial)
        limit_s = self.job.trial.timeouts.build_s
        request = protocol.SetUp(job=job, shared=self.shared, leads=not self.is_shared)
        ready = worker.request(request, protocol.Ready, deadline_s=limit_s)
        self.is_shared = True
        if self._leads(index):
            self.syncs[self._backend(index)] = ready.sync
            self.result.sync = _together(self.syncs)
        self.result.seconds = {**ready.seconds, **self.result.seconds}

    def _prepare(self, worker: Worker, label: str, index: int) -> None:
        limit_s, request = self.job.trial.timeouts.trace_s, protocol.Prepare(mode=label)
        try:
            ready = worker.request(request, protocol.ModeReady, deadline_s=limit_s)
        except RequestFailed as failed:
            self._drop(label, failed, index)
        else:
            self.result.modes[label] = ready.outcome
            if not ready.usable:
                self.labels[index].remove(label)

    def _show(self, stage: str, mode: str = "", detail: str = "") -> None:
        self.setting.screen.stage(self.job.replicate, stage, mode or None, detail)

    def _drop(self, label: str, failed: RequestFailed, index: int) -> None:
        """A mode cannot be measured; its worker goes on."""
        self.result.fail(label, failed.status, failed.failure)
        self.setting.screen.warn(f"{label}: {failed.failure.message}")
        self.labels[index].remove(label)

    def _warm_up(self, index: int) -> None:
        """Warm up the modes of a worker that are not warm yet."""
        worker, limit_s = self.alive[index], self.job.trial.timeouts.warmup_s
        for label in [label for label in self.labels[index] if label not in self.warm]:
            request = protocol.WarmUp(mode=label)
            try:
                warmed = worker.request(request, protocol.Warmed, deadline_s=limit_s)
            except RequestFailed as failed:
                self._drop(label, failed, index)
            except WorkerLost as lost:
                self._lose(index, lost)
                return
            else:
                self.result.modes[label] = warmed.outcome
                self._flag_moving(label)
                self.warm[label] = warmed

    def _lose(self, index: int, lost: WorkerLost) -> None:
        """A worker ended while it prepared; without the mode that killed it, it may go on.

        Raises:
            WorkerLost: an interrupt, which ends the replicate.
        """
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

    def _forget(self, lost: WorkerLost) -> None:
        """Nothing is asked of a lost worker any more."""
        gone = [index for index, worker in self.alive.items() if set(worker.labels) & lost.labels]
        for index in gone:
            del self.alive[index]
        for label in lost.labels:
            self.warm.pop(label, None)

    def _wait_for_turn(self) -> None:
        """Wait until the device is this trial's own and quiet; no deadline runs meanwhile."""
        leases, stop = self.setting.leases, self.setting.stop
        if not leases.wait(stop, self._say_holder, also=self._is_quiet):
            raise self._interrupted()
        if self.watcher.gpu:
            self.watcher.gpu.begin()

    def _say_holder(self, holder: str) -> None:
        text = WAITING.format(device=self.job.trial.device, holder=holder)
        self.setting.screen.warn(text)

    def _is_quiet(self) -> bool:
        """True once nothing disturbs any more, or after a while; to be asked twice a second."""
        now = time.monotonic()
        self.wait_began = min(now, self.wait_began)
        self.waited_s = min(now - self.wait_began, self.setting.quiet_s)
        left_s = self.setting.quiet_s - self.waited_s
        cause = self.watcher.disturbance() if left_s > 0 else ""
        if cause and now >= self.wait_said + WAIT_SAY_S:
            self.wait_said = now
            self._show("wait", detail=f"for quiet: {cause}, at most {left_s:.0f} s")
        return not cause

    def _interrupted(self) -> WorkerLost:
        failure = Failure(phase=Phase.MEASURE, kind="interrupted", message="interrupted")
        return WorkerLost(self.job.modes, status=Status.INTERRUPTED, failure=failure)

    def _measure(self) -> None:
        """Measure rounds, and each mode alone where the effort says so."""
        effort = self.job.trial.effort
        self.result.sync["empty_s"] = next(iter(self.warm.values())).sync_s
        self.until = time.monotonic() + self.job.trial.timeouts.measure_s
        ended = self._measure_rounds()
        if self.warm and (
            rounds.drifts(ended.rounds, ended.headline) or self._is_still_warming_up(ended)
        ):
            self._take_as_warm_up(ended.rounds)
            ended = self._measure_rounds()
        self.result.rounds = list(ended.rounds)
        self.result.contaminated = rounds.is_contaminated(ended.rounds)
        if not self.warm:
            return
        if not ended.converged:
            self.result.flag(Flagged(Flag.NOT_CONVERGED))
        self._note_singles()
        if seconds := self._alone_s():
            self._measure_alone(seconds)
        if self.warm and effort.energy_s:
            self._measure_energy(effort.energy_s)

    def _measure_rounds(self) -> rounds.Interleaving:
        """Measure rounds of the modes that are warm."""
        trial = self.job.trial
        self._show(Phase.MEASURE)
        self.paces, self.calls = plan_blocks(self.warm, trial.effort)
        ended = rounds.Interleaving(
            self._time_block,
            self.calls,
            {label: pace.call_s for label, pace in self.paces.items()},
            effort=trial.effort,
            seed=self.job.order_seed,
            clock=time.perf_counter_ns,
            review=self._review,
            on_design=partial(self.setting.screen.round_done, self.job.replicate),
            singles={
                label: pacing.singles_per_round(
                    pace.call_s + pace.fill_s, calls=self.calls[label], effort=trial.effort
                )
                for label, pace in self.paces.items()
            },
            least_s=TIMED_SHARE * (time.perf_counter() - self.began - self.waited_s),
        ).measure()
        for lost in ended.lost:
            self._drop_worker(lost)
        return ended

    def _is_still_warming_up(self, ended: rounds.Interleaving) -> bool:
        """True if a mode of a short warm-up is, after more calls, faster than in every round."""
        faster = False
        for label in sorted(ended.decisive & set(self.warm)):
            blocks = [one for each in ended.rounds for one in each.blocks if one.mode == label]
            call_s = [block.call_s for block in blocks]
            made = sum(block.calls + len(block.single_ns) for block in blocks)
            if not blocks or made >= WARM_CALLS or self.result.modes[label].warmup_trend:
                continue
            more = min(WARM_CALLS - made, math.ceil(WARM_S / min(call_s)))
            try:
                _, *last = [
                    self._time_block(label, calls, settle=False, first=0).call_s
                    for calls in (more, self.calls[label], self.calls[label])
                ]
            except WorkerLost as lost:
                self._drop_worker(lost)
            else:
                faster |= max(last) < (1 - stats.DRIFT) * min(call_s)
        return faster and bool(self.warm)

    def _take_as_warm_up(self, measured: Sequence[Round]) -> None:
        """Take rounds in which a speedup changed as warm-up, and warm up once more."""
        before = {label: self.result.modes[label] for label in self.warm}
        self.warm.clear()
        for index in list(self.alive):
            self._warm_up(index)
        for label in self.warm:
            blocks = [one for each in measured for one in each.blocks if one.mode == label]
            singles = [span for block in blocks for span in block.single_ns]
            earlier, outcome = before[label], self.result.modes[label]
            self.result.modes[label] = replace(
                outcome,
                warmup_calls=earlier.warmup_calls
                + sum(block.calls for block in blocks)
                + len(singles)
                + outcome.warmup_calls,
                warmup_block_calls=earlier.warmup_block_calls
                + tuple(block.calls for block in blocks)
                + outcome.warmup_block_calls,
                warmup_block_ns=earlier.warmup_block_ns
                + tuple(block.elapsed_ns for block in blocks)
                + outcome.warmup_block_ns,
            )

    def _time_block(
        self, label: str, calls: int, settle: bool, first: int, singles: int = 0
    ) -> Block:
        """Time a block in the label's worker; see `TimeBlock`."""
        others = self._others(label)
        idle.settle(others)
        before_ns = idle.cpu_ns(others)
        ramp_s = RAMP_S if self.watcher.gpu and self.paused else 0.0
        self.paused = False
        request = protocol.TimeBlock(
            mode=label, calls=calls, settle=settle, first=first, ramp_s=ramp_s, singles=singles
        )
        timed = self._ask(label, request, protocol.Timed)
        used_ns = max(0, idle.cpu_ns(others) - before_ns)
        self.clocks[self.worker_of[label]].note(timed.clock_ns)
        fill_ns = min(round(self.paces[label].fill_s * 1e9), timed.block.elapsed_ns // 2)
        block = replace(timed.block, fill_ns=fill_ns)
        return replace(block, idle_cpu_ns=used_ns) if others else block

    def _others(self, label: str) -> list[int]:
        """Process ids of the other workers, which must not compute meanwhile; all for no mode."""
        own = self.worker_of.get(label)
        return [worker.pid for index, worker in self.alive.items() if index != own]

    def _ask(self, label: str, request: protocol.Request, expected: type[Answer]) -> Answer:
        """Send a request to the label's worker; an exception in it ends the worker.

        Raises:
            WorkerLost: the worker ended.
        """
        worker = self.alive[self.worker_of[label]]
        try:
            left_s = max(0.0, self.until - time.monotonic())
            return worker.request(request, expected, deadline_s=left_s)
        except RequestFailed as failed:
            raise worker.give_up(failed) from failed

    def _drop_worker(self, lost: WorkerLost) -> None:
        """A worker ended while it was measured; the others' modes go on."""
        self._forget(lost)
        self.losses.append(lost)
        if self.warm and lost.status is not Status.INTERRUPTED:
            labels = ", ".join(sorted(lost.labels))
            self.setting.screen.warn(
                f"{labels}: {lost.failure.message}; continuing with {', '.join(self.warm)}"
            )

    def _review(self, measured: Sequence[Round]) -> Sequence[Round]:
        """Have the watcher review these rounds, and track them."""
        reviewed = [
            replace(round_, dirty=round_.dirty or idle.cause_of(round_))
            for round_ in self.watcher.review(measured)
        ]
        self.paused = True
        number, samples = self.job.replicate, self.job.trial.samples
        gpu = self.watcher.gpu.spans if self.watcher.gpu else ()
        self.setting.tracker.log_rounds(number, reviewed, batch_size=samples, gpu=gpu)
        return reviewed

    def _note_singles(self) -> None:
        """Take the single calls of the rounds into the modes' outcomes, and flag what they show."""
        clean = [round_ for round_ in self.result.rounds if not round_.dirty]
        decisive = {label for pair in headline_pairs(tuple(self.warm)) for label in pair}
        for label in self.warm:
            blocks = [
                (block, round_.round % INPUTS)
                for round_ in clean or self.result.rounds
                for block in round_.blocks
                if block.mode == label
            ]
            singles = [one for block, first in blocks for one in pacing.singles_of(block, first)]
            outcome = self.result.modes[label]
            self.result.modes[label] = replace(
                outcome,
                latencies_s=tuple(single.call_s for single in singles),
                latency_enqueue_ns=tuple(single.enqueue_ns for single in singles),
                warmup_trend=outcome.warmup_trend or pacing.trend(self.result.rounds, label),
            )
            self._flag_moving(label)
            if pacing.inputs_differ(singles):
                self.result.flag(Flagged(Flag.INPUTS_DIFFER, label))
            if label in decisive and pacing.is_too_short(self.paces[label], self.calls[label]):
                self.result.flag(Flagged(Flag.QUEUE_FILL, label))

    def _alone_s(self) -> float:
        """Seconds for each mode alone on a GPU: as the effort says, and where power limits it.

        There a mode profits from others of its rounds that let the GPU cool and rest.
        """
        if not self.watcher.gpu:
            return 0.0
        seconds = self.job.trial.effort.sustained_s
        left_s = self.until - time.monotonic()
        if Flag.POWER_LIMITED in self.watcher.gpu.flags() and left_s > 2 * ALONE_S * len(self.warm):
            seconds = max(seconds, ALONE_S)
        return seconds

    def _measure_alone(self, seconds: float) -> None:
        """Measure blocks of each mode alone, one after the other, as long as the effort says.

        By then a GPU that is limited by power or heat has slowed down.
        """
        self._show(Phase.MEASURE, detail="each mode alone")
        for label in [label for label in self.calls if label in self.warm]:
            call_s, until = list[float](), time.monotonic() + seconds
            try:
                while time.monotonic() < until:
                    first = len(call_s) % INPUTS
                    block = self._time_block(label, self.calls[label], settle=False, first=first)
                    call_s.append(block.call_s)
            except WorkerLost as lost:
                self._drop_worker(lost)
            else:
                outcome = self.result.modes[label]
                self.result.modes[label] = replace(outcome, sustained_call_s=tuple(call_s))

    def _measure_energy(self, seconds: float) -> None:
        """Read the device's energy counter around each mode alone, where it can be read."""
        self._show(Phase.MEASURE, detail="energy")
        blocks_s = [self.calls[label] * mode.call_s for label, mode in self.warm.items()]
        pass_s = seconds + sum(max(seconds, block_s) + block_s for block_s in blocks_s)
        meter = self.watcher.meter()
        if self.until - time.monotonic() < 2 * ENERGY_PASSES * pass_s:
            meter = Meter(problem="timeouts.measure_s leaves too little time")
        self.result.energy, passes = measure_energy(
            meter,
            self.warm,
            ready=self._ready,
            run=partial(self._run_alone, seconds),
            disturbance=self.watcher.disturbed,
            lose=self._drop_worker,
        )
        for label, metered in passes.items():
            self.result.modes[label] = replace(self.result.modes[label], energy=metered)

    def _ready(self, label: str) -> None:
        """Have the other workers idle, and the mode run once; all workers idle for no mode."""
        idle.settle(self._others(label))
        self.paused = True
        if label:
            self._time_block(label, self.calls[label], settle=False, first=0)

    def _run_alone(self, seconds: float, label: str) -> int:
        """Run a mode for so long; the calls that it made. Wait for no mode."""
        calls = blocks = 0
        until = time.monotonic() + seconds
        if not label:
            select.select([self.setting.stop], [], [], seconds)
            if self.setting.stop.requested:
                raise self._interrupted()
        while label and time.monotonic() < until:
            request = protocol.TimeBlock(
                mode=label,
                calls=self.calls[label],
                settle=False,
                first=blocks % INPUTS,
                ramp_s=0.0,
            )
            calls += self._ask(label, request, protocol.Timed).block.calls
            blocks += 1
        return calls

    def _flag_moving(self, label: str) -> None:
        if self.result.modes[label].warmup_trend is Trend.MOVING:
            self.result.flag(Flagged(Flag.WARMUP_NOT_STATIONARY, label))

    def _finish(self) -> None:
        """Have each worker check what its modes have become."""
        for worker in list(self.alive.values()):
            calls = {label: self.calls.get(label, 0) for label in worker.labels}
            limit_s = self.job.trial.timeouts.measure_s
            try:
                request = protocol.Finish(calls=calls)
                finished = worker.request(request, protocol.Finished, deadline_s=limit_s)
            except RequestFailed as failed:
                self._drop_worker(worker.give_up(failed))
            except WorkerLost as lost:
                self._drop_worker(lost)
            else:
                self.result.finished = True
                self.result.seconds |= finished.seconds
                for label, (status, failure) in finished.spoilt.items():
                    self.result.fail(label, status, failure)

    def _conclude(self) -> None:
        """Say how the replicate ended, and what the watcher saw."""
        result = self.result
        interrupted = [lost for lost in self.losses if lost.status is Status.INTERRUPTED]
        result.finished = result.finished and not interrupted
        if result.finished:
            for lost in self.losses:
                self._note_lost_modes(lost)
        elif self.losses:
            last = (interrupted or self.losses)[-1]
            result.status, result.failure = last.status, last.failure
        result.conclude(self.watcher, clock_differs=any(clock.differs for clock in self.clocks))
        if self.setting.quiet_s:
            result.contamination["waited_s"] = round(self.waited_s, 1)

    def _note_lost_modes(self, lost: WorkerLost) -> None:
        """The modes of a lost worker failed, unless they had failed before."""
        for label in lost.labels:
            outcome = self.result.modes.get(label, ModeOutcome(status=Status.OK))
            if outcome.status is Status.OK:
                self.result.fail(label, lost.status, lost.failure)


def plan_blocks(
    warm: Mapping[str, protocol.Warmed], effort: Effort
) -> tuple[dict[str, pacing.Pace], dict[str, int]]:
    """The pace of each mode that is warm, and the calls of its blocks: the same for copies.

    Args:
        warm: by label.
        effort: the length of a block.
    """
    paces, calls = dict[str, pacing.Pace](), dict[str, int]()
    copies: dict[Mode, list[str]] = {}
    for label in warm:
        copies.setdefault(mode_of(label), []).append(label)
    for labels in copies.values():
        each = [warm[label] for label in labels]
        queues = each[0].fill_s is not None
        pace = pacing.Pace.mean(
            [pacing.Pace(call_s=one.call_s, fill_s=one.fill_s or 0.0) for one in each]
        )
        count = pacing.calls_per_block(
            pace.call_s,
            sync_s=max(one.sync_s for one in each),
            block_s=effort.block_s,
            fill_s=pace.fill_s if queues else None,
        )
        paces |= dict.fromkeys(labels, pace)
        calls |= dict.fromkeys(labels, count)
    return paces, calls


def _together(told: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The values of all backends; where one differs from an earlier one's, its name says whose.

    Args:
        told: by backend, the first one's first.
    """
    together: dict[str, Any] = {}
    for backend, values in told.items():
        for key, value in values.items():
            differs = key in together and together[key] != value
            together[f"{backend}.{key}" if differs else key] = value
    return together
