"""Measure one replicate inside the measuring process: build, prove, verify, warm up, measure.

Results are sent as events. The order is fixed: an eager call before anything is traced, correctness
before timing, and nothing printed or sent inside a timed block.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.measure import agreement, protocol, rounds, timing
from xla_sweeps.measure.failures import error_line, error_text
from xla_sweeps.schema.measurement import (
    Agreement,
    Failure,
    Flag,
    ModeOutcome,
    Phase,
    Round,
    Status,
)
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import (
    ExecutionMode,
    InputSpec,
    ModelSpec,
    ReplicateJob,
    Scenario,
    Trial,
    mode_of,
)
from xla_sweeps.tf import devices, macs, models, modes

INPUT_BATCHES = 3
REFERENCE_IMAGES = 2

RECOMPILE_FACTOR = 10
RECOMPILE_S = 0.02
SYNC_TEST_S = 0.1

NUDGE = 1e-6
"""Relative change of the inputs, as small as rounding."""

_IMAGE_RANK = 3


class Channel(Protocol):
    """The connection to the parent, whose side is `measure.process`."""

    def send(self, event: protocol.Event) -> None:
        """Send one event."""

    def wait_for_turn(self) -> None:
        """Return once this process may time something."""

    def review(self, square: protocol.Square) -> protocol.Review:
        """Send a square's rounds and wait for their review."""


@dataclass
class _Prepared:
    """A mode that is ready to be measured, and what is known of it so far."""

    executable: modes.ModeExecutable
    outcome: ModeOutcome


@dataclass
class _Bench:
    """The model on its device, its inputs, and the outputs that every mode must reproduce."""

    trial: Trial
    device: str
    built: models.BuiltModel
    inputs: Sequence[Any]
    fresh: Sequence[Any]
    eager: list[np.ndarray]
    deterministic: bool
    reference: list[np.ndarray] | None
    facts: ModelFacts
    nudged: list[np.ndarray] | None = None
    """Eager outputs on the first inputs changed by rounding; computed only for detections."""
    seconds: dict[str, float] = field(default_factory=dict)


def measure(job: ReplicateJob, channel: Channel) -> None:
    """Measure one replicate and report it; a mode that fails is reported, the others continue."""
    started = time.perf_counter()
    devices.configure(tf32=job.trial.tf32, seed=job.trial.seed)
    channel.send(protocol.Loaded(environment=devices.loaded_environment()))
    with tf.device(devices.tf_device(job.trial.device)):
        bench = _set_up(job, channel)
        built_at = time.perf_counter()
        prepared = _prepare_modes(job, bench, channel)
        sync: dict[str, Any] = {}
        contaminated = False
        if job.measure:
            channel.wait_for_turn()
            _warm_up(bench, prepared, channel)
            sync = _sync_test(bench, prepared)
        else:
            _call_again(prepared, channel)
        prepared_at = time.perf_counter()
        if job.measure and prepared:
            contaminated = _measure_modes(job, bench, prepared, sync, channel)
        if bench.facts.macs is None:
            _count_macs(bench, "", channel)
    finished = time.perf_counter()
    channel.send(
        protocol.Finished(
            contaminated=contaminated,
            sync=sync,
            seconds={
                "build": built_at - started,
                "prepare": prepared_at - built_at,
                "measure": finished - prepared_at,
                **bench.seconds,
            },
        )
    )


def _set_up(job: ReplicateJob, channel: Channel) -> _Bench:
    """Build the model, run it eagerly twice, and compute the float64 reference."""
    trial, spec = job.trial, job.trial.model
    channel.send(protocol.Stage(phase=Phase.BUILD, detail=_shown(spec)))
    built = models.build(spec, precision=trial.precision, seed=trial.seed, scenario=trial.scenario)
    _check_batch(built, trial)
    rng = np.random.default_rng(trial.seed)
    batches = [models.draw(built.inputs, trial.batch_size, rng) for _ in range(INPUT_BATCHES + 2)]
    if spec.weights == "random":
        models.calibrate(built, models.draw(built.inputs, max(4, trial.batch_size), rng))
    facts = _facts(trial, built)
    channel.send(protocol.Built(model=facts))
    if facts.eager_is_graph:
        channel.send(protocol.Flagged(flag=str(Flag.EAGER_IS_GRAPH)))
    channel.send(protocol.Stage(phase=Phase.VERIFY, mode=str(ExecutionMode.EAGER)))
    first, second = _eager_outputs(built, batches[0]), _eager_outputs(built, batches[0])
    bench = _Bench(
        trial=trial,
        device=devices.tf_device(trial.device),
        built=built,
        inputs=batches[:INPUT_BATCHES],
        fresh=batches[INPUT_BATCHES:],
        eager=second,
        deterministic=agreement.deterministic(first, second),
        reference=None,
        facts=facts,
    )
    if job.measure:
        _add_reference(bench, channel)
    return bench


