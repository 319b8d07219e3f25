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

from xla_sweeps.backends.tensorflow import devices, models, modes, scenarios
from xla_sweeps.backends.tensorflow.declaration import BACKEND
from xla_sweeps.backends.tensorflow.explain import program, refusals, roofline, traps
from xla_sweeps.backends.tensorflow.explain.graph import (
    Origins,
    TracedOp,
    named_in,
    noting_layers,
    traced_ops,
)
from xla_sweeps.backends.tensorflow.explain.trace import (
    CALLS,
    Profile,
    graph_work,
    profiled,
    time_of,
)
from xla_sweeps.backends.tensorflow.hlo import Module
from xla_sweeps.backends.tensorflow.operations import computing
from xla_sweeps.measure import protocol
from xla_sweeps.measure.failures import diagnose_exception, error_line, error_text
from xla_sweeps.schema.explanation import CompilerVerdict, Explanation, Trap, TrapName
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.schema.modes import Execution, Mode
from xla_sweeps.schema.trial import Precision, ReplicateJob

REFUSED = "XLA does not compile the model"


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
            spec,
            precision=trial.precision,
            seed=trial.seed,
            step=scenarios.BENCHES[trial.scenario].step,
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
            inputs=tuple(
                f"{given.name}{[size, *given.shape]} {given.dtype}" for given in built.inputs
            ),
        )
        explanation = explain_subject(subject, channel.send, trace=job.measure)
        time_subject(explanation, subject, channel.send)


@dataclass
class Traced:
    """State that the steps share: the modes of the model, and what they left.

    Attributes:
        graph: graph mode.
        ops: of its traced graph.
        origins: finds the layer of an operation.
        compiled: the same under XLA, once XLA takes it.
        graphs: the graphs that graph mode ran.
        profile: of a few calls.
        program: the text of XLA's optimized program.
    """

    graph: modes.ModeExecutable
    ops: Sequence[TracedOp]
    origins: Origins
    compiled: modes.ModeExecutable | None = None
    graphs: Sequence[Any] = ()
    profile: Profile | None = None
    program: str = ""


def explain_subject(subject: Subject, tell: Tell, *, trace: bool = True) -> Explanation:
    """Explain one model, and send what is known after each step.

    Args:
        subject: the model.
        tell: sends an event.
        trace: whether to trace where the time goes.
    """
    explanation = Explanation(
        model=subject.name,
        device=subject.jit_device,
        tensorflow=str(tf.__version__),
        inputs=subject.inputs,
        registered=refusals.registered(),
    )
    tell(protocol.Stage(phase=Phase.TRACE))
    try:
        with noting_layers(subject.layers) as noted:
            graph = modes.ModeExecutable.bind(subject.call, Mode.GRAPH, subject.batches)
        ops = traced_ops(graph.concrete, noted)
    except Exception as error:
        traceback.print_exc()
        return _sent(_untraceable(explanation, error), tell)
    traced = Traced(graph=graph, ops=ops, origins=Origins(ops))
    explanation = replace(explanation, operations=len(ops), refusals=refusals.refusals(ops))
    shapes = traps.recompiles_per_shape(subject.model, subject.batch)
    structural = (
        shapes,
        traps.random_numbers(ops),
        traps.xla_in_every_mode(graph.concrete, ops),
    )
    explanation = _sent(replace(explanation, traps=structural), tell)
    tell(protocol.Stage(phase=Phase.COMPILE, mode=str(Mode.XLA)))
    for step in (_lower, _run):
        explanation = _sent(step(explanation, subject, traced), tell)
    tell(protocol.Stage(phase=Phase.MEASURE))
    explanation = _sent(_program(explanation, subject, traced, trace=trace), tell)
    explanation = _sent(_time(explanation, subject, traced, trace=trace), tell)
    tell(protocol.Stage(phase=Phase.COMPILE, mode=str(Mode.AUTOCLUSTER)))
    explanation = _sent(_cluster(explanation, subject, ops), tell)
    ignored = traps.jit_compile_ignored(subject.model, subject.layers)
    return _sent(_with(explanation, ignored), tell)


