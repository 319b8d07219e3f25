"""Keras's `predict` on JAX: op by op, or compiled by `jax.jit` as `compile(jit_compile=True)` asks.

Keras donates the model's weights to each call and puts the returned ones back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xla_sweeps.backends.jax.bench import JaxBench
from xla_sweeps.backends.jax.modes import JaxExecutable
from xla_sweeps.backends.keras.predict import Calls, PredictingOnly, compiled_step, why_lowered
from xla_sweeps.schema.modes import Execution


@dataclass
class PredictExecutable(Calls, JaxExecutable):
    """`predict` of a model with its own setting of `jit_compile`, from NumPy to NumPy."""

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
        evidence = {"jit_compile_asked": asked, "jit_compile": bool(self.model.jit_compile)}
        if asked and not jitted:
            kept = evidence["jit_compile"]
            return evidence, ["jax.jit compiled no program" if kept else why_lowered(self.model)]
        wrong = jitted and not asked
        return evidence, ["Keras uses jax.jit although jit_compile=False"] if wrong else []


@dataclass
class PredictBench(PredictingOnly[JaxExecutable], JaxBench):
    """Batches that start in NumPy."""

    executable_class = PredictExecutable
