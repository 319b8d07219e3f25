"""A worker's part of one replicate: build, prove, verify, warm up, time what the parent asks for.

An eager call comes before anything is traced, correctness before timing, and nothing is printed or
sent inside a timed block.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from xla_sweeps.schema.measurement import (
    INPUTS,
    Failure,
    Flag,
    Flagged,
    ModeOutcome,
    Phase,
    Status,
    Trend,
)
from xla_sweeps.schema.modes import Execution, Mode, mode_in, mode_of
from xla_sweeps.schema.trial import ReplicateJob, size_text
from xla_sweeps.trial import protocol
from xla_sweeps.worker import agreement, sharing, timing
from xla_sweeps.worker.backend import Executable, Explain, Framework, Model, ShapesModel, Tell

CLOCK = time.perf_counter_ns
CPU_CLOCK = time.process_time_ns

FIRST_CALL = "first_call"
"""Kind of the failure of a mode that is wrong in the first call of a new model."""

MOST_NEW_INPUTS, NEW_INPUTS_NS = 6, 5 * 10**8
"""Times that a mode is given new inputs, unless they took so much processor time: of the modes that
are wrong on a quarter of all inputs, one in 400 passes."""

MOST_WAITED_NS = 3 * 10**9
"""The same of wall time, as of a GPU's calls."""


@dataclass
class Prepared:
    """A mode that is ready, and how often it was traced when it was, and then when it was warm.

    `operations` is how many of an eager call ran one by one when it was, None if unknown;
    `recompiles` whether each new input makes it compile.
    """

    executable: Executable
    outcome: ModeOutcome
    traced: int
    operations: int | None = None
    recompiles: bool = False


