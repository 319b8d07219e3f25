"""Explain a model on JAX: its program, what compiles again, and the least time of a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax

from xla_sweeps.backends.jax.bench import JaxBench
from xla_sweeps.backends.jax.declaration import BACKEND
from xla_sweeps.backends.jax.modes import Spans, compilations
from xla_sweeps.backends.keras.building import title
from xla_sweeps.backends.keras.explain import traps
from xla_sweeps.backends.keras.explain.events import Event, OpWork
from xla_sweeps.backends.keras.explain.explainer import resize_batch
from xla_sweeps.backends.keras.explain.program import work_by_name
from xla_sweeps.backends.keras.explain.trace import call_each
from xla_sweeps.backends.keras.explain.under_xla import XlaExplainer
from xla_sweeps.backends.keras.hlo import Module
from xla_sweeps.backends.keras.xplane import record_profile
from xla_sweeps.schema.explanation import Compilation, Place, State, TrapName
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.schema.modes import Mode
from xla_sweeps.system.text import count_noun
from xla_sweeps.worker.backend import Tell
from xla_sweeps.worker.lines import line_of

LACKS = {
    "registered": "JAX lists no kernels of XLA",
    "refusals": "JAX lists no kernels of XLA; the compiler's verdict stands for it",
    "graph_operations": "JAX has no graph mode",
}
"""Parts that are not available on JAX, with the reason."""

LOOKS: traps.Looks = {**traps.LOOKS}
"""What looks for a trap in a model of JAX."""


class JaxExplainer(XlaExplainer):
    """The steps of explaining a model on JAX."""

    backend = BACKEND
    version = jax.__version__
    modes = (Mode.JAX_EAGER, Mode.JAX_XLA)
    fastest = (Mode.JAX_XLA,)
    lacks = LACKS
    looks = LOOKS
    untraced = "jax.jit cannot trace the model"

    def __init__(self, bench: JaxBench, tell: Tell) -> None:
        super().__init__(bench, tell, compilations=None)
        self._layers = {layer.name: title(layer) for layer in self.layers}

    def trace(self) -> None:
        """Trace the program, and note its operations."""
        self.baseline = self.bench.bind(Mode.JAX_EAGER)
        self.compiled = self.bench.bind(Mode.JAX_XLA)
        self._jitted = partial(jax.jit(self.compiled.run), *self.compiled.state)
        self.note(operations=_equations(self.compiled.traced.jaxpr.jaxpr))

    def compile(self) -> None:
        """Compile the program, and call it."""
        self.compiled.first_call_s()

    def lower(self) -> list[Module]:
        """The program, which is the same for all batches."""
        return [Module.parse(self.compiled.serialize_program())]

    def optimize(self, *, calls: int) -> Module:
        """The program, which the executable has."""
        (optimized,) = self.compiled.compiled.runtime_executable().hlo_modules()
        return Module.parse(optimized.as_serialized_hlo_module_proto())

    def count_compilations(self) -> None:
        """Call the model op by op and under `jax.jit` in a process that has compiled nothing."""
        self.begin(Phase.COMPILE)
        eager, jitted, (first, second) = self.bench.built.call, self._jitted, self.bench.inputs[:2]
        calls = [("model(x), first call", eager, first)]
        calls += [("jax.jit, first call", jitted, first), ("jax.jit, other values", jitted, second)]
        if self.batch is None:
            less = self.bench.trial.batch_size - 1 or 2
            fewer = resize_batch(first, less)
            calls += [(f"model(x), a batch of {less}", eager, fewer)]
            calls += [(f"jax.jit, a batch of {less}", jitted, fewer)]
        with self.or_missing("compilations"):
            jax.clear_caches()
            self.note(compilations=tuple(_compilation_of(*call) for call in calls))

    def programs(self, call: str) -> int:
        """Programs that a call compiled; 0 if there was no such call.

        Raises:
            ValueError: compilations could not be counted.
        """
        rows = self.explanation.compilations
        if rows is None:
            raise ValueError(self.explanation.missing.get("compilations", "not reached"))
        return sum(row.programs for row in rows if row.call.startswith(call))

    def traced_calls(self) -> tuple[Sequence[Event], Mapping[Mode, Mapping[str, OpWork]]]:
        """Events of calls op by op, each operation a program of its own, and of `jax.jit`."""
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # without Python's calls
        with record_profile(partial(jax.profiler.trace, profiler_options=options)) as space:
            call_each(self.ran, jax.profiler.TraceAnnotation)
        events, ops = list(space.events()), dict[str, OpWork]()
        for name, content in space.programs({event.program for event in events}).items():
            named = work_by_name(Module(content), lambda _: "")
            ops |= {f"{name}/{operation}": work for operation, work in named.items()}
        whole = work_by_name(self.optimized, self.layer_of)
        return events, {Mode.JAX_EAGER: ops, Mode.JAX_XLA: whole}

    def layer_of(self, name: str) -> str:
        """The innermost layer in the scopes of an operation's name, else `at NAME`."""
        layers = [self._layers[scope] for scope in name.split("/") if scope in self._layers]
        return layers[-1] if layers else f"at {name}" if name else ""

    def places_of(self, error: Exception) -> tuple[Place, ...]:
        """The line of Python that an error is from."""
        return (Place(op="", node="", line=line_of(error)),)


