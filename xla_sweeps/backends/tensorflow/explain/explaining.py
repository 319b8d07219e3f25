"""Explain one model: trace, look through its operations, lower, run both ways, auto-cluster, time.

What is known is sent at once, so that a crash of XLA costs what comes after it only.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from xla_sweeps.backends.keras import building, weights
from xla_sweeps.backends.keras.bench import nudged
from xla_sweeps.backends.keras.explain import program, roofline
from xla_sweeps.backends.keras.explain.findings import Findings, inputs_of, refusal_of
from xla_sweeps.backends.keras.explain.trace import CALLS, call_each, time_of
from xla_sweeps.backends.keras.explain.traps import (
    RANDOM,
    Ran,
    other_shape,
    other_values,
    recompiles_per_shape,
    unknown,
    weights_not_read,
)
from xla_sweeps.backends.keras.hlo import Module
from xla_sweeps.backends.keras.sources.inputs import draw
from xla_sweeps.backends.tensorflow import devices, models, modes, profiler, scenarios
from xla_sweeps.backends.tensorflow.declaration import BACKEND
from xla_sweeps.backends.tensorflow.explain import refusals, traps
from xla_sweeps.backends.tensorflow.explain.graph import (
    Origins,
    TracedOp,
    named_in,
    noting_layers,
    traced_ops,
)
from xla_sweeps.backends.tensorflow.explain.nodes import graph_work
from xla_sweeps.backends.tensorflow.operations import computing, lowered
from xla_sweeps.schema.explanation import CompilerVerdict, Explanation, State, Trap, TrapName
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.schema.modes import Execution, Mode
from xla_sweeps.schema.trial import Precision
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker import agreement
from xla_sweeps.worker.backend import Tell

REFUSED = "XLA does not compile the model"


def explain(request: protocol.Explain, tell: Tell) -> None:
    """Explain the model of a job, and send what is found."""
    trial, spec = request.job.trial, request.job.trial.model
    devices.configure(tf32=trial.tf32, seed=trial.seed)
    tell(protocol.Loaded(environment=devices.loaded_environment()))
    device = devices.tf_device(trial.device)
    with tf.device(device):
        tell(protocol.Stage(phase=Phase.BUILD, detail=spec.name))
        built = models.build(
            spec,
            precision=trial.precision,
            seed=trial.seed,
            step=scenarios.TensorFlow.benches[trial.scenario].step,
            batch_size=trial.batch_size,
        )
        rng = np.random.default_rng(trial.seed)
        size = built.loaded.batch or trial.batch_size
        batches = [draw(built.inputs, size, rng) for _ in range(2)]
        if spec.weights == "random":
            building.calibrate(built, draw(built.inputs, max(4, size), rng))
        explaining = Explaining(
            built,
            batches,
            tell,
            name=spec.name,
            precision=trial.precision,
            tf32=trial.tf32,
            device=device,
        )
        explaining.explain(trace=request.trace)
        explaining.time_calls()


class Explaining(Findings):
    """The steps of explaining a model, which share what they left.

    Args:
        built: the model.
        batches: two of equal shape and different values.
        tell: sends an event.
        name: of the model.
        precision: of its computations.
        tf32: whether float32 products may be computed in TF32.
        device: as TensorFlow names it.
    """

    def __init__(
        self,
        built: building.BuiltModel,
        batches: Sequence[Any],
        tell: Tell,
        *,
        name: str,
        precision: Precision = Precision.FLOAT32,
        tf32: bool = False,
        device: str = "/device:CPU:0",
    ) -> None:
        size = tf.nest.flatten(batches[0])[0].shape[0]
        explanation = Explanation(
            model=name,
            device=refusals.DEVICES["gpu" if "GPU" in device else "cpu"],
            framework=f"{BACKEND.title} {tf.__version__}",
            inputs=inputs_of(built, size),
            registered=refusals.registered(),
        )
        super().__init__(explanation, tell)
        self._call, self._batches, self._batch = built.call, batches, built.loaded.batch
        self._model = built.loaded.keras_model
        self._layers = [] if self._model is None else building.all_layers(self._model)
        self._precision, self._tf32, self._device = precision, tf32, device
        self._variables = built.loaded.variables
        self._ops: Sequence[TracedOp] = ()
        """Operations of the traced graph."""
        self._graphs: Sequence[Any] = ()
        """Graphs that graph mode ran."""
        self._ran: dict[str, modes.ModeExecutable] = {}
        """Executables that ran without an error, by mode."""
        self._compiled: modes.ModeExecutable | None = None
        """The model under XLA, as long as XLA takes it."""
        self._lowered: Module | None = None
        """The program before XLA's optimizer."""

    def explain(self, *, trace: bool = True) -> Explanation:
        """Explain all but how fast the model could be.

        Args:
            trace: whether to trace where the time goes.
        """
        self.begin(Phase.TRACE)
        try:
            with noting_layers(self._layers) as noted:
                self._graph = modes.ModeExecutable.bind(self._call, Mode.GRAPH, self._batches)
            self._ops = traced_ops(self._graph.concrete, noted)
        except Exception as error:
            traceback.print_exc()
            self.note(compiler=self._verdict(error, Phase.TRACE))
            self.end("the model cannot be traced")
            return self.explanation
        self._origins = Origins(self._ops)
        self.note(
            recompiles_per_shape(self._model, self._batch),
            traps.random_numbers(self._ops),
            traps.xla_in_every_mode(self._graph.concrete, self._ops),
            operations=len(self._ops),
            refusals=refusals.refusals(self._ops),
        )
        self.begin(Phase.COMPILE, Mode.XLA)
        self._lower()
        self._run()
        self.begin(Phase.MEASURE)
        self._read_program(trace=trace)
        self.begin(Phase.COMPILE, Mode.AUTOCLUSTER)
        self._cluster()
        self.note(traps.jit_compile_ignored(self._model, self._layers))
        return self.explanation

    def time_calls(self) -> None:
        """Time what ran against the least time that the device could take."""
        self.begin(Phase.MEASURE)
        if self._lowered is None:
            self.miss("XLA does not compile the model, so its work is not known", "roofline")
        else:
            with self.or_missing("roofline"):
                work = program.work_of(self._lowered, self._batches[0])
                on_cpu = "CPU" in self._device
                bound = roofline.measured(
                    work, self._ran, bind=bound_to_both, on_cpu=on_cpu, tf32=self._tf32
                )
                self.note(roofline=bound)

    def _verdict(self, error: Exception, phase: Phase) -> CompilerVerdict:
        return refusal_of(
            error, phase, backend=BACKEND, places=lambda text: named_in(text, self._ops)
        )

    def _lower(self) -> None:
        """Lower the model for both batches: the compiler's verdict, and whether they agree."""
        try:
            compiled = modes.ModeExecutable.bind(self._call, Mode.XLA, self._batches)
            modules = [lowered(compiled.function, batch) for batch in self._batches]
        except Exception as error:
            traceback.print_exc()
            self.miss(REFUSED, "hlo_operations")
            self.note(
                unknown(TrapName.RECOMPILES_PER_VALUE, REFUSED),
                compiler=self._verdict(error, Phase.COMPILE),
            )
            return
        self._compiled, self._lowered = compiled, modules[0]
        self.note(
            traps.recompiles_per_value(modules, self._ops),
            compiler=CompilerVerdict(compiles=True),
            hlo_operations=len(list(modules[0].running())),
        )

    def _run(self) -> None:
        """Run graph mode and XLA on the same inputs, and compare what they return."""
        graph, ops = self._graph, self._ops
        first: Ran
        try:
            with graph.observed() as self._graphs:
                graph.timed_s(graph.step)
        except Exception as error:
            traceback.print_exc()
            self.miss(error_line(error), "graph_operations")
            first = error
        else:
            with self.or_missing("graph_operations"):
                self.note(graph_operations=computing(self._graphs))
            first = _outputs(graph)
        again = first if isinstance(first, Exception) else _outputs(graph)
        if isinstance(again, Exception):
            self.miss(f"graph mode failed: {error_line(again)}", "time")
        else:
            self._ran[Mode.GRAPH] = graph
        compiled: Ran = RuntimeError(REFUSED)
        if self._compiled is not None:
            compiled = _outputs(self._compiled)
            if not isinstance(compiled, Exception):
                self._ran[Mode.XLA] = self._compiled
            else:
                self._compiled = None
                if not isinstance(first, Exception):
                    self.note(compiler=self._verdict(compiled, Phase.COMPILE))
        vanished = (
            first if isinstance(first, Exception) and not isinstance(compiled, Exception) else None
        )
        moved = replace(graph, inputs=[nudged(graph.inputs[0])])
        self.note(
            *traps.vanished_errors(ops, vanished, device=self._device),
            other_shape(first, compiled, traps.changed_sizes(ops)),
            self._weights_read(first, again),
            unknown(TrapName.OTHER_VALUES, RANDOM)
            if traps.random_numbers(ops).state is State.FOUND
            else other_values(
                first,
                again,
                compiled,
                lambda: _outputs(moved),
                precision=self._precision,
                places=traps.narrowing(ops),
            ),
        )

    def _weights_read(self, first: Ran, again: Ran) -> Trap:
        """Find out if the traced call reads all weights that the model's code reads."""
        name = TrapName.WEIGHTS_NOT_READ
        if isinstance(first, Exception) or isinstance(again, Exception):
            return unknown(name, "graph mode failed")
        if not agreement.deterministic(first, again):
            return unknown(name, "two runs differ")
        eager = modes.ModeExecutable.bind(self._call, Mode.EAGER, self._batches)
        precision, gpu = self._precision, "GPU" in self._device
        try:
            read = weights.Weights(
                self._variables, weights.plainly(eager.outputs, modes.op_by_op), precision, gpu=gpu
            )
            return weights_not_read(read.unread_by(self._graph.outputs))
        except Exception as error:
            traceback.print_exc()
            return unknown(name, error_line(error))

    def _read_program(self, *, trace: bool) -> None:
        """Read what XLA makes of the model, and from a trace where the time of both modes goes."""
        if not trace:
            self.miss("left out by --no-trace", "time")
        if self._compiled is None:
            self.miss(REFUSED, "program", "time")
            return
        with self.or_missing("program", "time"):
            with profiler.recorded() as space:
                annotation = tf.profiler.experimental.Trace
                call_each(self._ran, annotation, calls=CALLS if trace else 1)
            name = self._compiled.concrete.name.decode().strip("_")
            optimized = Module(space.program(name))
            with self.or_missing("program"):
                self.note(program=program.program_of(optimized, self._origins))
            if "time" in self.explanation.missing:
                return
            with self.or_missing("time"):
                plain = self._precision is Precision.FLOAT32 and not self._tf32
                work = {
                    Mode.GRAPH: graph_work(self._graphs, self._origins),
                    Mode.XLA: program.work_by_name(optimized, self._origins, self._origins.line),
                }
                self.note(time=time_of(list(space.events()), work, plain=plain))

    def _cluster(self) -> None:
        """Run the model with auto-clustering, and see what its clusters hold."""
        with self.or_missing("clustering"):
            executable = modes.ModeExecutable.bind(self._call, Mode.AUTOCLUSTER, self._batches)
            with executable.observed() as graphs:
                executable.timed_s(executable.step)
            self._ran[Mode.AUTOCLUSTER] = executable
            self.note(clustering=traps.clustering_of(self._ops, graphs))
        modes.activate(Execution.GRAPH)
        clustering = self.explanation.clustering
        self.note(
            unknown(TrapName.LITTLE_CLUSTERED, self.explanation.missing["clustering"])
            if clustering is None
            else traps.little_clustered(clustering)
        )


def bound_to_both(call: Callable[[Any], Any], argument: Any) -> list[modes.ModeExecutable]:
    """A call on an argument in graph mode and under XLA."""
    both = (Mode.GRAPH, Mode.XLA)
    return [modes.ModeExecutable.bind(call, mode, [argument]) for mode in both]


def _outputs(executable: modes.ModeExecutable) -> Ran:
    try:
        return executable.outputs()
    except Exception as error:
        traceback.print_exc()
        return error