def time_subject(explanation: Explanation, subject: Subject, tell: Tell) -> Explanation:
    """Time what ran of an explained model against the least time that the device could take."""
    tell(protocol.Stage(phase=Phase.MEASURE))
    why = "XLA does not compile the model, so its work is not known"
    try:
        if subject.hlo:
            bound = roofline.measured(
                subject.hlo, subject.ran, inputs=subject.batches[0], device=subject.device
            )
            return _sent(replace(explanation, roofline=bound), tell)
    except Exception as error:
        traceback.print_exc()
        why = error_line(error)
    return _sent(replace(explanation, missing={"roofline": why, **explanation.missing}), tell)


def _sent(explanation: Explanation, tell: Tell) -> Explanation:
    tell(protocol.Explained(explanation=explanation))
    return explanation


def _with(explanation: Explanation, *more: Trap) -> Explanation:
    return replace(explanation, traps=(*explanation.traps, *more))


def _without(explanation: Explanation, why: str, *parts: str) -> Explanation:
    return replace(explanation, missing={**explanation.missing, **dict.fromkeys(parts, why)})


def _untraceable(explanation: Explanation, error: Exception) -> Explanation:
    verdict = _verdict(error, Phase.TRACE, ())
    why = "the model cannot be traced"
    unknown = tuple(traps.unknown(name, why) for name in TrapName)
    return _without(
        replace(explanation, compiler=verdict, traps=unknown),
        why,
        *("operations", "refusals", "clustering", "roofline"),
        *("graph_operations", "hlo_operations", "program", "time"),
    )


def _verdict(error: Exception, phase: Phase, ops: Sequence[TracedOp]) -> CompilerVerdict:
    text = error_text(error)
    _, failure = diagnose_exception(phase, type(error).__name__, text, backend=BACKEND)
    return CompilerVerdict(
        compiles=False, message=failure.message, advice=failure.hint, places=named_in(text, ops)
    )


def _lower(explanation: Explanation, subject: Subject, traced: Traced) -> Explanation:
    """Lower the model to HLO for both batches: the compiler's verdict, and whether they agree."""
    texts = []
    try:
        compiled = modes.ModeExecutable.bind(subject.call, Mode.XLA, subject.batches)
        for batch in subject.batches:
            lowered = compiled.function.experimental_get_compiler_ir(batch)
            texts.append(str(lowered(stage="hlo")))
        subject.hlo = texts[0]
    except Exception as error:
        traceback.print_exc()
        missing = traps.unknown(TrapName.RECOMPILES_PER_VALUE, REFUSED)
        explanation = replace(explanation, compiler=_verdict(error, Phase.COMPILE, traced.ops))
        return _without(_with(explanation, missing), REFUSED, "hlo_operations")
    traced.compiled = compiled
    explanation = replace(
        explanation,
        compiler=CompilerVerdict(compiles=True),
        hlo_operations=Module(texts[0]).operations(),
    )
    return _with(explanation, traps.recompiles_per_value(texts, traced.ops))