@traps.looks(LOOKS, TrapName.RECOMPILES_PER_VALUE, after=Phase.COMPILE)
def find_programs_per_value(model: JaxExplainer) -> traps.Finding:
    """Find out if other values of equal shape compile another program."""
    if others := model.programs("jax.jit, other values"):
        return traps.trap_found(
            f"other values compiled {count_noun(others, 'more program')}", "fix the shapes"
        )
    return traps.none("the program is the same for other values")


@traps.looks(LOOKS, TrapName.RECOMPILES_PER_SHAPE, after=Phase.COMPILE)
def find_programs_per_shape(model: JaxExplainer) -> traps.Finding:
    """Find out if another batch size compiles another program."""
    finding = traps.find_open_sizes(model)
    if finding.state is State.POSSIBLE and model.programs("jax.jit, a batch of"):
        what = "XLA compiled again for another batch size, as for the last batch of a data set"
        return traps.trap_found(what, finding.fix)
    return finding


@traps.looks(LOOKS, TrapName.XLA_IN_EVERY_MODE, after=Phase.COMPILE)
def find_compiled_operations(model: JaxExplainer) -> traps.Finding:
    """Find out if a call op by op compiles."""
    if ops := model.programs("model(x), first call"):
        return traps.trap_found(
            f"JAX compiles each operation with XLA: {count_noun(ops, 'program')} in the first call "
            "of model(x)",
            "call the model under jax.jit, which compiles one program",
        )
    return traps.none()


def _compilation_of(name: str, call: Callable[[Any], Any], batch: Any) -> Compilation:
    """Compilations of a call; work inside other work of its kind counts once."""
    with compilations() as stages:
        jax.block_until_ready(call(batch))
    trace_s, lower_s, compile_s = map(_outermost_s, stages)
    return Compilation(
        call=name, programs=len(stages[-1]), trace_s=trace_s, lower_s=lower_s, compile_s=compile_s
    )


def _outermost_s(spans: Spans) -> float:
    """Seconds of spans without those inside of others, such as an inner function's."""
    total_s, first_s = 0.0, math.inf
    for begin_s, end_s in reversed(spans):
        if begin_s < first_s:
            total_s += end_s - begin_s
            first_s = begin_s
    return total_s


def _equations(jaxpr: Any) -> int:
    """Number of operations of a traced program, those of its functions in place of their calls."""
    return sum(
        sum(map(_equations, parts)) if (parts := _inside(equation.params)) else 1
        for equation in jaxpr.eqns
    )


def _inside(params: Any) -> list[Any]:
    """The programs among an equation's parameters."""
    programs = (getattr(each, "jaxpr", each) for each in jax.tree.leaves(list(params.values())))
    return [program for program in programs if hasattr(program, "eqns")]