def _add_reference(bench: _Bench, channel: Channel) -> None:
    """Compute outputs of the same weights in float64; detections are compared with eager only."""
    if bench.trial.scenario is Scenario.DETECT:
        return
    channel.send(protocol.Stage(phase=Phase.VERIFY, detail="float64 reference"))
    begun = time.perf_counter()
    try:
        few = tf.nest.map_structure(lambda tensor: tensor[:REFERENCE_IMAGES], bench.inputs[0])
        bench.reference = models.float64_reference(bench.trial.model, bench.built, few)
    except Exception as error:  # modes are then compared with eager only, and flagged
        traceback.print_exc()
        channel.send(protocol.Flagged(flag=f"{Flag.NO_REFERENCE}: {error_line(error)}"))
    bench.seconds["reference"] = time.perf_counter() - begun


def _shown(spec: ModelSpec) -> str:
    return f"{spec.name} {spec.resolution_px} px" if spec.resolution_px else spec.name


def _check_batch(built: models.BuiltModel, trial: Trial) -> None:
    if built.loaded.batch not in (None, trial.batch_size):
        raise ConfigError(
            f"batch_size={trial.batch_size}: {trial.model.name} was saved for batches of "
            f"{built.loaded.batch}; use batch_size={built.loaded.batch}"
        )


def _facts(trial: Trial, built: models.BuiltModel) -> ModelFacts:
    spec, loaded = trial.model, built.loaded
    return ModelFacts(
        name=spec.name,
        family=spec.family,
        variant=spec.variant,
        source=spec.source,
        task=spec.task,
        resolution_px=spec.resolution_px or _side(built.inputs),
        params=built.params,
        trainable_params=built.trainable_params,
        eager_is_graph=loaded.eager_is_graph,
        replica_of=loaded.replica_of,
        inputs=tuple(f"{item.name}{list(item.shape)} {item.dtype}" for item in built.inputs),
    )


def _side(inputs: Sequence[InputSpec]) -> int:
    """Side of the image that a model takes, px; 0 if its input is not one image."""
    shape = inputs[0].shape
    return shape[-2] if len(inputs) == 1 and len(shape) in (_IMAGE_RANK, _IMAGE_RANK + 1) else 0


def _eager_outputs(built: models.BuiltModel, images: Any) -> list[np.ndarray]:
    return modes.make_executable(built.call, ExecutionMode.EAGER, [images]).outputs()


def _prepare_modes(job: ReplicateJob, bench: _Bench, channel: Channel) -> dict[str, _Prepared]:
    """Trace, compile, prove and verify each mode; modes that fail are reported and left out."""
    prepared: dict[str, _Prepared] = {}
    hlo = ""
    for label in job.modes:
        stage = protocol.Stage(phase=Phase.TRACE, mode=label)
        try:
            channel.send(stage)
            devices.reset_peak_memory(bench.device)
            executable = modes.make_executable(bench.built.call, mode_of(label), bench.inputs)
            stage = protocol.Stage(phase=Phase.COMPILE, mode=label)
            channel.send(stage)
            outcome = _first_calls(bench, executable)
            stage = protocol.Stage(phase=Phase.VERIFY, mode=label)
            channel.send(stage)
            outcome = _prove_and_verify(bench, executable, outcome, channel)
            if outcome.status is not Status.MODE_NOT_EFFECTIVE:
                prepared[label] = _Prepared(executable=executable, outcome=outcome)
            hlo = hlo or executable.hlo
            _flag_xla_inside(executable, channel)
        except Exception as error:
            traceback.print_exc()
            channel.send(
                protocol.Failed(
                    phase=stage.phase, mode=label, kind=type(error).__name__, text=error_text(error)
                )
            )
        else:
            channel.send(protocol.ModeReady(mode=label, outcome=outcome))
    if hlo:
        _count_macs(bench, hlo, channel)
    return prepared


def _first_calls(bench: _Bench, executable: modes.ModeExecutable) -> ModeOutcome:
    first_call_s = modes.first_call_s(executable)
    return ModeOutcome(
        status=Status.OK,
        trace_s=executable.trace_s,
        first_call_s=first_call_s,
        peak_memory_bytes=devices.peak_memory_bytes(bench.device),
    )


