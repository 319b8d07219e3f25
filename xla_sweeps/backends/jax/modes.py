"""Bind a model to an execution mode of JAX, and prove that the mode is in force.

JAX queues calls, on a CPU too. A device runs them in order: a synchronization waits for the last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import jax
import jax.numpy as jnp
import keras
import numpy as np

from xla_sweeps.backends.keras.sources.inputs import mixed
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import Execution, Mode

_COMPILED = "/jax/core/compile/backend_compile_duration"

_compilations: list[float] = []
"""Seconds of each program that XLA compiled in this process."""


def listen() -> None:
    """Note each compilation from now on."""

    def note(event: str, duration_s: float, **_: Any) -> None:
        if event == _COMPILED:
            _compilations.append(duration_s)

    jax.monitoring.register_event_duration_secs_listener(note)


@contextmanager
def compilations() -> Iterator[list[float]]:
    """Seconds of the programs that are compiled meanwhile; filled at the end."""
    before, meanwhile = len(_compilations), list[float]()
    yield meanwhile
    meanwhile += _compilations[before:]


@dataclass
class JaxExecutable:
    """One model in one mode with its inputs on the device; satisfies `worker.Executable`.

    Attributes:
        run: one call on a batch; of a training step, on a state and a batch.
        traced: what `jax.jit` traced, or None for eager execution.
        state: the arguments of the compiled program before the batch.
        compiled: the program; it cannot compile again, and refuses another shape.
        figures: what the first call showed, for the proof.
    """

    mode: Mode
    run: Callable[..., Any]
    inputs: Sequence[Any]
    traced: Any = None
    state: tuple[Any, ...] = ()
    compiled: Any = None
    trace_s: float | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    position: int = 0
    last: Any = field(default=None, repr=False)

    @classmethod
    def bind(
        cls,
        call: Callable[[Any], Any],
        mode: Mode,
        inputs: Sequence[Any],
        *,
        variables: Sequence[Any] = (),
        **more: Any,
    ) -> Self:
        """Bind a model to a mode; `jax.jit` traces here, and that is timed.

        Args:
            call: the forward pass.
            mode: what to bind it to.
            inputs: batches of one shape and dtype, on the device.
            variables: of the model; a compiled program takes their values as arguments.
            more: further fields of the executable.
        """
        if mode.execution is Execution.EAGER:
            return cls(mode=mode, run=call, inputs=inputs, **more)

        def forward(values: Sequence[Any], batch: Any) -> Any:
            mapping = list(zip(variables, values, strict=True))
            with keras.StatelessScope(state_mapping=mapping):
                return call(batch)

        state = ([variable.value for variable in variables],)
        return cls.jitted(forward, mode, inputs, state, **more)

    @classmethod
    def jitted(
        cls,
        function: Callable[..., Any],
        mode: Mode,
        inputs: Sequence[Any],
        state: tuple[Any, ...],
        **more: Any,
    ) -> Self:
        """Trace a function of the state and a batch with `jax.jit`."""
        started = time.perf_counter()
        with _errors_of_jax():
            traced = jax.jit(function).trace(*state, inputs[0])
        trace_s = time.perf_counter() - started
        return cls(
            mode=mode,
            run=function,
            inputs=inputs,
            traced=traced,
            state=state,
            trace_s=trace_s,
            **more,
        )

    def with_variables(self, variables: Sequence[Any]) -> Self:
        """The same program on the values that variables have now; eager code reads them itself."""
        program, state = self.compiled, [variable.value for variable in variables]
        return replace(self, run=lambda batch: program(state, batch)) if program else self

    def prepare(self) -> None:
        """Nothing: a mode of JAX is another function, and no switch."""

    def step(self) -> None:
        """Start one call on the next of the rotating inputs."""
        self.last = self.run(self.inputs[self.position])
        self.position = (self.position + 1) % len(self.inputs)

    def synchronize(self) -> None:
        """Wait for the last call, and so for those before it."""
        jax.block_until_ready(self.last)

    def drain(self) -> None:
        """Wait by reading one number of the last output."""
        np.asarray(jax.tree.leaves(self.last)[-1].ravel()[0])

    def renew(self) -> bool:
        """Replace the inputs by new ones, on no device for good, as the first ones; waits."""
        self.inputs = jax.block_until_ready(jax.tree.map(jnp.asarray, mixed(self.inputs)))
        return True

    def first_call_s(self) -> float:
        """Seconds of lowering, compiling and the first call, with a synchronization."""
        with compilations() as compiled:
            started = time.perf_counter()
            if self.traced is not None:
                self._compile()
            self.step()
            self.synchronize()
            elapsed_s = time.perf_counter() - started
        self.figures["compilations"] = len(compiled)
        return elapsed_s

    def _compile(self) -> None:
        started = time.perf_counter()
        lowered = self.traced.lower()
        lowered_at = time.perf_counter()
        program = self.compiled = lowered.compile()
        self.figures["lower_s"] = lowered_at - started
        self.figures["compile_s"] = time.perf_counter() - lowered_at
        state = self.state
        self.run = lambda batch: program(*state, batch)

    def outputs(self, position: int = 0) -> list[np.ndarray]:
        """Outputs for one of the inputs: one float64 array per head, shape (batch, ...)."""
        return _read(self.run(self.inputs[position]))

    def last_outputs(self) -> list[np.ndarray]:
        """Outputs of the last call."""
        return _read(self.last)

    def traces(self) -> int:
        """1 for a compiled program, which cannot be traced again; 0 for eager execution."""
        return 0 if self.traced is None else 1

    def memory_bytes(self) -> int | None:
        """Arguments, outputs and temporary values of the program; None for eager execution."""
        analysis = self.compiled.memory_analysis() if self.compiled is not None else None
        if analysis is None:
            return None
        return int(
            analysis.argument_size_in_bytes
            + analysis.output_size_in_bytes
            + analysis.temp_size_in_bytes
            - analysis.alias_size_in_bytes
        )

    def effective(self, *, device: str) -> dict[str, Any]:
        """Evidence of what is in force, read back by another call, with `in_force` and `reason`."""
        with compilations() as again:
            self.step()
            self.synchronize()
        outputs = jax.tree.leaves(self.last)
        places = sorted({str(place) for head in outputs for place in head.devices()})
        elsewhere = [place for place in places if place != device]
        problems = [f"output is on {place}, not on {device}" for place in elsewhere]
        if self.mode.execution is Execution.XLA and self.compiled is None:
            problems.append("jax.jit compiled no program")
        if again:
            problems.append(f"{len(again)} programs were compiled in the second call")
        return {
            **self.figures,
            "recompilations": len(again),
            "device": places,
            "elsewhere": elsewhere,
            "in_force": not problems,
            "reason": "; ".join(problems),
        }

    def extras(self) -> dict[str, Any]:
        """Figures besides the times of calls, by their names in `ModeOutcome`."""
        return {}


def runs_in_order(matrix: Any) -> bool:
    """True if a short computation ends after a long one that was started before it."""
    for _ in range(2):  # the first one compiles
        long = matrix @ matrix @ matrix
        jax.block_until_ready(matrix[0] + 1)
        in_order = bool(long.is_ready())
    return in_order


def _read(outputs: Any) -> list[np.ndarray]:
    heads = jax.tree.leaves(outputs, is_leaf=lambda value: value is None)
    for head in heads:
        if not isinstance(head, jax.Array | np.ndarray):
            raise ConfigError(
                f"the model returned {'None' if head is None else f'a {type(head).__name__}'}; "
                "tensors are needed, alone or in lists, tuples or dictionaries"
            )
    return [np.asarray(head).astype(np.float64) for head in heads]


@contextmanager
def _errors_of_jax() -> Iterator[None]:
    """Let Keras pass JAX's errors on: it cannot copy those about tracers (Keras 3.15.1)."""
    keras.config.disable_traceback_filtering()
    try:
        yield
    finally:
        keras.config.enable_traceback_filtering()