class Replicate:
    """Answer the requests of one replicate."""

    def __init__(
        self,
        load: Callable[[], Framework],
        tell: Tell,
        *,
        title: str,
        load_explain: Callable[[], Explain] | None = None,
    ) -> None:
        self._load, self._tell, self._title = load, tell, title
        self._load_explain = load_explain
        self._framework: Framework
        self._job: ReplicateJob
        self._model: Model
        self._prepared: dict[str, Prepared] = {}
        self._started_up = self._queues = self._is_loaded = False
        self._fresh: Sequence[Any] = ()

    def answer(self, request: protocol.Request) -> protocol.Reply:
        """Do what is asked; raises whatever the framework or the model raises."""
        if isinstance(request, protocol.Load):
            return protocol.Ready(seconds={"import": self._load_once()})
        if isinstance(request, protocol.SetUp):
            return self._set_up(request)
        if isinstance(request, protocol.Explain) and self._load_explain:
            self._tell(protocol.Stage(phase=Phase.IMPORT, detail=self._title))
            self._load_explain()(request, self._tell)
            return protocol.Finished()
        with self._framework.device(self._job.trial):
            match request:
                case protocol.Prepare(mode=mode):
                    return self._prepare(mode)
                case protocol.WarmUp(mode=mode):
                    return self._warm_up(mode)
                case protocol.TimeBlock():
                    return self._time_block(request)
                case protocol.Finish():
                    return self._finish(request)
        raise ValueError(f"a replicate does not answer {type(request).__name__}")

    def _load_once(self) -> float:
        """Load the framework unless it is; returns the seconds."""
        began = time.perf_counter()
        if not self._is_loaded:
            self._tell(protocol.Stage(phase=Phase.IMPORT, detail=self._title))
            self._framework, self._is_loaded = self._load(), True
        return time.perf_counter() - began

    def _set_up(self, request: protocol.SetUp) -> protocol.Ready:
        """Build the model, run it eagerly, and compute the float64 reference if always wanted."""
        job, tell, trial = request.job, self._tell, request.job.trial
        shared = Path(job.shared) if job.shared else None
        import_s, self._job = self._load_once(), job
        loaded = time.perf_counter()
        self._framework.configure(trial)
        tell(protocol.Loaded(environment=self._framework.environment()))
        with self._framework.device(trial):
            size = size_text(trial.model.task, trial.model.resolution_px)
            tell(protocol.Stage(phase=Phase.BUILD, detail=f"{trial.model.name} {size}".rstrip()))
            model = self._model = self._framework.build(job)
            tell(protocol.Built(model=model.facts))
            if shared and job.adopts:
                sharing.take_weights(model, shared)
            eager = mode_in(mode_of(job.modes[0]).backend, Mode.EAGER.role)
            tell(protocol.Stage(phase=Phase.VERIFY, mode=str(eager or "")))
            if not job.adopts or any(mode_of(m).execution is Execution.EAGER for m in job.modes):
                model.run_eagerly(tell)
            if shared:
                (sharing.take_outputs if job.adopts else sharing.write)(model, shared)
            if trial.effort.always_reference and job.replicate == 0:
                model.add_reference(tell)
            built = time.perf_counter()
            tell(protocol.Stage(phase=Phase.VERIFY, detail="synchronization"))
            sync = model.synchronization()
        self._queues = trial.on_accelerator
        return protocol.Ready(sync=sync, seconds={"import": import_s, "build": built - loaded})

    def _prepare(self, label: str) -> protocol.ModeReady:
        tell, model = self._tell, self._model
        self._pay_start_costs(label)
        executable = self._bind(label)
        first_s = executable.first_call_s()
        outcome = ModeOutcome(status=Status.OK, trace_s=executable.trace_s, first_call_s=first_s)
        model.note_build(executable, tell)
        tell(protocol.Stage(phase=Phase.VERIFY, mode=label))
        outcome = self._prove_and_verify(executable, outcome)
        if outcome.status is not Status.MODE_NOT_EFFECTIVE:
            entry = Prepared(executable, outcome, executable.traces())
            entry.operations = self._count_operations(executable)
            self._prepared[label] = entry
            if outcome.effective.get("elsewhere"):
                tell(protocol.Caveat(Flagged(Flag.OUTPUTS_ELSEWHERE, label)))
            if broken := outcome.effective.get("broken"):
                tell(protocol.Caveat(Flagged(Flag.GRAPH_BREAKS, label, broken)))
            if again := outcome.effective.get("recompiles"):
                tell(protocol.Caveat(Flagged(Flag.RECOMPILES, label, again)))
        return protocol.ModeReady(outcome=outcome)

    def _bind(self, label: str) -> Executable:
        """The model in a mode, traced; its first call compiles."""
        self._tell(protocol.Stage(phase=Phase.TRACE, mode=label))
        executable = self._model.bind(str(mode_of(label)))
        self._tell(protocol.Stage(phase=Phase.COMPILE, mode=label))
        return executable

    def _pay_start_costs(self, label: str) -> None:
        """Call the first mode that is traced once and forget it, on a GPU.

        There the first graph loads and compiles kernels: costs that a process has once, not a mode.
        On a CPU they are below 0.03 s. Some backends pay them when they build.
        """
        started = self._started_up or self._model.starts_up or not self._job.trial.on_accelerator
        if started or mode_of(label).execution is Execution.EAGER:
            return
        self._started_up = True
        self._bind(label).first_call_s()
        gc.collect()

    def _prove_and_verify(self, executable: Executable, outcome: ModeOutcome) -> ModeOutcome:
        """Prove that the mode is in force, then check that it computes what eager computes."""
        evidence = self._model.prove(executable)
        if not evidence["in_force"]:
            absent = Failure(
                phase=Phase.VERIFY, kind="mode_not_effective", message=str(evidence["reason"])
            )
            return replace(
                outcome, status=Status.MODE_NOT_EFFECTIVE, effective=evidence, failure=absent
            )
        outcome = self._verify(executable, replace(outcome, effective=evidence), 0)
        flaw = self._model.find_flaw(executable, self._tell)
        is_wrong = outcome.status is Status.WRONG_RESULT
        if flaw is None or outcome.agreement is None or (is_wrong and flaw.kind == FIRST_CALL):
            return outcome  # a mode that is wrong in each call has its reason
        agreed = replace(outcome.agreement, ok=False, reason=flaw.message)
        return replace(outcome, status=Status.WRONG_RESULT, agreement=agreed, failure=flaw)

    def _verify(
        self, executable: Executable, outcome: ModeOutcome, position: int, *, last: bool = False
    ) -> ModeOutcome:
        """Check that a mode, or its last call, computes what eager does; the worst counts."""
        compared = self._model.comparison_of_last if last else self._model.comparison
        compare = compared(executable, position)
        agreed = compare()
        while not agreed.ok and self._model.add_reference(self._tell):
            agreed = compare()  # perhaps rounding explains it
        earlier = outcome.agreement
        if earlier is not None:
            if agreed.refused and agreed.rmse_rel is None:
                return outcome
            if self._model.compared_inputs > 1:
                own = "inputs" in self._job.trial.model.recipe
                agreed = agreement.on_input(agreed, position, own=own)
            if not agreement.settles_nothing(earlier):
                agreed = agreement.worst((earlier, agreed))
        status, failure = agreement.judge(agreed, self._model, self._is_reference(executable.mode))
        return replace(outcome, status=status, agreement=agreed, failure=failure)

    def _verify_later(self, entry: Prepared, position: int) -> None:
        """Verify a mode on a later input, on which it has just been called."""
        agreed, is_ok = entry.outcome.agreement, entry.outcome.status is Status.OK
        is_open = agreed is not None and agreement.settles_nothing(agreed)
        if position < self._model.compared_inputs and (is_ok or is_open):
            entry.outcome = self._verify(entry.executable, entry.outcome, position)
            self._model.reset_steady_memory()

    def _warm_up(self, label: str) -> protocol.Warmed:
        """Warm up a mode; its compile time is the first call's beyond that of a steady call."""
        tell, model, entry = self._tell, self._model, self._prepared[label]
        tell(protocol.Stage(phase=Phase.WARMUP, mode=label))
        if not any(one.outcome.warmup_calls for one in self._prepared.values()):
            gc.collect()  # what earlier stages left is no mode's memory
        model.reset_steady_memory()
        warm = timing.warm_up(
            entry.executable,
            effort=self._job.trial.effort,
            clock=CLOCK,
            on_new_input=partial(self._verify_later, entry),
        )
        memory_bytes = model.steady_memory_bytes(entry.executable, call_s=warm.call_s)
        first_call_s = entry.outcome.first_call_s or 0.0
        entry.recompiles = warm.recompiles(first_call_s)
        if entry.recompiles and not entry.outcome.effective.get("recompiles"):
            tell(protocol.Caveat(Flagged(Flag.RECOMPILES, label)))
        entry.outcome = replace(
            entry.outcome,
            warmup_calls=warm.calls,
            warmup_trend=warm.trend,
            warmup_block_calls=tuple(block.calls for block in warm.blocks),
            warmup_block_ns=tuple(block.elapsed_ns for block in warm.blocks),
            compile_s=max(0.0, first_call_s - warm.call_s),
            steady_memory_bytes=memory_bytes,
            **entry.executable.extras(),
        )
        entry.executable.prepare()
        sync_s = timing.sync_overhead_s(entry.executable, clock=CLOCK)
        call_s, fill_s = warm.call_s, None
        if self._queues:
            pace = timing.pace_of(entry.executable, call_s=call_s, clock=CLOCK)
            call_s, fill_s = pace.call_s, pace.fill_s
        if self._job.trial.shapes:
            call_s, fill_s = self._check_shapes(label, entry), None
        entry.traced = entry.executable.traces()
        return protocol.Warmed(outcome=entry.outcome, call_s=call_s, sync_s=sync_s, fill_s=fill_s)

    def _check_shapes(self, label: str, entry: Prepared) -> float:
        """Verify a mode on each shape, and note its programs; returns the seconds of a stream."""
        model = cast(ShapesModel, self._model)
        self._tell(protocol.Stage(phase=Phase.COMPILE, mode=label, detail="each shape"))
        programs, agreed = model.check_stream(label)
        outcome, proved = entry.outcome, entry.outcome.agreement
        entry.outcome = replace(
            outcome,
            effective={**outcome.effective, "programs": programs},
            trace_s=None,  # all of it is in each stream
            first_call_s=None,
            compile_s=None,
            warmup_trend=Trend.NOT_ASSESSED,
        )
        is_rounding = proved and agreement.is_no_further(agreed, proved)
        if outcome.status is Status.OK and not agreed.ok and not is_rounding:
            is_reference = self._is_reference(mode_of(label))
            status, failure = agreement.judge(agreed, self._model, is_reference)
            entry.outcome = replace(entry.outcome, status=status, agreement=agreed, failure=failure)
        self._tell(protocol.Stage(phase=Phase.COMPILE, mode=label, detail="a stream of shapes"))
        seconds = model.stream(label).elapsed_ns / 1e9
        self._tell(protocol.Stage(phase=Phase.WARMUP, mode=label))
        return seconds

    def _time_block(self, request: protocol.TimeBlock) -> protocol.Timed:
        entry = self._prepared[request.mode]
        if self._job.trial.shapes:
            block = cast(ShapesModel, self._model).stream(request.mode)
            return protocol.Timed(block=block, clock_ns=CLOCK())
        block = timing.settled_block(
            entry.executable,
            request.mode,
            request.calls,
            settle=request.settle,
            first=request.first,
            ramp_s=request.ramp_s,
            singles=request.singles,
            clock=CLOCK,
            cpu_clock=CPU_CLOCK,
        )
        return protocol.Timed(block=block, clock_ns=CLOCK())

    def _finish(self, request: protocol.Finish) -> protocol.Finished:
        """Check what the modes have become, and count what is still to be counted."""
        self._tell(protocol.Stage(phase=Phase.MEASURE, detail="the last calls, and new inputs"))
        spoilt = {
            label: reason
            for label, calls in request.calls.items()
            if calls and label in self._prepared and (reason := self._find_spoiling(label, calls))
        }
        for label in self._prepared:
            if failed := self._test_new_inputs(label):
                spoilt.setdefault(label, failed)
        self._model.count_macs(self._tell)
        self._tell(protocol.Loaded(environment=self._framework.environment()))  # all by now
        return protocol.Finished(spoilt=spoilt, seconds=self._model.seconds)

    def _test_new_inputs(self, label: str) -> tuple[Status, Failure] | None:
        """The failure of a mode that keeps answers, or is wrong for values that no call has seen.

        It keeps answers if it takes longer for such values, which is flagged.
        """
        entry = self._prepared[label]
        try:
            if timing.slow_on_new_inputs(entry.executable, clock=CLOCK):
                self._tell(protocol.Caveat(Flagged(Flag.SLOW_ON_NEW_INPUTS, label)))
                if entry.outcome.status is Status.OK and not entry.recompiles:
                    message = "calls on new values take far longer than on values just seen"
                    failure = Failure(phase=Phase.MEASURE, kind="keeps_answers", message=message)
                    return Status.UNVERIFIABLE, failure
            if entry.outcome.status is not Status.OK or self._model.compared_inputs == 1:
                return None
            return None if self._job.adopts else self._try_new_inputs(entry)
        except Exception:  # what was measured stays
            traceback.print_exc()
        return None

    def _try_new_inputs(self, entry: Prepared) -> tuple[Status, Failure] | None:
        """The failure of a mode that is wrong on inputs that no call has seen, the first shared."""
        until, executable = CPU_CLOCK() + NEW_INPUTS_NS, entry.executable
        late = CLOCK() + MOST_WAITED_NS
        for count in range(MOST_NEW_INPUTS):
            if self._fresh and not count:
                executable.inputs = self._fresh
            elif count and (CPU_CLOCK() > until or CLOCK() > late):
                return None
            else:
                self._fresh = ()
                if not (executable.renew() and self._model.expect(executable)):
                    return None
                self._fresh = executable.inputs
            if wrong := self._went_wrong(entry, 1, "on values that it has not seen"):
                return wrong
        return None

    def _count_operations(self, executable: Executable) -> int | None:
        """Operations of a call of eager execution that run one by one; None if unknown."""
        if not self._is_reference(executable.mode) or self._model.compared_inputs == 1:
            return None
        try:
            executable.prepare()
            return executable.count_operations()
        except Exception:  # the figure is further evidence only
            traceback.print_exc()
            return None

    def _prove_again(self, entry: Prepared) -> tuple[Status, Failure] | None:
        """The failure of a mode that is no longer in force; None if it is."""
        evidence = self._model.prove(entry.executable)
        reason = "" if evidence["in_force"] else str(evidence["reason"])
        operations = self._count_operations(entry.executable)
        if not reason and operations is not None and operations < (entry.operations or 0):
            reason = (
                f"{operations} operations of a call run one by one, {entry.operations} before: "
                "the others are compiled, or their results kept"
            )
        if not reason:
            return None
        message = f"after it was measured, {reason}"
        failure = Failure(phase=Phase.MEASURE, kind="mode_not_effective", message=message)
        return Status.MODE_NOT_EFFECTIVE, failure

    def _find_spoiling(self, label: str, calls: int) -> tuple[Status, Failure] | None:
        """Reason why what was measured is no steady state of the mode; None if it is."""
        entry = self._prepared[label]
        retraced = entry.executable.traces() - entry.traced
        if retraced and not self._job.trial.shapes:  # PyTorch counts those of the whole process
            message = f"traced again while it was measured ({retraced} times)"
            failure = Failure(phase=Phase.MEASURE, kind="retraced", message=message)
            return Status.RETRACED, failure
        if entry.outcome.status is not Status.OK:
            return None
        is_reference = self._is_reference(entry.executable.mode)
        if not is_reference and (reason := self._model.runs_away(entry.executable, calls)):
            failure = Failure(phase=Phase.MEASURE, kind="not_finite", message=reason)
            return Status.UNVERIFIABLE, failure
        return self._find_late_change(entry, calls)

    def _find_late_change(self, entry: Prepared, calls: int) -> tuple[Status, Failure] | None:
        """The failure of a mode that is another one by now; of a training, in its first steps."""
        when, is_training = "after it was measured", bool(self._job.trial.training)
        if self._model.compared_inputs == 1 and not is_training:
            return None
        late = None
        if not self._job.trial.shapes:  # whose streams are functions of their own
            try:
                late = self._went_wrong(entry, 0, when)
            except Exception:  # as where PyTorch reuses the memory of outputs
                traceback.print_exc()
        if late or is_training:
            return late
        return self._went_wrong(entry, calls, when) or self._prove_again(entry)

    def _went_wrong(self, entry: Prepared, calls: int, when: str) -> tuple[Status, Failure] | None:
        """The failure of a mode that does not compute what eager computes, on any input.

        Compared is the last call of a block of so many, as in the rounds; of 0, the last call.
        """
        executable, outcome, proved = entry.executable, entry.outcome, entry.outcome.agreement
        count = self._model.compared_inputs  # 1 of a training: its first steps
        for position in range(count) if calls else [(executable.position - 1) % count]:
            if calls:
                first = (position + 1 - calls) % INPUTS
                timing.settled_block(executable, "", calls, settle=False, clock=CLOCK, first=first)
            outcome = self._verify(executable, outcome, position, last=True)
        later = outcome.agreement
        is_rounding = count > 1 and later and proved and agreement.is_no_further(later, proved)
        if not outcome.failure or is_rounding:
            return None
        message = f"{when}, {outcome.failure.message}"
        return outcome.status, replace(outcome.failure, phase=Phase.MEASURE, message=message)

    def _is_reference(self, mode: Mode) -> bool:
        """True for the eager execution by which the other modes are judged."""
        return mode.execution is Execution.EAGER and not self._job.adopts