def _prove_and_verify(
    bench: _Bench, executable: modes.ModeExecutable, outcome: ModeOutcome, channel: Channel
) -> ModeOutcome:
    """Prove that the mode is in force, then check that it computes what eager computes."""
    evidence = modes.effective(executable, device=bench.device)
    if not evidence["in_force"]:
        absent = Failure(
            phase=Phase.VERIFY, kind="mode_not_effective", message=str(evidence["reason"])
        )
        return replace(
            outcome, status=Status.MODE_NOT_EFFECTIVE, effective=evidence, failure=absent
        )
    outputs = executable.outputs()
    result = _compare(bench, outputs)
    if not result.ok and bench.reference is None and "reference" not in bench.seconds:
        # Not close to eager, but perhaps as close to float64 as eager is.
        _add_reference(bench, channel)
        result = _compare(bench, outputs)
    status, failure = _gate(result, deterministic=bench.deterministic)
    return replace(outcome, status=status, effective=evidence, agreement=result, failure=failure)


def _compare(bench: _Bench, outputs: list[np.ndarray]) -> Agreement:
    if bench.trial.scenario is Scenario.DETECT:
        if bench.nudged is None:
            nudged = tf.nest.map_structure(lambda tensor: tensor * (1 + NUDGE), bench.inputs[0])
            bench.nudged = _eager_outputs(bench.built, nudged)
        return agreement.compare_detections(
            outputs, bench.eager, bench.nudged, precision=bench.trial.precision
        )
    return agreement.compare(
        outputs,
        bench.eager,
        bench.reference,
        precision=bench.trial.precision,
        classes=bench.trial.model.task == "classification",
    )


def _gate(result: Agreement, *, deterministic: bool) -> tuple[Status, Failure | None]:
    if result.ok:
        return Status.OK, None
    if not deterministic:
        message = "two eager runs on the same input differ, so no mode can be verified"
        return Status.NONDETERMINISTIC, Failure(
            phase=Phase.VERIFY, kind="nondeterministic", message=message
        )
    return Status.WRONG_RESULT, Failure(
        phase=Phase.VERIFY, kind="disagreement", message=result.reason
    )


def _flag_xla_inside(executable: modes.ModeExecutable, channel: Channel) -> None:
    if executable.concrete is None:
        return
    inside = models.library_functions_with_xla(executable.concrete)
    if inside:
        channel.send(protocol.Flagged(flag=str(Flag.CONTAINS_XLA)))


def _count_macs(bench: _Bench, hlo: str, channel: Channel) -> None:
    """Count multiply-accumulates in the XLA mode's HLO, or without it in the model's own."""
    channel.send(protocol.Stage(phase=Phase.VERIFY, detail="multiply-accumulates"))
    begun = time.perf_counter()
    try:
        if hlo:
            counted = macs.count_macs(hlo)
            count, note = (
                counted.total // bench.trial.batch_size,
                macs.AT_LEAST_NOTE if counted.at_least else "",
            )
        else:
            count, note = models.macs(bench.built)
    except Exception as error:
        traceback.print_exc()
        count, note = None, error_line(error)
    bench.seconds["macs"] = time.perf_counter() - begun
    bench.facts = replace(bench.facts, macs=count, macs_note=note)
    channel.send(protocol.Built(model=bench.facts))


def _warm_up(bench: _Bench, prepared: dict[str, _Prepared], channel: Channel) -> None:
    """Warm up each mode; its compile time is the first call's time beyond that of a steady call."""
    for label, entry in list(prepared.items()):
        channel.send(protocol.Stage(phase=Phase.WARMUP, mode=label))
        try:
            warm = timing.warm_up(
                entry.executable, effort=bench.trial.effort, clock=time.perf_counter_ns
            )
            recompiles = _recompiles(entry.executable, bench.fresh, warm.call_s)
        except Exception as error:
            traceback.print_exc()
            channel.send(
                protocol.Failed(
                    phase=Phase.WARMUP,
                    mode=label,
                    kind=type(error).__name__,
                    text=error_text(error),
                )
            )
            del prepared[label]
            continue
        if recompiles:
            channel.send(protocol.Flagged(flag=f"{Flag.RECOMPILES}:{label}"))
        if not warm.stationary:
            channel.send(protocol.Flagged(flag=f"{Flag.WARMUP_NOT_STATIONARY}:{label}"))
        first_call_s = entry.outcome.first_call_s or 0.0
        entry.outcome = replace(
            entry.outcome, warmup_calls=warm.calls, compile_s=max(0.0, first_call_s - warm.call_s)
        )
        entry.executable.steady_call_s = warm.call_s
        channel.send(protocol.ModeReady(mode=label, outcome=entry.outcome))


