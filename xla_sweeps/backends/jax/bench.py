"""A Keras model that JAX runs, its inputs, and the outputs of eager execution."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from xla_sweeps.backends.jax.macs import count_macs
from xla_sweeps.backends.jax.modes import JaxExecutable, runs_in_order
from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.bench import KerasBench, busy_side, waits
from xla_sweeps.backends.keras.mac_count import AT_LEAST_NOTE
from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.keras.sources.inputs import drawn
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.schema.modes import Mode, mode_in, mode_of
from xla_sweeps.schema.trial import InputSpec
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker.backend import Tell


@dataclass
class JaxBench(KerasBench[JaxExecutable]):
    """The scenario `call` on JAX."""

    starts_up = True

    def synchronization(self) -> Mapping[str, Any]:
        """Prove that a synchronization waits: JAX queues, on a CPU too."""
        side = busy_side(self.trial)
        matrix = jnp.full((side, side), 1 / side)  # its square is itself
        if not runs_in_order(matrix):
            raise XlaSweepsError("JAX does not run calls in order, so it cannot be timed")
        executables = {}
        for mode in dict.fromkeys(map(mode_of, self.modes)):
            executables[str(mode)] = JaxExecutable.bind(lambda one: one @ one, mode, [matrix])
            executables[str(mode)].first_call_s()
        return waits(executables, wait="block_until_ready")

    def eagerly(self, batch: Any) -> list[np.ndarray]:
        """Outputs of an eager call of a batch: one float64 array per head."""
        return JaxExecutable(mode=self.eager_mode, run=self.built.call, inputs=[batch]).outputs()

    @property
    def eager_mode(self) -> Mode:
        """The mode that runs operation by operation."""
        mode = mode_in("jax", Mode.EAGER.role)
        assert mode
        return mode

    def natively(self, batch: Any) -> list[np.ndarray]:
        """The same in the precision of the model."""
        return [np.asarray(head) for head in jax.tree.leaves(self.built.call(batch))]

    def float64_outputs(self, few: Any) -> list[np.ndarray]:
        """Outputs of the same weights in float64; compiled programs stay as they are."""
        with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
            twin = building.float64_twin(self.trial.model, self.built)
            wide = jax.tree.map(widened, few)
            outputs = jax.tree.leaves(jax.jit(twin.call)(wide))
            if any(
                jnp.issubdtype(each.dtype, np.floating) and each.dtype != np.float64
                for each in outputs
            ):
                raise XlaSweepsError(
                    "the model sets its own dtypes, so it cannot be built in float64"
                )
            return [np.asarray(each, dtype=np.float64) for each in outputs]

    def calibrate(self, rng: np.random.Generator) -> None:
        """Give the model activations of order 1, by a batch that is not timed."""
        more = draw(self.built.inputs, max(4, self.trial.batch_size), rng)
        building.calibrate(self.built, more, call=_call)

    def bind(self, mode: str) -> JaxExecutable:
        """The model in a mode."""
        return JaxExecutable.bind(
            self.built.call, mode_of(mode), self.inputs, variables=self.built.loaded.variables
        )

    def op_by_op(self) -> AbstractContextManager[object]:
        """Within it, what `jax.jit` compiles in the model runs operation by operation."""
        off: AbstractContextManager[object] = jax.disable_jit()
        return off

    def outputs_now(self, executable: JaxExecutable) -> list[np.ndarray]:
        """Outputs of a mode for the first inputs, with the weights as they are now."""
        return executable.with_variables(self.built.loaded.variables).outputs()

    def prove(self, executable: JaxExecutable) -> Mapping[str, Any]:
        """Evidence of what is in force of a mode."""
        return executable.effective(device=self.device)

    def note_build(self, executable: JaxExecutable, tell: Tell) -> None:
        """Note the multiply-accumulates of what was traced."""
        if executable.traced is not None:
            self.count_macs(tell, executable)

    def count_macs(self, tell: Tell, executable: JaxExecutable | None = None) -> None:
        """Count multiply-accumulates in what the mode traced, or without one in a new trace."""
        if self.facts.macs is not None:
            return
        tell(protocol.Stage(phase=Phase.VERIFY, detail="multiply-accumulates"))
        begun = time.perf_counter()
        try:
            jaxpr = (
                jax.make_jaxpr(self.built.call)(self.inputs[0])
                if executable is None
                else executable.traced.jaxpr
            )
            count = count_macs(jaxpr).of_each(self.trial.batch_size)
            note = AT_LEAST_NOTE if count.at_least else ""
            self.facts = replace(
                self.facts, macs=count.total, macs_note=note, macs_by_type=dict(count.by_type)
            )
        except Exception as error:
            traceback.print_exc()
            self.facts = replace(self.facts, macs_note=error_line(error))
        self.seconds["macs"] = time.perf_counter() - begun
        tell(protocol.Built(model=self.facts))

    def reset_steady_memory(self) -> None:
        """Nothing: a program says what it needs."""

    def steady_memory_bytes(self, executable: JaxExecutable, *, call_s: float) -> int | None:
        """Memory of the compiled program, weights included; unknown of eager execution."""
        return executable.memory_bytes()


def _call(loaded: LoadedModel, batch: Any) -> None:
    """Call a model in one compiled program, and keep what that changes.

    Not op by op: JAX would compile each operation and shape. Kernels are not tuned, since nothing
    of it is timed.
    """
    model = loaded.keras_model
    variables, changed = model.variables, model.non_trainable_variables

    def forward(values: Sequence[Any], batch: Any) -> Sequence[Any]:
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping) as scope:
            loaded.forward(batch)
        return [scope.get_current_value(each) for each in changed]

    program = jax.jit(forward, compiler_options={"xla_gpu_autotune_level": 0})
    try:
        values = program([each.value for each in variables], batch)
    except Exception:  # it decides by computed values
        traceback.print_exc()
        loaded.forward(batch)
        return
    for variable, value in zip(changed, values, strict=True):
        variable.assign(value)


def draw(inputs: Sequence[InputSpec], count: int, rng: np.random.Generator) -> Any:
    """A batch of random samples: an array, or a tuple if the model has several inputs."""
    arrays = tuple(jnp.asarray(drawn(given, count, rng), dtype=given.dtype) for given in inputs)
    return arrays[0] if len(arrays) == 1 else arrays


def widened(array: Any) -> Any:
    """The same in float64 where it is floating."""
    return array.astype(np.float64) if jnp.issubdtype(array.dtype, np.floating) else array


def narrowed(outputs: Any) -> Any:
    """Outputs, the floating ones in float32."""

    def narrow(output: Any) -> Any:
        is_floating = hasattr(output, "dtype") and jnp.issubdtype(output.dtype, np.floating)
        return output.astype(np.float32) if is_floating else output

    return jax.tree.map(narrow, outputs)
