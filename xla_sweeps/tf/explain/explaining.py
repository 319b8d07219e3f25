"""Explain one model: trace, look through its operations, lower, run both ways, auto-cluster, time.

What is known is sent after each step, so that a crash of XLA costs what comes after it only.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf

from xla_sweeps.measure import protocol
from xla_sweeps.measure.failures import diagnose_exception, error_line, error_text
from xla_sweeps.schema.explanation import CompilerVerdict, Explanation, Trap, TrapName
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.schema.trial import ExecutionMode, Precision, ReplicateJob
from xla_sweeps.tf import devices, models, modes
from xla_sweeps.tf.explain import refusals, roofline, traps
from xla_sweeps.tf.explain.graph import TracedOp, named_in, noting_layers, traced_ops
from xla_sweeps.tf.preparation import NUDGE


@dataclass
class Subject:
    """A model with its inputs, and what its traced graph holds.

    Attributes:
        call: one call on a batch.
        batches: two of equal shape and different values.
        model: the Keras model, or None.
        layers: its layers, those of layers included.
        batch: the only batch size that it takes, or None.
        hlo: its unoptimized HLO, once it is lowered.
        ran: what ran without an error, by mode.
    """

    name: str
    call: Callable[[Any], Any]
    batches: Sequence[Any]
    model: Any = None
    layers: Sequence[Any] = ()
    batch: int | None = None
    precision: Precision = Precision.FLOAT32
    device: str = "/device:CPU:0"
    inputs: tuple[str, ...] = ()
    hlo: str = ""
    ran: dict[str, modes.ModeExecutable] = field(default_factory=dict)

    @property
    def jit_device(self) -> str:
        """XLA's name of the device."""
        return refusals.DEVICES["gpu" if "GPU" in self.device else "cpu"]


Tell = Callable[[protocol.Event], None]


def explain(job: ReplicateJob, channel: Any) -> None:
    """Explain the model of a job, and send what is found."""
    trial, spec = job.trial, job.trial.model
    devices.configure(tf32=trial.tf32, seed=trial.seed)
    channel.send(protocol.Loaded(environment=devices.loaded_environment()))
    device = devices.tf_device(trial.device)
    with tf.device(device):
        channel.send(protocol.Stage(phase=Phase.BUILD, detail=spec.name))
        built = models.build(
            spec, precision=trial.precision, seed=trial.seed, scenario=trial.scenario
        )
        rng = np.random.default_rng(trial.seed)
        size = built.loaded.batch or trial.batch_size
        batches = [models.draw(built.inputs, size, rng) for _ in range(2)]
        if spec.weights == "random":
            models.calibrate(built, models.draw(built.inputs, max(4, size), rng))
        model = built.loaded.keras_model
        subject = Subject(
            name=spec.name,
            call=built.call,
            batches=batches,
            model=model,
            layers=models.all_layers(model) if model is not None else (),
            batch=built.loaded.batch,
            precision=trial.precision,
            device=device,
            inputs=tuple(f"{item.name}{[size, *item.shape]} {item.dtype}" for item in built.inputs),
        )
        known = explain_subject(subject, channel.send)
        time_subject(known, subject, channel.send)
    channel.send(protocol.Finished(contaminated=False, sync={}, seconds={}))


def explain_subject(subject: Subject, tell: Tell) -> Explanation:
    """Explain one model, and send what is known after each step."""
    known = Explanation(
        model=subject.name,
        device=subject.jit_device,
        tensorflow=str(tf.__version__),
        inputs=subject.inputs,
        registered=refusals.registered(),
    )
    tell(protocol.Stage(phase=Phase.TRACE))
    try:
        with noting_layers(subject.layers) as noted:
            graph = modes.make_executable(subject.call, ExecutionMode.GRAPH, subject.batches)
        ops = traced_ops(graph.concrete, noted)
    except Exception as error:
        traceback.print_exc()
        return _sent(_untraceable(known, error), tell)
    known = replace(known, operations=len(ops), refusals=refusals.refusals(ops))
    shapes = traps.recompiles_per_shape(subject.model, subject.batch)
    structural = (
        shapes,
        traps.random_numbers(ops),
        traps.xla_in_every_mode(graph.concrete, ops),
    )
    known = _sent(replace(known, traps=structural), tell)
    tell(protocol.Stage(phase=Phase.COMPILE, mode=str(ExecutionMode.XLA)))
    known = _sent(_lower(known, subject, ops), tell)
    known = _sent(_run(known, subject, graph, ops), tell)
    tell(protocol.Stage(phase=Phase.COMPILE, mode=str(ExecutionMode.AUTOCLUSTER)))
    known = _sent(_cluster(known, subject, ops), tell)
    ignored = traps.jit_compile_ignored(subject.model, subject.layers)
    return _sent(_with(known, ignored), tell)


