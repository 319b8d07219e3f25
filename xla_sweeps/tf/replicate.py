"""Measure one replicate inside the measuring process: build, prove, verify, warm up, measure.

Results are sent as events. The order is fixed: an eager call before anything is traced, correctness
before timing, and nothing printed or sent inside a timed block.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from xla_sweeps.measure import protocol, rounds, timing
from xla_sweeps.measure.failures import error_text
from xla_sweeps.schema.measurement import (
    Failure,
    Flag,
    ModeOutcome,
    Phase,
    Round,
    Status,
    Trend,
)
from xla_sweeps.schema.modes import mode_of
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.tf import devices, modes, synchronization
from xla_sweeps.tf.bench import Bench, Channel, count_macs, set_up
from xla_sweeps.tf.preparation import Prepared, prepare_modes


def measure(job: ReplicateJob, channel: Channel, *, import_s: float) -> None:
    """Measure one replicate and report it; a mode that fails is reported, the others continue.

    Args:
        job: what to measure.
        channel: to the parent.
        import_s: seconds that loading TensorFlow took.
    """
    started = time.perf_counter()
    devices.configure(tf32=job.trial.tf32, seed=job.trial.seed)
    channel.send(protocol.Loaded(environment=devices.loaded_environment()))
    with tf.device(devices.tf_device(job.trial.device)):
        bench = set_up(job, channel)
        built_at = time.perf_counter()
        sync = _sync_test(job, bench, channel)
        prepared = prepare_modes(job, bench, channel)
        contaminated = False
        if job.measure:
            channel.wait_for_turn()
            _warm_up(bench, prepared, channel)
        else:
            _call_again(prepared, channel)
        prepared_at = time.perf_counter()
        if job.measure and prepared:
            contaminated = _measure_modes(job, bench, prepared, sync, channel)
        if bench.facts.macs is None:
            count_macs(bench, None, channel)
    finished = time.perf_counter()
    channel.send(protocol.Loaded(environment=devices.loaded_environment()))  # and what came later
    channel.send(
        protocol.Finished(
            contaminated=contaminated,
            sync=sync,
            seconds={
                "import": import_s,
                "build": built_at - started,
                "prepare": prepared_at - built_at,
                "measure": finished - prepared_at,
                **bench.seconds,
            },
        )
    )


def _sync_test(job: ReplicateJob, bench: Bench, channel: Channel) -> dict[str, Any]:
    """Run the synchronization self-test; not needed on a CPU, where calls do not queue."""
    if "GPU" not in bench.device:
        return dict(synchronization.TRIVIAL)
    channel.send(protocol.Stage(phase=Phase.VERIFY, detail="synchronization"))
    sync = synchronization.self_test(map(mode_of, job.modes))
    bench.sync_by_reading = sync["by_reading"]
    return sync


def _warm_up(bench: Bench, prepared: dict[str, Prepared], channel: Channel) -> None:
    """Warm up each mode; its compile time is the first call's time beyond that of a steady call."""
    for label, entry in list(prepared.items()):
        channel.send(protocol.Stage(phase=Phase.WARMUP, mode=label))
        try:
            devices.reset_steady_memory(bench.device)
            warm = timing.warm_up(
                entry.executable, effort=bench.trial.effort, clock=time.perf_counter_ns
            )
            memory_bytes = devices.steady_memory_bytes(bench.device)
            copies_s = entry.executable.copies_s()
            last_batch_s = entry.executable.last_batch_compile_s()
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
        if warm.recompiles:
            channel.send(protocol.Flagged(flag=f"{Flag.RECOMPILES}:{label}"))
        _flag_moving(warm.trend, label, channel)
        first_call_s = entry.outcome.first_call_s or 0.0
        entry.outcome = replace(
            entry.outcome,
            warmup_calls=warm.calls,
            warmup_trend=warm.trend,
            warmup_block_calls=tuple(block.calls for block in warm.blocks),
            warmup_block_ns=tuple(block.elapsed_ns for block in warm.blocks),
            compile_s=max(0.0, first_call_s - warm.call_s),
            steady_memory_bytes=memory_bytes,
            copies_s=copies_s,
            last_batch_compile_s=last_batch_s,
        )
        entry.executable.steady_call_s = warm.call_s
        channel.send(protocol.ModeReady(mode=label, outcome=entry.outcome))


def _flag_moving(trend: Trend | None, label: str, channel: Channel) -> None:
    if trend is Trend.MOVING:
        channel.send(protocol.Flagged(flag=f"{Flag.WARMUP_NOT_STATIONARY}:{label}"))


