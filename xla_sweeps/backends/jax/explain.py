"""Explain a model on JAX: its program, what compiles again, and the least time of a call."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from xla_sweeps.backends.jax.backend import Jax
from xla_sweeps.backends.jax.bench import JaxBench
from xla_sweeps.backends.jax.declaration import BACKEND
from xla_sweeps.backends.jax.macs import inside
from xla_sweeps.backends.jax.modes import JaxExecutable
from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.bench import nudged
from xla_sweeps.backends.keras.explain import program, roofline, traps
from xla_sweeps.backends.keras.explain.events import Work as OperationWork
from xla_sweeps.backends.keras.explain.findings import (
    Findings,
    begun,
    explain_bench,
    refusal_of,
    resized,
)
from xla_sweeps.backends.keras.explain.layers import title
from xla_sweeps.backends.keras.explain.lines import line_of
from xla_sweeps.backends.keras.explain.program import program_of, work_of
from xla_sweeps.backends.keras.explain.trace import call_each, time_of
from xla_sweeps.backends.keras.hlo import Module
from xla_sweeps.backends.keras.xplane import Space
from xla_sweeps.schema.capture import Compilation
from xla_sweeps.schema.explanation import (
    CompilerVerdict,
    Place,
    State,
    Trap,
    TrapName,
    Work,
)
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.trial import Precision
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker.backend import Tell

EVENTS = ("jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile")
"""JAX's events of tracing, lowering and compiling, in the order of a program's stages."""

LACKS = {
    "registered": "JAX lists no kernels of XLA",
    "refusals": "JAX lists no kernels of XLA; the compiler's verdict stands for it",
    "clustering": "JAX has no auto-clustering",
    "graph_operations": "JAX has no graph mode",
}
"""Parts that are not available on JAX, with the reason."""

NOT_LOOKED_FOR = (
    TrapName.DROPPED_CHECKS,
    TrapName.CLAMPED_INDICES,
    TrapName.OTHER_RANDOM_NUMBERS,
)


def explain(request: protocol.Explain, tell: Tell) -> None:
    """Explain the model of a job, and send what is found."""
    explain_bench(
        request,
        tell,
        Jax(),
        lambda bench: JaxFindings(bench, tell).explain(trace=request.trace),
    )


class JaxFindings(Findings):
    """The steps of explaining a model, which share what they left."""

    def __init__(self, bench: JaxBench, tell: Tell) -> None:
        self._bench, self._model = bench, bench.built.loaded.keras_model
        framework = f"{BACKEND.title} {jax.__version__}"
        super().__init__(begun(bench, framework, LACKS, compilations=None), tell)
        self._lowered: Module | None = None
        self._optimized: Module | None = None
        self._layers = [] if self._model is None else building.all_layers(self._model)
        names = {layer.name: title(layer) for layer in self._layers}
        self._layer_of = partial(_layer_of, names)

    def explain(self, *, trace: bool) -> None:
        """Trace, compile, run with and without `jax.jit`, and time a few calls.

        Args:
            trace: whether to trace where the time goes.
        """
        self.begin(Phase.TRACE)
        try:
            compiled = self._bench.bind(Mode.JAX_XLA)
        except Exception as error:
            self._refuse(error, Phase.TRACE, "jax.jit cannot trace the model")
            return
        forward, state = jax.jit(compiled.run), compiled.state
        self.note(operations=_equations(compiled.traced.jaxpr.jaxpr))
        self.begin(Phase.COMPILE, Mode.JAX_XLA)
        try:
            compiled.first_call_s()
        except Exception as error:
            self._refuse(error, Phase.COMPILE, "XLA does not compile the model")
            return
        self.note(compiler=CompilerVerdict(compiles=True))
        self._read_program(compiled)
        self._count_compilations(partial(forward, *state))
        self._compare(compiled)
        self.begin(Phase.MEASURE)
        if trace:
            with self.or_missing("time"):
                self._trace_calls(compiled)
        else:
            self.miss("left out by --no-trace", "time")
        if self._lowered is None:
            self.miss("the work of a call is not known without its program", "roofline")
        else:
            with self.or_missing("roofline"):
                self._time_calls(compiled, work_of(self._lowered, self._bench.inputs[0]))
        self.end("not told on JAX")

    def _refuse(self, error: Exception, phase: Phase, why: str) -> None:
        """Note that the model is not compiled, and the line of Python that the error is from."""
        traceback.print_exception(error)
        place = Place(op="", node="", line=line_of(error))
        self.note(compiler=refusal_of(error, phase, backend=BACKEND, places=lambda text: (place,)))
        self.end(why)

    def _read_program(self, compiled: JaxExecutable) -> None:
        """Read the program before and after XLA's optimizer."""
        with self.or_missing("hlo_operations"):
            lowered = compiled.traced.lower().compiler_ir("hlo")
            self._lowered = Module.parsed(lowered.as_serialized_hlo_module_proto())
            self.note(hlo_operations=len(list(self._lowered.running())))
        with self.or_missing("program"):
            (optimized,) = compiled.compiled.runtime_executable().hlo_modules()
            self._optimized = Module.parsed(optimized.as_serialized_hlo_module_proto())
            self.note(program=program_of(self._optimized, self._layer_of))

    def _count_compilations(self, jitted: Callable[[Any], Any]) -> None:
        """Call the model op by op and under `jax.jit` in a process that has compiled nothing."""
        self.begin(Phase.COMPILE)
        eager, (first, second) = self._bench.built.call, self._bench.inputs[:2]
        size, only = self._bench.trial.batch_size, self._bench.built.loaded.batch
        calls = [("model(x), first call", eager, first)]
        calls += [("jax.jit, first call", jitted, first), ("jax.jit, other values", jitted, second)]
        if only is None:
            less = size - 1 or 2
            fewer = resized(first, less)
            calls += [(f"model(x), a batch of {less}", eager, fewer)]
            calls += [(f"jax.jit, a batch of {less}", jitted, fewer)]
        with self.or_missing("compilations"):
            jax.clear_caches()
            listener = Listener()
            rows = tuple(listener.compilation(*call) for call in calls)
            self.note(*_compilation_traps(rows, self._model, only), compilations=rows)

    def _compare(self, compiled: JaxExecutable) -> None:
        """Compare what XLA returns with what the same model returns op by op."""
        bench, batch = self._bench, self._bench.inputs[0]
        plain, again, under_xla = (
            _outputs(run)
            for run in (*[partial(bench.eagerly, batch)] * 2, partial(compiled.outputs, 0))
        )
        self.note(
            traps.other_shape(plain, under_xla),
            traps.other_values(
                plain,
                again,
                under_xla,
                lambda: _outputs(partial(bench.eagerly, nudged(batch))),
                precision=bench.trial.precision,
            ),
            self._weights_read(compiled),
            traps.jit_compile_ignored(self._model, self._layers),
            traps.unknown(TrapName.LITTLE_CLUSTERED, LACKS["clustering"]),
            *(traps.unknown(name, "not looked for on JAX") for name in NOT_LOOKED_FOR),
        )

    def _weights_read(self, compiled: JaxExecutable) -> Trap:
        try:
            return traps.weights_not_read(self._bench.unread_names(compiled))
        except Exception as error:
            traceback.print_exc()
            return traps.unknown(TrapName.WEIGHTS_NOT_READ, error_line(error))

    def _trace_calls(self, compiled: JaxExecutable) -> None:
        """Trace a few calls op by op, each operation a program of its own, and of `jax.jit`."""
        if self._optimized is None:
            raise ValueError("the program after XLA's optimizer is not available")
        eager, trial = self._bench.bind(Mode.JAX_EAGER), self._bench.trial
        eager.first_call_s()
        with recorded() as space:
            call_each({Mode.JAX_EAGER: eager, Mode.JAX_XLA: compiled}, jax.profiler.TraceAnnotation)
        events = list(space.events())
        ops: dict[str, OperationWork] = {}
        for name, content in space.programs({event.program for event in events}).items():
            named = program.work_by_name(Module(content), lambda _: "")
            ops |= {f"{name}/{operation}": work for operation, work in named.items()}
        whole = program.work_by_name(self._optimized, self._layer_of)
        plain = trial.precision is Precision.FLOAT32 and not trial.tf32
        work = {Mode.JAX_EAGER: ops, Mode.JAX_XLA: whole}
        self.note(time=time_of(events, work, plain=plain))

    def _time_calls(self, compiled: JaxExecutable, work: Work) -> None:
        eager = self._bench.bind(Mode.JAX_EAGER)
        eager.first_call_s()
        on_cpu = not self._bench.trial.on_accelerator
        ran = {str(Mode.JAX_EAGER): eager, str(Mode.JAX_XLA): compiled}
        self.note(
            roofline=roofline.measured(
                work, ran, bind=_bound, on_cpu=on_cpu, tf32=self._bench.trial.tf32
            )
        )


