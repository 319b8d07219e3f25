"""Bind a model to an execution mode of JAX, and prove that the mode is in force.

JAX queues calls, on a CPU too. A device runs them in order: a synchronization waits for the last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import keras
import numpy as np

from xla_sweeps.backends.keras.executable import Engine, Executable
from xla_sweeps.schema.modes import Execution, Mode
from xla_sweeps.system.text import count_noun

Spans = list[tuple[float, float]]
"""Begin and end of each of some events, in seconds, in the order of their ends."""

_stages: dict[str, Spans] = {
    f"/jax/core/compile/{stage}_duration": []
    for stage in ("jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile")
}
"""JAX's events of tracing, lowering and compiling in this process, in the order of the stages."""

_REMEDY = (
    ", for example of jax.lax.scan with a function that is defined inside the call; "
    "define it outside"
)


@cache
def listen() -> None:
    """Note each stage of a program from now on, once, however often it is asked for."""

    def note(event: str, duration_s: float, **_: Any) -> None:
        if event in _stages:
            end_s = time.perf_counter()
            _stages[event].append((end_s - duration_s, end_s))

    jax.monitoring.register_event_duration_secs_listener(note)


@contextmanager
def compilations() -> Iterator[list[Spans]]:
    """Traces, lowerings and compilations of programs meanwhile; filled at the end."""
    before, meanwhile = list(map(len, _stages.values())), list[Spans]()
    yield meanwhile
    meanwhile += [spans[at:] for at, spans in zip(before, _stages.values(), strict=True)]


