"""Keras's `predict` of a model with its own setting of `jit_compile`, from NumPy to NumPy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.bench import E, KerasBench
from xla_sweeps.schema.modes import Execution, Mode, mode_of


class Predicting(KerasBench[E]):
    """Batches that start in NumPy."""

    @abstractmethod
    def calling(self, mode: Mode, model: Any, run: Callable[[Any], Any]) -> E:
        """An executable of the model's calls, on `host_batches`."""

    def bind(self, mode: str) -> E:
        """The model in a mode; Keras traces and compiles in the first call."""
        asked, size = mode_of(mode), self.trial.batch_size
        model = building.wrapped(self.built.loaded.keras_model, self.built.call)
        model.compile(jit_compile=asked.execution is not Execution.EAGER)
        return self.calling(
            asked, model, lambda samples: model.predict(samples, batch_size=size, verbose=0)
        )

    def host_batches(self) -> Sequence[Any]:
        """The inputs of each call in NumPy, `batches` of them in each array."""
        batches, size = self.trial.batches, self.trial.batch_size

        def joined(*parts: Any) -> np.ndarray:
            return np.concatenate(list(map(keras.ops.convert_to_numpy, parts)))

        arrays = keras.tree.map_structure(joined, *self.inputs)
        starts = range(0, (len(self.inputs) - batches + 1) * size, size)
        return [
            keras.tree.map_structure(lambda array, at=at: array[at : at + batches * size], arrays)
            for at in starts
        ]


def lowered(model: Any) -> str:
    """Reason why Keras lowered jit_compile=True to False; "" where no layer explains it."""
    named = building.layers_without_xla(building.all_layers(model))
    reason = "Keras lowered jit_compile=True to False: supports_jit is False in "
    return f"{reason}{', '.join(named[:3])}" if named else ""