@contextmanager
def recorded() -> Iterator[Space]:
    """Run JAX's profiler without Python's calls; the `Space` is filled at the end."""
    space, options = Space(), jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory(prefix="xla-sweeps-") as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            yield space
        (file,) = Path(folder).rglob("*.xplane.pb")
        space.read(file.read_bytes())


class Listener:
    """Compilations of calls, from JAX's events."""

    def __init__(self) -> None:
        self._intervals: dict[str, list[tuple[float, float]]] = {}
        self._programs = 0
        jax.monitoring.register_event_duration_secs_listener(self._note)

    def compilation(self, name: str, call: Callable[[Any], Any], batch: Any) -> Compilation:
        """Compilations of a call; work inside other work of its kind counts once."""
        self._intervals, self._programs = {event: [] for event in EVENTS}, 0
        jax.block_until_ready(call(batch))
        trace_s, lower_s, compile_s = (
            sum(end - begin for begin, end in self._intervals[event]) for event in EVENTS
        )
        return Compilation(
            call=name,
            programs=self._programs,
            trace_s=trace_s,
            lower_s=lower_s,
            compile_s=compile_s,
        )

    def _note(self, event: str, duration_s: float, **_: Any) -> None:
        name = event.removeprefix("/jax/core/compile/").removesuffix("_duration")
        if name not in self._intervals:
            return
        end, intervals = time.perf_counter(), self._intervals[name]
        while intervals and intervals[-1][0] >= end - duration_s:  # an inner function's
            intervals.pop()
        intervals.append((end - duration_s, end))
        self._programs += name == EVENTS[-1]


