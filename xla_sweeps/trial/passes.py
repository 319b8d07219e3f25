"""The passes of a replicate: its rounds, then each mode alone, then energy."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from xla_sweeps.schema.comparisons import headline_pairs
from xla_sweeps.schema.measurement import (
    INPUTS,
    Block,
    Energy,
    Flag,
    Flagged,
    Metered,
    ModeOutcome,
    Phase,
    Round,
    Trend,
)
from xla_sweeps.schema.trial import ENERGY_PASSES
from xla_sweeps.system.energy import Meter, MeterError
from xla_sweeps.system.process import becomes_readable
from xla_sweeps.trial import monitor, pacing, protocol, rounds
from xla_sweeps.trial.crew import Crew
from xla_sweeps.trial.failures import WorkerLost

RAMP_S = 0.02
"""The first calls after a review are untimed until none was faster for so long: a GPU's clock."""

TIMED_SHARE = 0.15
"""Share of what preparing took for which modes are timed at least, unless the interval is narrow
enough before: noise that no round averages out is worth some more of them."""

ALONE_S = 5.0
"""Time for each mode alone where power limits a GPU, which averages its power over less."""

LATER_BLOCKS = 3
"""Blocks after further calls, whose median is compared with the rounds."""

IDLE = ""
"""Label of a device that idles."""