def time_subject(known: Explanation, subject: Subject, tell: Tell) -> Explanation:
    """Time what ran of an explained model against the least time that the device could take."""
    tell(protocol.Stage(phase=Phase.MEASURE))
    why = "XLA does not compile the model, so its work is not known"
    try:
        if subject.hlo:
            found = roofline.measured(
                subject.hlo, subject.ran, inputs=subject.batches[0], device=subject.device
            )
            return _sent(replace(known, roofline=found), tell)
    except Exception as error:
        traceback.print_exc()
        why = error_line(error)
    return _sent(replace(known, missing={"roofline": why, **known.missing}), tell)


def _sent(known: Explanation, tell: Tell) -> Explanation:
    tell(protocol.Explained(explanation=known))
    return known


def _with(known: Explanation, *more: Trap) -> Explanation:
    return replace(known, traps=(*known.traps, *more))


def _untraceable(known: Explanation, error: Exception) -> Explanation:
    verdict = _verdict(error, Phase.TRACE, ())
    why = "the model cannot be traced"
    missing = dict.fromkeys(("operations", "refusals", "clustering", "roofline"), why)
    unknown = tuple(traps.unknown(name, why) for name in TrapName)
    return replace(known, compiler=verdict, missing=missing, traps=unknown)


def _verdict(error: Exception, phase: Phase, ops: Sequence[TracedOp]) -> CompilerVerdict:
    text = error_text(error)
    _, failure = diagnose_exception(phase, type(error).__name__, text)
    return CompilerVerdict(
        compiles=False, message=failure.message, advice=failure.hint, places=named_in(text, ops)
    )


def _lower(known: Explanation, subject: Subject, ops: Sequence[TracedOp]) -> Explanation:
    """Lower the model to HLO for both batches: the compiler's verdict, and whether they agree."""
    texts = []
    try:
        function = modes.make_executable(subject.call, ExecutionMode.XLA, subject.batches).function
        for batch in subject.batches:
            lowered = function.experimental_get_compiler_ir(batch)
            texts.append(str(lowered(stage="hlo")))
        subject.hlo = texts[0]
    except Exception as error:
        traceback.print_exc()
        verdict = _verdict(error, Phase.COMPILE, ops)
        missing = traps.unknown(TrapName.RECOMPILES_PER_VALUE, "XLA does not compile the model")
        return _with(replace(known, compiler=verdict), missing)
    known = replace(known, compiler=CompilerVerdict(compiles=True))
    return _with(known, traps.recompiles_per_value(texts, ops))


def _run(
    known: Explanation, subject: Subject, graph: modes.ModeExecutable, ops: Sequence[TracedOp]
) -> Explanation:
    """Run graph mode and XLA on the same inputs, and compare what they return."""
    first, again = _outputs(graph), _outputs(graph)
    if not isinstance(again, Exception):
        subject.ran[str(ExecutionMode.GRAPH)] = graph
    compiled: traps.Ran = RuntimeError("XLA does not compile the model")
    if known.compiler is not None and known.compiler.compiles:
        try:
            executable = modes.make_executable(subject.call, ExecutionMode.XLA, subject.batches)
            compiled = _outputs(executable)
            if not isinstance(compiled, Exception):
                subject.ran[str(ExecutionMode.XLA)] = executable
        except Exception as error:
            compiled = error
        if isinstance(compiled, Exception) and not isinstance(first, Exception):
            known = replace(known, compiler=_verdict(compiled, Phase.COMPILE, ops))
    vanished = (
        first if isinstance(first, Exception) and not isinstance(compiled, Exception) else None
    )
    return _with(
        known,
        traps.dropped_checks(ops, vanished),
        traps.clamped_indices(ops, vanished, device=subject.device),
        traps.other_shape(first, compiled, ops),
        traps.other_values(
            first,
            again,
            compiled,
            lambda: _outputs(_nudged(graph)),
            ops,
            precision=subject.precision,
        ),
    )


def _nudged(graph: modes.ModeExecutable) -> modes.ModeExecutable:
    """The same on inputs changed by as little as rounding."""

    def changed(tensor: Any) -> Any:
        return tensor * (1 + NUDGE) if tensor.dtype.is_floating else tensor

    return replace(graph, inputs=[tf.nest.map_structure(changed, graph.inputs[0])])


def _outputs(executable: modes.ModeExecutable) -> traps.Ran:
    try:
        return executable.outputs()
    except Exception as error:
        traceback.print_exc()
        return error


def _cluster(known: Explanation, subject: Subject, ops: Sequence[TracedOp]) -> Explanation:
    """Run the model with auto-clustering, and see what its clusters hold."""
    try:
        executable = modes.make_executable(subject.call, ExecutionMode.AUTOCLUSTER, subject.batches)
        executable.prepare()
        with modes.collected_graphs() as graphs:
            executable.step()
            executable.synchronize()
        subject.ran[str(ExecutionMode.AUTOCLUSTER)] = executable
    except Exception as error:
        traceback.print_exc()
        why = error_line(error)
        missing = {**known.missing, "clustering": why}
        unknown = traps.unknown(TrapName.LITTLE_CLUSTERED, why)
        return _with(replace(known, missing=missing), unknown)
    finally:
        modes.set_autoclustering(False)
    clustering = traps.clustering_of(ops, graphs)
    return _with(replace(known, clustering=clustering), traps.little_clustered(clustering))
