"""Keras's own `jit_compile`: a model of its own for each setting, and what Keras made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.keras.predict import compiled_step, why_lowered
from xla_sweeps.backends.keras.training import raw
from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.backends.tensorflow.operations import compiled_inside, jit_compile
from xla_sweeps.schema.modes import Execution

JIT_COMPILE = {
    Execution.AUTO: "auto",
    Execution.GRAPH: False,
    Execution.XLA: True,
    Execution.EAGER: False,
}
"""Keras's `jit_compile` of each execution that `compile` asks for."""

_NEVER = "with deterministic operations or tf.distribute it never uses XLA"


@dataclass
class KerasExecutable(modes.ModeExecutable):
    """One of Keras's own methods, of a model with its own setting of `jit_compile`."""

    model: Any = None
    made: str = ""
    """The attribute of the model that has the function that Keras makes."""

    def first_call_s(self) -> float:
        """Seconds of the first call, in which Keras traces and compiles."""
        elapsed = super().first_call_s()
        if self.mode.execution is Execution.EAGER:
            return elapsed
        made = getattr(self.model, self.made)
        self.function = compiled_step(made, "experimental_get_tracing_count")
        if not self.model.jit_compile and self.function is not None:
            # What XLA compiles in it belongs to the model.
            self.concrete = next(iter(concrete_functions(self.function)), None)
        return elapsed

    def proof(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Evidence of where the first call ran and what Keras made of `jit_compile`.

        The weights tell the place where XLA compiles a function whole, of which TensorFlow shows no
        graph.
        """
        places = sorted(self.places or {raw(variable).device for variable in self.model.variables})
        name = device.split("/")[-1]
        wrong = [] if any(name in place for place in places) else [f"nothing ran on {device}"]
        if self.mode.execution is Execution.EAGER:
            evidence = {"executing_eagerly": self.model.run_eagerly}
            problems = [] if self.model.run_eagerly else ["Keras traced a graph"]
        else:
            evidence, problems = self._jit_proof()
        return {"device": places, "elsewhere": [], **evidence}, wrong + problems

    def _jit_proof(self) -> tuple[dict[str, Any], list[str]]:
        asked = JIT_COMPILE.get(self.mode.execution, "uncompiled")
        in_force = bool(self.model.jit_compile)
        compiled = sum(map(_compile, concrete_functions(self.function)))
        problems = []
        if self.model.run_eagerly or tf.config.functions_run_eagerly():
            problems.append("the model runs eagerly, so nothing runs as a graph")
        if asked is True and not in_force:
            problems.append(why_lowered(self.model, _NEVER))
        if asked is False and in_force:
            problems.append("Keras uses XLA although jit_compile=False")
        if in_force and not compiled:
            problems.append("Keras says that it uses XLA, but XLA compiles nothing that it traced")
        return {
            "jit_compile_asked": asked,
            "jit_compile": in_force,
            "xla_functions": compiled,
            "executing_eagerly": False,
        }, problems


def concrete_functions(function: Any) -> list[Any]:
    """The functions that a `tf.function` traced so far.

    Uses a private method of TensorFlow, tried on 2.21.0: Keras does not keep what it traced.
    """
    return list(function._list_all_concrete_functions())


def _compile(concrete: Any) -> int:
    """Number of functions that XLA compiles in a traced one, itself included."""
    return bool(jit_compile(concrete.function_def)) + len(compiled_inside(concrete))