def _run(explanation: Explanation, subject: Subject, traced: Traced) -> Explanation:
    """Run graph mode and XLA on the same inputs, and compare what they return."""
    graph, ops = traced.graph, traced.ops
    with modes.collected_graphs() as traced.graphs:
        ran = _ran(graph)
    first, again = (_outputs(graph), _outputs(graph)) if ran is None else (ran, ran)
    if isinstance(again, Exception):
        explanation = _without(explanation, f"graph mode failed: {error_line(again)}", "time")
    else:
        subject.ran[str(Mode.GRAPH)] = graph
    compiled: traps.Ran = RuntimeError(REFUSED)
    if traced.compiled is not None:
        compiled = _outputs(traced.compiled)
        if isinstance(compiled, Exception):
            traced.compiled = None
            if not isinstance(first, Exception):
                explanation = replace(explanation, compiler=_verdict(compiled, Phase.COMPILE, ops))
        else:
            subject.ran[str(Mode.XLA)] = traced.compiled
    explanation = (
        replace(explanation, graph_operations=computing(traced.graphs))
        if ran is None
        else _without(explanation, error_line(ran), "graph_operations")
    )
    vanished = (
        first if isinstance(first, Exception) and not isinstance(compiled, Exception) else None
    )
    return _with(
        explanation,
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


def _program(
    explanation: Explanation, subject: Subject, traced: Traced, *, trace: bool
) -> Explanation:
    """Profile a few calls, and read there what XLA made of the model; it is not compiled again."""
    if traced.compiled is None:
        return _without(explanation, REFUSED, "program", "time")
    try:
        traced.profile = profiled(
            {
                mode: executable
                for mode, executable in subject.ran.items()
                if trace or mode == Mode.XLA
            },
            calls=CALLS if trace else 1,
        )
        traced.program = traced.profile.program(traced.compiled)
        if not traced.program:
            lowered = traced.compiled.function.experimental_get_compiler_ir(subject.batches[0])
            traced.program = str(lowered(stage="optimized_hlo"))
        return replace(explanation, program=program.program_of(traced.program, traced.origins))
    except Exception as error:
        traceback.print_exc()
        return _without(
            explanation, error_line(error), "program", *([] if traced.program else ["time"])
        )


def _time(
    explanation: Explanation, subject: Subject, traced: Traced, *, trace: bool
) -> Explanation:
    """Read from the profile where the time of graph mode and of XLA goes."""
    if not trace:
        return _without(explanation, "left out by --no-trace", "time")
    if "GPU" in subject.device:
        return _without(
            explanation, "a GPU's operations are not read from the trace so far", "time"
        )
    if traced.profile is None or "time" in explanation.missing:
        return explanation
    try:
        work = {
            Mode.GRAPH: graph_work(traced.graphs, traced.origins),
            Mode.XLA: program.work_by_name(traced.program, traced.origins),
        }
        return replace(explanation, time=time_of(traced.profile, work))
    except Exception as error:
        traceback.print_exc()
        return _without(explanation, error_line(error), "time")


def _nudged(graph: modes.ModeExecutable) -> modes.ModeExecutable:
    """The same mode on inputs changed by as little as rounding."""
    return replace(graph, inputs=[models.nudged(graph.inputs[0])])


def _ran(executable: modes.ModeExecutable) -> Exception | None:
    """Call once; returns why it failed, or None."""
    try:
        executable.prepare()
        executable.step()
        executable.synchronize()
    except Exception as error:
        traceback.print_exc()
        return error
    return None


def _outputs(executable: modes.ModeExecutable) -> traps.Ran:
    try:
        return executable.outputs()
    except Exception as error:
        traceback.print_exc()
        return error


def _cluster(explanation: Explanation, subject: Subject, ops: Sequence[TracedOp]) -> Explanation:
    """Run the model with auto-clustering, and see what its clusters hold."""
    try:
        executable = modes.ModeExecutable.bind(subject.call, Mode.AUTOCLUSTER, subject.batches)
        executable.prepare()
        with modes.collected_graphs() as graphs:
            executable.step()
            executable.synchronize()
        subject.ran[str(Mode.AUTOCLUSTER)] = executable
    except Exception as error:
        traceback.print_exc()
        why = error_line(error)
        missing = {**explanation.missing, "clustering": why}
        unknown = traps.unknown(TrapName.LITTLE_CLUSTERED, why)
        return _with(replace(explanation, missing=missing), unknown)
    finally:
        modes.activate(Execution.GRAPH)
    clustering = traps.clustering_of(ops, graphs)
    return _with(replace(explanation, clustering=clustering), traps.little_clustered(clustering))