def _call_again(prepared: Mapping[str, Prepared], channel: Channel) -> None:
    """Call each mode once more instead of a warm-up, to tell compile time from a call's time."""
    for label, entry in prepared.items():
        again_s = modes.first_call_s(entry.executable)
        compile_s = max(0.0, (entry.outcome.first_call_s or 0.0) - again_s)
        entry.outcome = replace(entry.outcome, compile_s=compile_s)
        channel.send(protocol.ModeReady(mode=label, outcome=entry.outcome))


def _measure_modes(
    job: ReplicateJob,
    bench: Bench,
    prepared: Mapping[str, Prepared],
    sync: dict[str, Any],
    channel: Channel,
) -> bool:
    """Measure the rounds and the latencies; returns whether the replicate is contaminated."""
    effort, clock = bench.trial.effort, time.perf_counter_ns
    channel.send(protocol.Stage(phase=Phase.MEASURE))
    executables = {label: entry.executable for label, entry in prepared.items()}
    sync_s = timing.sync_overhead_s(next(iter(executables.values())), clock=clock)
    sync["empty_s"] = sync_s
    calls = {
        label: timing.calls_per_block(item.steady_call_s, sync_s=sync_s, block_s=effort.block_s)
        for label, item in executables.items()
    }
    traced = {label: modes.traces(executable) for label, executable in executables.items()}

    def review(rounds: Sequence[Round]) -> Mapping[int, str]:
        return channel.review(protocol.Square(rounds=tuple(rounds))).dirty

    result = rounds.measure_rounds(
        executables,
        calls,
        {label: item.steady_call_s for label, item in executables.items()},
        effort=effort,
        seed=job.order_seed,
        clock=clock,
        review=review,
        on_square=lambda progress: channel.report(_progressed(progress)),
        cpu_clock=time.process_time_ns,
    )
    if not result.converged:
        channel.send(protocol.Flagged(flag=str(Flag.NOT_CONVERGED)))
    channel.send(protocol.Stage(phase=Phase.MEASURE, detail="latency"))
    latencies = timing.measure_latencies(
        executables, result.rounds, calls, effort=effort, clock=clock
    )
    alone = _measure_alone(bench, executables, calls, channel) if "GPU" in bench.device else {}
    for label, entry in prepared.items():
        outcome = replace(
            _with_latencies(entry.outcome, latencies[label]), sustained_call_s=alone.get(label, ())
        )
        if outcome.warmup_trend is None:
            outcome = replace(outcome, warmup_trend=rounds.trend(result.rounds, label))
            _flag_moving(outcome.warmup_trend, label, channel)
        retraced = modes.traces(entry.executable) - traced[label]
        outcome = _settled(outcome, bench, entry.executable, retraced, calls[label])
        channel.send(protocol.ModeReady(mode=label, outcome=outcome))
    return result.contaminated


def _settled(
    outcome: ModeOutcome,
    bench: Bench,
    executable: modes.ModeExecutable,
    retraced: int,
    calls: int,
) -> ModeOutcome:
    """The outcome, unless what was measured turns out to be no steady state of the mode."""
    if retraced:
        message = f"traced again while it was measured ({retraced} times)"
        failure = Failure(phase=Phase.MEASURE, kind="retraced", message=message)
        return replace(outcome, status=Status.RETRACED, failure=failure)
    if bench.trainer is None or outcome.status is not Status.OK:
        return outcome
    reason = bench.trainer.runs_away(executable, calls)
    if not reason:
        return outcome
    failure = Failure(phase=Phase.MEASURE, kind="not_finite", message=reason)
    return replace(outcome, status=Status.WRONG_RESULT, failure=failure)


def _with_latencies(outcome: ModeOutcome, found: timing.Latencies) -> ModeOutcome:
    return replace(
        outcome,
        latencies_s=tuple(block.call_s for block in found.calls),
        latency_enqueue_ns=tuple(block.enqueue_ns for block in found.calls),
        latency_passes=found.passes,
    )


def _progressed(progress: rounds.Progress) -> protocol.Progressed:
    return protocol.Progressed(
        measured=progress.measured,
        rounds=progress.rounds,
        rounds_max=progress.rounds_max,
        half_width=progress.half_width,
        target=progress.target,
        remaining_s=progress.remaining_s,
    )


def _measure_alone(
    bench: Bench,
    executables: Mapping[str, modes.ModeExecutable],
    calls: Mapping[str, int],
    channel: Channel,
) -> dict[str, tuple[float, ...]]:
    """Measure each mode alone, as long as the effort says."""
    seconds = bench.trial.effort.sustained_s
    if not seconds:
        return {}
    channel.send(protocol.Stage(phase=Phase.MEASURE, detail="each mode alone"))
    return {
        label: timing.measure_alone(
            executable, calls=calls[label], seconds=seconds, clock=time.perf_counter_ns
        )
        for label, executable in executables.items()
    }
