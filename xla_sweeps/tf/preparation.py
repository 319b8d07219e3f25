"""Prepare each mode: trace, compile, prove that it is in force, and verify what it computes."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import tensorflow as tf

from xla_sweeps.measure import agreement, protocol
from xla_sweeps.measure.failures import error_text
from xla_sweeps.schema.measurement import Agreement, Failure, Flag, ModeOutcome, Phase, Status
from xla_sweeps.schema.modes import ExecutionMode, Scenario, mode_of
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.tf import models, modes, scenarios
from xla_sweeps.tf.bench import Bench, Channel, add_reference, count_macs, eager_outputs, note_build

NUDGE = 1e-6
"""Relative change of the inputs, as small as rounding."""


@dataclass
class Prepared:
    """A mode that is ready to be measured, and what is known of it so far."""

    executable: modes.ModeExecutable
    outcome: ModeOutcome


def prepare_modes(job: ReplicateJob, bench: Bench, channel: Channel) -> dict[str, Prepared]:
    """Trace, compile, prove and verify each mode; modes that fail are reported and left out."""
    prepared: dict[str, Prepared] = {}
    for label in job.modes:
        stage = protocol.Stage(phase=Phase.TRACE, mode=label)
        try:
            channel.send(stage)
            executable = scenarios.make_executable(bench, mode_of(label))
            executable.sync_by_reading = bench.sync_by_reading
            stage = protocol.Stage(phase=Phase.COMPILE, mode=label)
            channel.send(stage)
            outcome = _first_calls(executable)
            note_build(bench, executable, channel)
            stage = protocol.Stage(phase=Phase.VERIFY, mode=label)
            channel.send(stage)
            outcome = _prove_and_verify(bench, executable, outcome, channel)
            if outcome.status is not Status.MODE_NOT_EFFECTIVE:
                prepared[label] = Prepared(executable=executable, outcome=outcome)
            _flag_xla_inside(executable, channel)
            if outcome.effective.get("elsewhere") and label in prepared:
                channel.send(protocol.Flagged(flag=f"{Flag.OUTPUTS_ELSEWHERE}:{label}"))
        except Exception as error:
            traceback.print_exc()
            channel.send(
                protocol.Failed(
                    phase=stage.phase, mode=label, kind=type(error).__name__, text=error_text(error)
                )
            )
        else:
            channel.send(protocol.ModeReady(mode=label, outcome=outcome))
    executables = [entry.executable for entry in prepared.values()]
    xla = next((item for item in executables if item.mode is ExecutionMode.XLA), None)
    if xla and not bench.trainer:  # of a forward pass, in every scenario
        count_macs(bench, xla, channel)
    return prepared


def _first_calls(executable: modes.ModeExecutable) -> ModeOutcome:
    first_call_s = modes.first_call_s(executable)
    return ModeOutcome(status=Status.OK, trace_s=executable.trace_s, first_call_s=first_call_s)


def _prove_and_verify(
    bench: Bench, executable: modes.ModeExecutable, outcome: ModeOutcome, channel: Channel
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
    compare = _comparison(bench, executable)
    result = compare()
    if not result.ok and bench.reference is None and "reference" not in bench.seconds:
        # Not close to eager, but perhaps as close to float64 as eager is.
        add_reference(bench, channel)
        result = compare()
    status, failure = _gate(result, deterministic=bench.deterministic)
    return replace(outcome, status=status, effective=evidence, agreement=result, failure=failure)


def _comparison(bench: Bench, executable: modes.ModeExecutable) -> Callable[[], Agreement]:
    """Run what is to be verified of a mode; returns what compares it with what is known by then."""
    if executable.mode is ExecutionMode.INPUT:  # it computes nothing that could be wrong
        return partial(Agreement, rmse_rel=None, top1_match=None, ok=True)
    if bench.trainer:
        again = partial(scenarios.make_executable, bench, executable.mode)
        return partial(bench.trainer.compare, bench.trainer.first_steps(executable, again))
    return partial(_compare, bench, executable.outputs())


def _compare(bench: Bench, outputs: list[np.ndarray]) -> Agreement:
    if bench.trial.scenario is Scenario.DETECT:
        if bench.nudged is None:
            nudged = tf.nest.map_structure(lambda tensor: tensor * (1 + NUDGE), bench.inputs[0])
            bench.nudged = eager_outputs(bench.built, [nudged])
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
        phase=Phase.VERIFY, kind="disagreement", message=result.message
    )


def _flag_xla_inside(executable: modes.ModeExecutable, channel: Channel) -> None:
    if executable.concrete is None:
        return
    inside = models.library_functions_with_xla(executable.concrete)
    if inside:
        channel.send(protocol.Flagged(flag=str(Flag.CONTAINS_XLA)))
