"""Keras's `predict` on JAX: op by op, or compiled by `jax.jit` as `compile(jit_compile=True)` asks.

Keras donates the model's weights to each call and puts the returned ones back.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from xla_sweeps.backends.jax.bench import JaxBench
from xla_sweeps.backends.jax.modes import JaxExecutable, compilations
from xla_sweeps.backends.keras import building
from xla_sweeps.schema.modes import Execution, mode_of


@dataclass
class PredictExecutable(JaxExecutable):
    """`predict` of a model with its own setting of `jit_compile`, from NumPy to NumPy."""

    model: Any = None

    def renew(self) -> bool:
        """Replace the inputs by new ones in NumPy."""
        super().renew()
        self.inputs = jax.tree.map(np.asarray, list(self.inputs))
        return True

    def traces(self) -> int:
        """Programs that the function of one step has; 0 if nothing is compiled whole."""
        jitted = _jitted(self.model.predict_function)
        return int(jitted._cache_size()) if jitted else 0  # private, tried on JAX 0.10.2

    def effective(self, *, platform: str) -> dict[str, Any]:
        """Evidence of what is in force, read back from what Keras made and by another call."""
        with compilations() as again:
            self.step()
        arrays = [variable.value for variable in self.model.variables]
        places = {device for array in arrays for device in array.devices()}
        elsewhere = sorted(str(device) for device in places if device.platform != platform)
        asked, jitted = self.mode.execution is Execution.XLA, self.traces() > 0
        problems = [f"weights are on {place}, not on {platform}" for place in elsewhere]
        if asked and not jitted:
            named = building.layers_without_xla(building.all_layers(self.model))
            problems.append(
                "Keras lowered jit_compile=True to False: supports_jit is False in "
                f"{', '.join(named[:3])}"
                if named
                else "jax.jit compiled no program"
            )
        if jitted and not asked:
            problems.append("Keras uses jax.jit although jit_compile=False")
        if again:
            problems.append(f"{len(again)} programs were compiled in the second call")
        return {
            **self.figures,
            "jit_compile_asked": asked,
            "jit_compile": bool(self.model.jit_compile),
            "recompilations": len(again),
            "device": sorted(map(str, places)),
            "elsewhere": elsewhere,
            "in_force": not problems,
            "reason": "; ".join(problems),
        }


@dataclass
class PredictBench(JaxBench):
    """Batches that start in NumPy."""

    def bind(self, mode: str) -> PredictExecutable:
        """The model in a mode; Keras traces and compiles in the first call."""
        asked, size = mode_of(mode), self.trial.batch_size
        model = building.wrapped(self.built.loaded.keras_model, self.built.call)
        model.compile(jit_compile=asked.execution is Execution.XLA)
        return PredictExecutable(
            mode=asked,
            run=lambda samples: model.predict(samples, batch_size=size, verbose=0),
            inputs=self._host_batches(),
            model=model,
        )

    def _host_batches(self) -> Sequence[Any]:
        """The inputs of each call in NumPy, `batches` of them in each array."""
        batches, size = self.trial.batches, self.trial.batch_size
        leaves, structure = zip(*map(jax.tree.flatten, self.inputs), strict=True)
        arrays = [
            np.concatenate(list(map(np.asarray, parts))) for parts in zip(*leaves, strict=True)
        ]
        starts = range(0, (len(self.inputs) - batches + 1) * size, size)
        return [
            jax.tree.unflatten(
                structure[0], [array[start : start + batches * size] for array in arrays]
            )
            for start in starts
        ]


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
