"""Keras's `predict` on JAX: op by op, or compiled by `jax.jit` as `compile(jit_compile=True)` asks.

Keras donates the model's weights to each call and puts the returned ones back.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xla_sweeps.backends.jax.bench import JaxBench
from xla_sweeps.backends.jax.modes import JaxExecutable, compilations
from xla_sweeps.backends.keras.predict import Calls, Predicting, lowered
from xla_sweeps.schema.modes import Execution, Mode


@dataclass
class PredictExecutable(Calls, JaxExecutable):
    """`predict` of a model with its own setting of `jit_compile`, from NumPy to NumPy."""

    model: Any = None
    made: Any = None

    def traces(self) -> int:
        """Programs that the function of one step has; 0 if nothing is compiled whole."""
        jitted = _jitted(self.made)
        return int(jitted._cache_size()) if jitted else 0  # private, tried on JAX 0.10.2

    def effective(self, *, device: str) -> dict[str, Any]:
        """Evidence of what is in force, read back from what Keras made and by another call."""
        with compilations() as again:
            self.step()
        arrays = [variable.value for variable in self.model.variables]
        places = sorted({str(place) for array in arrays for place in array.devices()})
        elsewhere = [place for place in places if place != device]
        asked, jitted = self.mode.execution is Execution.XLA, self.traces() > 0
        problems = [f"weights are on {place}, not on {device}" for place in elsewhere]
        if asked and not jitted:
            problems.append(lowered(self.model) or "jax.jit compiled no program")
        if jitted and not asked:
            problems.append("Keras uses jax.jit although jit_compile=False")
        if again:
            problems.append(f"{len(again)} programs were compiled in the second call")
        return {
            **self.figures,
            "jit_compile_asked": asked,
            "jit_compile": bool(self.model.jit_compile),
            "recompilations": len(again),
            "device": places,
            "elsewhere": elsewhere,
            "in_force": not problems,
            "reason": "; ".join(problems),
        }


@dataclass
class PredictBench(Predicting[JaxExecutable], JaxBench):
    """Batches that start in NumPy."""

    def calling(self, mode: Mode, model: Any, run: Callable[[Any], Any]) -> PredictExecutable:
        """An executable of the model's calls."""
        inputs, made = self.host_batches(), model.predict_function
        return PredictExecutable(mode=mode, run=run, inputs=inputs, model=model, made=made)


def _jitted(function: Any) -> Any:
    """The function of one step that `jax.jit` made, in the closures of Keras's; None without one.

    Tried on Keras 3.15.1.
    """
    if hasattr(function, "_cache_size"):
        return function
    if not inspect.isfunction(function):
        return None
    names = inspect.getclosurevars(function).nonlocals
    inner = (_jitted(names.get(name)) for name in ("_step_function", "step_function"))
    return next(filter(None, inner), None)