@dataclass
class Passes:
    """The measuring of a replicate whose workers are ready.

    Attributes:
        began: time when preparing began, by the crew's clock.
        until: time when measuring must be over, monotonic.
        paused: whether the device idled since the last block, so that its clock may have fallen.
    """

    crew: Crew
    began: float
    paces: dict[str, pacing.Pace] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    until: float = math.inf
    paused: bool = True

    def __post_init__(self) -> None:
        self.job, self.result = self.crew.job, self.crew.result
        self.watcher, self.warm = self.crew.watcher, self.crew.warm

    def measure(self) -> None:
        """Measure rounds, and each mode alone where the effort says so."""
        trial = self.job.trial
        self.result.sync["empty_s"] = next(iter(self.warm.values())).sync_s
        self.until = time.monotonic() + trial.timeouts.measure_s
        ended = self._measure_rounds()
        again = self._is_still_warming_up(ended)  # whose calls end what is left of it
        if ended.decisive <= self.warm.keys() and (
            again
            or rounds.drifts(ended.rounds, ended.headline)
            or any(pacing.slow_in_blocks(ended.rounds, label) for label in ended.decisive)
            or any(pacing.faster_under_load(ended.rounds, label) for label in ended.decisive)
        ):
            before = {label: self.result.modes[label] for label in self.warm}
            self.warm.clear()
            self.crew.warm_up(again=True)
            if ended.decisive <= self.warm.keys():  # else these rounds are the last of all modes
                self._take_as_warm_up(ended.rounds, before)
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
        if self.warm and trial.effort.energy_s:
            self._measure_energy(trial.effort.energy_s)

    def _measure_rounds(self) -> rounds.Interleaving:
        trial = self.job.trial
        self.crew.show(Phase.MEASURE)
        self.paces, self.calls = pacing.plan_blocks(self.warm, trial.effort)
        ended = rounds.Interleaving(
            self._time_block,
            self.calls,
            {label: pace.call_s for label, pace in self.paces.items()},
            effort=trial.effort,
            seed=self.job.order_seed,
            clock=time.perf_counter_ns,
            review=self._review,
            on_design=partial(self.crew.setting.screen.round_done, self.job.replicate),
            singles={
                label: pacing.singles_per_round(
                    pace.call_s + pace.fill_s, calls=self.calls[label], effort=trial.effort
                )
                for label, pace in self.paces.items()
            },
            least_s=TIMED_SHARE * (self.crew.clock() - self.began),
        ).measure()
        for lost in ended.lost:
            self.crew.lose(lost)
        return ended

    def _is_still_warming_up(self, ended: rounds.Interleaving) -> bool:
        """True if a mode of a short warm-up is, after more calls, faster than in most rounds."""
        faster = False
        for label in self._still_warm(sorted(ended.decisive)):
            blocks = [one for each in ended.rounds for one in each.blocks if one.mode == label]
            more = pacing.calls_to_warm(blocks)
            if not more or self.result.modes[label].warmup_trend:
                continue
            try:
                _, *last = [
                    self._time_block(label, calls, settle=False, first=0).call_s
                    for calls in (more, *[self.calls[label]] * LATER_BLOCKS)
                ]
            except WorkerLost as lost:
                self.crew.lose(lost)
            else:
                call_s = [block.call_s for block in blocks]
                faster |= pacing.is_faster_than_most(statistics.median(last), call_s)
        return faster and bool(self.warm)

    def _still_warm(self, labels: Sequence[str]) -> Iterator[str]:
        """Labels whose worker lives when it is their turn: one may be lost meanwhile."""
        return (label for label in labels if label in self.warm)

    def _take_as_warm_up(
        self, measured: Sequence[Round], before: Mapping[str, ModeOutcome]
    ) -> None:
        """Take rounds in which a speedup changed as calls of a warm-up that was made twice."""
        for label in self.warm:
            blocks = [one for each in measured for one in each.blocks if one.mode == label]
            counts = tuple(n for one in blocks for n in (one.calls, *[1] * len(one.single_ns)))
            spans_ns = tuple(ns for one in blocks for ns in (one.elapsed_ns, *one.single_ns))
            first, again = before[label], self.result.modes[label]
            self.result.modes[label] = replace(
                again,
                warmup_calls=first.warmup_calls + sum(counts) + again.warmup_calls,
                warmup_block_calls=first.warmup_block_calls + counts + again.warmup_block_calls,
                warmup_block_ns=first.warmup_block_ns + spans_ns + again.warmup_block_ns,
            )

    def _time_block(
        self, label: str, calls: int, settle: bool, first: int, singles: int = 0
    ) -> Block:
        """Time a block in the label's worker; see `TimeBlock`."""
        others = self._others(label)
        monitor.settle(others)
        before_ns = monitor.cpu_ns(others)
        ramp_s = RAMP_S if self.watcher.gpu and self.paused else 0.0
        self.paused = False
        request = protocol.TimeBlock(
            mode=label, calls=calls, settle=settle, first=first, ramp_s=ramp_s, singles=singles
        )
        block = self._ask(label, request)
        used_ns = max(0, monitor.cpu_ns(others) - before_ns)
        fill_ns = min(round(self.paces[label].fill_s * 1e9), block.elapsed_ns // 2)
        block = replace(block, fill_ns=fill_ns)
        return replace(block, idle_cpu_ns=used_ns) if others else block

    def _others(self, label: str) -> list[int]:
        """Process ids of the other workers, which must not compute meanwhile; all for no mode."""
        own = self.crew.contenders[label].pids if label else ()
        return [worker.pid for worker in self.crew.alive.values() if worker.pid not in own]

    def _ask(self, label: str, request: protocol.TimeBlock) -> Block:
        """Have a block timed within what is left of the time."""
        left_s = max(0.0, self.until - time.monotonic())
        return self.crew.contenders[label].block(request, deadline_s=left_s)

    def _review(self, measured: Sequence[Round]) -> Sequence[Round]:
        """Have the watcher review these rounds, and track them."""
        reviewed = [
            replace(round_, dirty=round_.dirty or monitor.disturbance_by_idle(round_))
            for round_ in self.watcher.review(measured)
        ]
        self.paused = True
        number, samples = self.job.replicate, self.job.trial.samples
        gpu = self.watcher.gpu.spans if self.watcher.gpu else ()
        self.crew.setting.tracker.log_rounds(number, reviewed, batch_size=samples, gpu=gpu)
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
            trend = outcome.warmup_trend or pacing.trend(self.result.rounds, label)
            if trend is Trend.MOVING and not pacing.changes_alone(self.result.rounds, label):
                trend = Trend.NOT_ASSESSED
            if trend is Trend.MOVING:
                self.result.flag(Flagged(Flag.WARMUP_NOT_STATIONARY, label))
            elif factor := pacing.slow_in_blocks(self.result.rounds, label):
                note = f"a call in a block takes {factor:.1f} times as long as one alone"
                self.result.flag(Flagged(Flag.WARMUP_NOT_STATIONARY, label, note))
            self._flag_collections(label, [block for block, _ in blocks])
            self.result.modes[label] = replace(
                outcome,
                latencies_s=tuple(single.call_s for single in singles),
                latency_enqueue_ns=tuple(single.enqueue_ns for single in singles),
                warmup_trend=trend,
            )
            if pacing.inputs_differ(singles):
                self.result.flag(Flagged(Flag.INPUTS_DIFFER, label))
            if label in decisive and pacing.is_too_short(self.paces[label], self.calls[label]):
                self.result.flag(Flagged(Flag.QUEUE_FILL, label))

    def _flag_collections(self, label: str, blocks: Sequence[Block]) -> None:
        """Flag a mode whose calls leave so much garbage that each would start a collection."""
        calls = sum(block.calls + len(block.single_ns) for block in blocks)
        due = sum(block.collections for block in blocks)
        if due >= calls > 0:
            note = f"{due / calls:.0f} a call"
            self.result.flag(Flagged(Flag.COLLECTIONS_PUT_OFF, label, note))

    def _alone_s(self) -> float:
        """Seconds for each mode alone on a GPU: as the effort says, and where power limits it."""
        if not self.watcher.gpu:
            return 0.0
        seconds = self.job.trial.effort.sustained_s
        left_s = self.until - time.monotonic()
        if Flag.POWER_LIMITED in self.watcher.gpu.flags() and left_s > 2 * ALONE_S * len(self.warm):
            seconds = max(seconds, ALONE_S)
        return seconds

    def _measure_alone(self, seconds: float) -> None:
        """Measure blocks of each mode alone; by then a limited GPU has slowed down."""
        self.crew.show(Phase.MEASURE, detail="each mode alone")
        for label in self._still_warm(list(self.calls)):
            call_s, until = list[float](), time.monotonic() + seconds
            try:
                while time.monotonic() < until:
                    first = len(call_s) % INPUTS
                    block = self._time_block(label, self.calls[label], settle=False, first=first)
                    call_s.append(block.call_s)
            except WorkerLost as lost:
                self.crew.lose(lost)
            else:
                outcome = self.result.modes[label]
                self.result.modes[label] = replace(outcome, sustained_call_s=tuple(call_s))

    def _measure_energy(self, seconds: float) -> None:
        """Read the device's energy counter around each mode alone, where it can be read."""
        self.crew.show(Phase.MEASURE, detail="energy")
        blocks_s = [self.calls[label] * mode.call_s for label, mode in self.warm.items()]
        pass_s = seconds + sum(max(seconds, block_s) + block_s for block_s in blocks_s)
        meter = self.watcher.meter()
        if self.until - time.monotonic() < 2 * ENERGY_PASSES * pass_s:
            meter = Meter(problem="timeouts.measure_s leaves too little time")
        try:
            self.result.energy = self._meter_modes(meter, seconds)
        except MeterError as error:
            self.result.energy = Energy(counter=meter.name, problem=str(error))

    def _meter_modes(self, meter: Meter, seconds: float) -> Energy:
        """Meter the idle device, then each mode alone, in rotated passes, which the modes get.

        A counter that fails, a `MeterError`, leaves them without. A worker that dies ends its own
        modes; a stop while the device idles is a `WorkerLost`.
        """
        if meter.problem:
            raise MeterError(meter.problem)
        labels = list(self.warm)
        passes: dict[str, list[Metered]] = {label: [] for label in labels}
        resting = tuple(self._meter_pass(meter, IDLE, seconds) for _ in range(ENERGY_PASSES))
        for number in range(ENERGY_PASSES):
            first = number % len(labels)
            for label in self._still_warm((*labels[first:], *labels[:first])):
                try:
                    passes[label].append(self._meter_pass(meter, label, seconds))
                except WorkerLost as lost:
                    self.crew.lose(lost)
        for label in self.warm:
            outcome = self.result.modes[label]
            self.result.modes[label] = replace(outcome, energy=tuple(passes[label]))
        return Energy(counter=meter.name, idle=resting)

    def _meter_pass(self, meter: Meter, label: str, seconds: float) -> Metered:
        """Meter a mode, once the other workers idle and it ran once; or the idle device."""
        monitor.settle(self._others(label))
        self.paused = True
        if label:
            self._time_block(label, self.calls[label], settle=False, first=0)
        before, began_ns = meter.read(), time.monotonic_ns()
        calls = self._run_alone(seconds, label)
        now, ended_ns = meter.read(), time.monotonic_ns()
        return Metered(
            joules=meter.joules(before, now),
            elapsed_s=(ended_ns - began_ns) / 1e9,
            calls=calls,
            dirty=self.watcher.disturbance_between(began_ns, ended_ns),
        )

    def _run_alone(self, seconds: float, label: str) -> int:
        """Run a mode for so long; the calls that it made. Wait for no mode."""
        calls = blocks = 0
        until = time.monotonic() + seconds
        if not label and becomes_readable(self.crew.setting.stop, seconds):
            raise self.crew.interruption()
        while label and time.monotonic() < until:
            request = protocol.TimeBlock(
                mode=label, calls=self.calls[label], settle=False, first=blocks % INPUTS
            )
            calls += self._ask(label, request).calls
            blocks += 1
        return calls