def _call_again(prepared: Mapping[str, _Prepared], channel: Channel) -> None:
    """Call each mode once more instead of a warm-up, to tell compile time from a call's time."""
    for label, entry in prepared.items():
        again_s = modes.first_call_s(entry.executable)
        compile_s = max(0.0, (entry.outcome.first_call_s or 0.0) - again_s)
        entry.outcome = replace(entry.outcome, compile_s=compile_s)
        channel.send(protocol.ModeReady(mode=label, outcome=entry.outcome))


def _recompiles(executable: modes.ModeExecutable, fresh: Sequence[Any], steady_s: float) -> bool:
    """Whether every batch of new values costs a compilation, because shapes depend on values."""
    executable.prepare()
    slow = 0
    for images in fresh:
        started = time.perf_counter()
        executable.run(images)
        executable.synchronize()
        slow += time.perf_counter() - started > max(
            RECOMPILE_FACTOR * steady_s, steady_s + RECOMPILE_S
        )
    return slow == len(fresh)


def _sync_test(bench: _Bench, prepared: Mapping[str, _Prepared]) -> dict[str, Any]:
    """Run the synchronization self-test; not needed on a CPU, where calls do not queue."""
    if "GPU" not in bench.device or not prepared:
        return {
            "works": True,
            "queued": False,
            "note": "trivial: calls on a CPU return when they are done",
        }
    entry = min(prepared.values(), key=lambda item: item.executable.steady_call_s)
    calls = max(10, round(SYNC_TEST_S / entry.executable.steady_call_s))
    result = timing.sync_self_test(entry.executable, calls=calls, clock=time.perf_counter_ns)
    if not result.works:
        for item in prepared.values():
            item.executable.sync_by_reading = True
        result_by_reading = timing.sync_self_test(
            entry.executable, calls=calls, clock=time.perf_counter_ns
        )
        if not result_by_reading.works:
            raise XlaSweepsError(
                "neither sync_devices() nor reading a result waits for this device, "
                "so it cannot be timed"
            )
        return {
            **asdict(result_by_reading),
            "note": "sync_devices() does not wait; a scalar is read instead",
        }
    return asdict(result)


def _measure_modes(
    job: ReplicateJob,
    bench: _Bench,
    prepared: Mapping[str, _Prepared],
    sync: Mapping[str, Any],
    channel: Channel,
) -> bool:
    """Measure the rounds and the latencies; returns whether the replicate is contaminated."""
    effort, clock = bench.trial.effort, time.perf_counter_ns
    channel.send(protocol.Stage(phase=Phase.MEASURE))
    executables = {label: entry.executable for label, entry in prepared.items()}
    call_s = {label: executable.steady_call_s for label, executable in executables.items()}
    sync_s = timing.sync_overhead_s(next(iter(executables.values())), clock=clock)
    calls = {
        label: timing.calls_per_block(seconds, sync_s=sync_s, block_s=effort.block_s)
        for label, seconds in call_s.items()
    }
    traced = {label: modes.traces(executable) for label, executable in executables.items()}

    def review(rounds: Sequence[Round]) -> Mapping[int, str]:
        return channel.review(protocol.Square(rounds=tuple(rounds))).dirty

    def report(progress: rounds.Progress) -> None:
        channel.send(
            protocol.Progressed(
                rounds=progress.rounds,
                rounds_max=progress.rounds_max,
                half_width=progress.half_width,
                target=progress.target,
                remaining_s=progress.remaining_s,
            )
        )

    result = rounds.measure_rounds(
        executables,
        calls,
        call_s,
        effort=effort,
        seed=job.order_seed,
        clock=clock,
        review=review,
        on_square=report,
    )
    if not result.converged:
        channel.send(protocol.Flagged(flag=str(Flag.NOT_CONVERGED)))
    channel.send(protocol.Stage(phase=Phase.MEASURE, detail="latency"))
    latencies = timing.measure_latencies(
        executables, result.rounds, calls, effort=effort, clock=clock
    )
    for label, entry in prepared.items():
        outcome = replace(entry.outcome, latencies_s=latencies[label])
        if modes.traces(entry.executable) != traced[label]:
            count = modes.traces(entry.executable) - traced[label]
            message = f"traced again while it was measured ({count} times)"
            retraced = Failure(phase=Phase.MEASURE, kind="retraced", message=message)
            outcome = replace(outcome, status=Status.RETRACED, failure=retraced)
        channel.send(protocol.ModeReady(mode=label, outcome=outcome))
    return result.contaminated