@dataclass
class JaxExecutable(Executable):
    """One model in one mode on JAX.

    Attributes:
        run: one call on a batch; of a training step, on a state and a batch.
        traced: what `jax.jit` traced, or None for eager execution.
        state: the arguments of the program before the batch.
        compiled: the program; it cannot compile again, and refuses another shape.
        jitted: the function of `jax.jit` in its place, where that compiles for each new shape.
    """

    traced: Any = None
    state: tuple[Any, ...] = ()
    compiled: Any = None
    jitted: Any = None

    flatten = staticmethod(partial(jax.tree.leaves, is_leaf=lambda value: value is None))

    @classmethod
    def bind(
        cls,
        call: Callable[[Any], Any],
        mode: Mode,
        inputs: Sequence[Any],
        *,
        variables: Sequence[Any] = (),
    ) -> Self:
        """Bind a model to a mode; `jax.jit` traces here, and that is timed."""
        if mode.execution is Execution.EAGER:
            return cls(mode=mode, run=call, inputs=inputs)
        state = ([variable.value for variable in variables],)
        return cls.jit(functional(call, variables), mode, inputs, state)

    @classmethod
    def jit(
        cls, function: Callable[..., Any], mode: Mode, inputs: Sequence[Any], state: tuple[Any, ...]
    ) -> Self:
        """Trace a function of the state and a batch with `jax.jit`."""
        started = time.perf_counter()
        with _errors_of_jax():
            traced = jax.jit(function).trace(*state, inputs[0])
        trace_s = time.perf_counter() - started
        return cls(mode, function, inputs, trace_s, traced=traced, state=state)

    def serialize_program(self) -> bytes:
        """The program before XLA's optimizer, a serialized `HloModuleProto`."""
        content: bytes = self.traced.lower().compiler_ir("hlo").as_serialized_hlo_module_proto()
        return content

    def synchronize(self) -> None:
        """Wait for the last call, and so for those before it."""
        jax.block_until_ready(self.last)

    def renew(self) -> bool:
        """Replace the inputs by new ones, and wait until they are on the device."""
        super().renew()
        jax.block_until_ready(self.inputs)
        return True

    @contextmanager
    def observe_first_call(self) -> Iterator[None]:
        """Count the programs that are compiled in the first call."""
        with compilations() as stages:
            yield
        self.figures["compilations"] = len(stages[-1])

    def first_step(self) -> None:
        """Lower and compile the program, and start the first call."""
        if self.traced is not None:
            self._compile()
        self.step()

    def _compile(self) -> None:
        started = time.perf_counter()
        lowered = self.traced.lower()
        lowered_at = time.perf_counter()
        program = self.compiled = lowered.compile()
        self.figures["lower_s"] = lowered_at - started
        self.figures["compile_s"] = time.perf_counter() - lowered_at
        state = self.state
        self.run = lambda batch: program(*state, batch)

    def count_operations(self) -> int | None:
        """Operations of a call; what `jax.jit` compiles is one of them."""
        return len(trace(self.run, self.inputs[self.position]).eqns)

    def traces(self) -> int:
        """1 for a compiled program, which cannot be traced again; 0 for eager execution.

        Of `jitted`, the programs in its cache; the method is private, and was tried on 0.10.2.
        """
        if self.jitted is not None:
            return int(self.jitted._cache_size())
        return 0 if self.traced is None else 1

    def proof(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Evidence of another call, and of what was compiled.

        Op by op, JAX compiles a loop or a branch again whose functions the call makes.
        """
        with compilations() as stages:
            self.step()
            self.synchronize()
        again = len(stages[-1])
        arrays, named = self.evidence_of_place()
        places = sorted({str(place) for array in arrays for place in array.devices()})
        elsewhere = [place for place in places if place != device]
        evidence, problems = self.compiling()
        problems = [f"{named} on {place}, not on {device}" for place in elsewhere] + problems
        proofs: dict[str, Any] = {"recompilations": again, "device": places, "elsewhere": elsewhere}
        told = f"the second call compiled {count_noun(again, 'program')}"
        if again and self.mode.execution is Execution.EAGER:
            proofs["recompiles"] = f"{told}{_REMEDY}"
        elif again:
            problems.append(told)
        return {**evidence, **proofs}, problems

    def evidence_of_place(self) -> tuple[Sequence[Any], str]:
        """Arrays that tell where the last call ran, and their name in a sentence."""
        return jax.tree.leaves(self.last), "output is"

    def compiling(self) -> tuple[dict[str, Any], list[str]]:
        """Evidence of whether a program was compiled, and what contradicts the mode."""
        missing = self.mode.execution is Execution.XLA and self.compiled is None
        return {}, ["jax.jit compiled no program"] if missing else []


def functional(call: Callable[[Any], Any], variables: Sequence[Any]) -> Callable[[Any, Any], Any]:
    """A call of a model as a function of the values of its variables and a batch."""

    def forward(values: Sequence[Any], batch: Any) -> Any:
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return call(batch)

    return forward


def runs_in_order(side: int) -> bool:
    """True if a short computation ends after a long one, on matrices of that side, before it."""
    matrix = jnp.full((side, side), 1 / side)
    for _ in range(2):  # the first one compiles
        long = matrix @ matrix @ matrix
        jax.block_until_ready(matrix[0] + 1)
        in_order = bool(long.is_ready())
    return in_order


@contextmanager
def _errors_of_jax() -> Iterator[None]:
    """Let Keras pass JAX's errors on: it cannot copy those about tracers (Keras 3.15.1)."""
    keras.config.disable_traceback_filtering()
    try:
        yield
    finally:
        keras.config.enable_traceback_filtering()


def trace(call: Callable[[Any], Any], batch: Any) -> Any:
    """The jaxpr of a call; what it assigns to variables of Keras stays within it."""
    with keras.StatelessScope():
        return jax.make_jaxpr(call)(batch)


def _narrow(output: Any) -> Any:
    is_floating = hasattr(output, "dtype") and jnp.issubdtype(output.dtype, np.floating)
    return output.astype(np.float32) if is_floating else output


@contextmanager
def _in_float64() -> Iterator[None]:
    """Compiled programs stay as they are."""
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        yield


ENGINE = Engine(
    executables=JaxExecutable,
    narrow=partial(jax.tree.map, _narrow),
    in_float64=_in_float64,
    without_tf32=partial(jax.default_matmul_precision, "float32"),
    whole=jax.jit,
)
