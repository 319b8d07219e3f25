"""A Keras model that JAX runs, its inputs, and the outputs of eager execution."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import keras
import numpy as np

from xla_sweeps.backends.jax.modes import ENGINE, JaxExecutable, functional, runs_in_order
from xla_sweeps.backends.keras.bench import KerasBench
from xla_sweeps.backends.keras.cold_start import StartBench
from xla_sweeps.backends.keras.mac_count import MacCount
from xla_sweeps.backends.keras.new_shapes import ShapesBench
from xla_sweeps.backends.keras.predict import Calls, PredictingOnly, compiled_step, why_lowered
from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.keras.synchronization import busy_side, waits
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.modes import Execution, Mode, mode_of
from xla_sweeps.worker.backend import Tell


class JaxBench(KerasBench[JaxExecutable]):
    """The scenario `call` on JAX."""

    starts_up = True
    engine = ENGINE

    op_by_op = staticmethod(jax.disable_jit)
    """Context in which the model's own `jax.jit` compiles nothing."""

    def synchronization(self) -> Mapping[str, Any]:
        """Prove that a synchronization waits: JAX queues, on a CPU too."""
        if not runs_in_order(busy_side(self.trial)):
            raise XlaSweepsError("JAX does not run calls in order, so it cannot be timed")
        return waits(self.busy(map(mode_of, self.modes)), wait="block_until_ready")

    def make(self, mode: Mode) -> JaxExecutable:
        """Bind the model to a mode; `jax.jit` traces here."""
        variables = self.built.loaded.variables
        return JaxExecutable.bind(self.built.call, mode, self.inputs, variables=variables)

    def outputs_now(self, executable: JaxExecutable) -> list[np.ndarray]:
        """Outputs of a mode for the first inputs, with the weights as they are now."""
        program, state = executable.compiled, [each.value for each in self.built.loaded.variables]
        if program:  # eager code reads them itself
            executable = replace(executable, run=lambda batch: program(state, batch))
        return executable.outputs()

    def note_build(self, executable: JaxExecutable, tell: Tell) -> None:
        """Note the multiply-accumulates of what was traced."""
        if executable.traced is not None:
            self.count_macs(tell, executable)

    def macs_in(self, executable: JaxExecutable | None) -> MacCount:
        """Multiply-accumulates of a sample: in the program of the mode, or of a new trace."""
        from xla_sweeps.backends.keras.hlo import Module, count_macs  # needs protobuf

        executable = executable or JaxBench.make(self, Mode.JAX_XLA)
        count = count_macs(Module.parse(executable.serialize_program()))
        return count.of_each(self.trial.batch_size)

    def steady_memory_bytes(self, executable: JaxExecutable, *, call_s: float) -> int | None:
        """Arguments, outputs and temporary values of the program; unknown of eager execution."""
        program = executable.compiled
        analysis = program.memory_analysis() if program is not None else None
        if analysis is None:
            return None
        return int(
            analysis.argument_size_in_bytes
            + analysis.output_size_in_bytes
            + analysis.temp_size_in_bytes
            - analysis.alias_size_in_bytes
        )

    def settle(self, loaded: LoadedModel, batch: Any) -> None:
        """Call a model in one compiled program, and keep what that changes.

        Not op by op: JAX would compile each operation and shape. Kernels are not tuned, since
        nothing of it is timed.
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


@dataclass
class PredictExecutable(Calls, JaxExecutable):
    """`predict` of a model with its own setting of `jit_compile`, from NumPy to NumPy.

    Keras donates the model's weights to each call and puts the returned ones back.
    """

    def traces(self) -> int:
        """Programs that the function of one step has; 0 if nothing is compiled whole."""
        jitted = compiled_step(self.made, "_cache_size")
        return int(jitted._cache_size()) if jitted else 0  # private, tried on JAX 0.10.2

    def evidence_of_place(self) -> tuple[Sequence[Any], str]:
        """The weights: outputs in NumPy tell no place."""
        return [variable.value for variable in self.model.variables], "weights are"

    def compiling(self) -> tuple[dict[str, Any], list[str]]:
        """Evidence of what Keras made of `jit_compile`, and what contradicts the mode."""
        asked, jitted = self.mode.execution is Execution.XLA, self.traces() > 0
        evidence = {"jit_compile_asked": asked, "jit_compile": self.jit_compile}
        if asked and not jitted:
            nothing = "jax.jit compiled no program"
            return evidence, [nothing if self.jit_compile else why_lowered(self.model)]
        wrong = jitted and not asked
        return evidence, ["Keras uses jax.jit although jit_compile=False"] if wrong else []


class PredictBench(PredictingOnly[JaxExecutable], JaxBench):
    """The scenario `predict`: op by op, or compiled as `compile(jit_compile=True)` asks."""

    executable_class = PredictExecutable


class NewShapesBench(ShapesBench[JaxExecutable], JaxBench):
    """The scenario `new_shapes`: `jax.jit` makes a program for each shape."""

    def new_function(self, mode: Mode) -> JaxExecutable:
        """The model in a mode as a function that is new and takes any shape; nothing is traced."""
        call, variables = self.free_model.call, self.free_model.loaded.variables
        if mode.execution is Execution.EAGER:
            return JaxExecutable(mode=mode, run=call, inputs=())
        jitted, values = jax.jit(functional(call, variables)), [each.value for each in variables]
        return JaxExecutable(mode=mode, run=partial(jitted, values), inputs=(), jitted=jitted)


class ColdStartBench(StartBench[JaxExecutable], JaxBench):
    """The scenario `cold_start`: a process answers once."""