def _compilation_traps(rows: Sequence[Compilation], model: Any, batch: int | None) -> list[Trap]:
    """Traps that the compilations show."""
    programs = {row.call: row.programs for row in rows}
    values = TrapName.RECOMPILES_PER_VALUE
    others, ops = programs["jax.jit, other values"], programs["model(x), first call"]
    per_shape = traps.recompiles_per_shape(model, batch)
    again = [row for row in rows if row.call.startswith("jax.jit, a batch of") and row.programs]
    if per_shape.state is State.POSSIBLE and again:
        what = "XLA compiled again for another batch size, as for the last batch of a data set"
        per_shape = replace(per_shape, state=State.FOUND, what=what)
    return [
        traps.found(values, f"{others} programs were compiled for other values", "fix the shapes")
        if others
        else traps.none(values, "the program is the same for other values"),
        per_shape,
        traps.found(
            TrapName.XLA_IN_EVERY_MODE,
            f"JAX compiles each operation with XLA: {ops} programs in the first call of model(x)",
            "call the model under jax.jit, which compiles one program",
        )
        if ops
        else traps.none(TrapName.XLA_IN_EVERY_MODE),
    ]


def _equations(jaxpr: Any) -> int:
    """Number of operations of a traced program, those of its functions in place of their calls."""
    return sum(
        sum(map(_equations, parts)) if (parts := inside(equation.params)) else 1
        for equation in jaxpr.eqns
    )


def _layer_of(layers: dict[str, str], name: str) -> str:
    """The innermost layer in the scopes of an operation's name, else `at NAME`; "" without one."""
    scopes = [scope for scope in reversed(name.split("/")) if scope in layers]
    return layers[scopes[0]] if scopes else f"at {name}" if name else ""


def _outputs(run: Callable[[], Any]) -> traps.Ran:
    try:
        outputs: list[Any] = run()
    except Exception as error:
        traceback.print_exc()
        return RuntimeError(error_line(error))
    return outputs


def _bound(call: Callable[[Any], Any], argument: Any) -> list[JaxExecutable]:
    """A call on an argument under `jax.jit`, compiled."""
    executable = JaxExecutable.bind(call, Mode.JAX_XLA, [argument])
    executable.first_call_s()
    return [executable]
