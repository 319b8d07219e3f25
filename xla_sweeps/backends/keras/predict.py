"""Keras's `predict` of a model with its own setting of `jit_compile`, from NumPy to NumPy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.bench import E, KerasBench
from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.keras.sources.inputs import mixed
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import Execution, Mode, mode_of
from xla_sweeps.schema.trial import ModelSpec


class Calls:
    """`predict` of a model with the function that Keras made for a mode.

    Attributes:
        model: the model itself, not one around it, of which PyTorch captures less.
        made: its `predict_function` in this mode.
    """

    model: Any
    made: Any
    inputs: Sequence[Any]

    def prepare(self) -> None:
        """Give the model the function of this mode."""
        self.model.predict_function = self.made

    def renew(self) -> bool:
        """Replace the inputs by new ones in NumPy."""
        self.inputs = mixed(self.inputs)
        return True


class Predicting(KerasBench[E]):
    """Batches that start in NumPy."""

    @abstractmethod
    def calling(self, mode: Mode, model: Any, run: Callable[[Any], Any]) -> E:
        """An executable of the model's calls, on `host_batches`."""

    def begin(self) -> None:
        """Check that there is a `predict`."""
        check_model(self.built.loaded, self.trial.model)

    def bind(self, mode: str) -> E:
        """The model in a mode; Keras traces and compiles in the first call."""
        asked, size = mode_of(mode), self.trial.batch_size
        model = self.built.loaded.keras_model
        model.compile(jit_compile=asked.execution is not Execution.EAGER)
        model.make_predict_function()
        executable = self.calling(
            asked, model, lambda samples: model.predict(samples, batch_size=size, verbose=0)
        )
        executable.prepare()
        return executable

    def host_batches(self) -> Sequence[Any]:
        """The inputs of each call in NumPy, `batches` of them in each array."""
        batches, size, pack = self.trial.batches, self.trial.batch_size, self.built.loaded.pack

        def joined(*parts: Any) -> np.ndarray:
            return np.concatenate(list(map(keras.ops.convert_to_numpy, parts)))

        arrays = keras.tree.map_structure(joined, *map(pack, self.inputs))
        starts = range(0, (len(self.inputs) - batches + 1) * size, size)
        return [
            keras.tree.map_structure(lambda array, at=at: array[at : at + batches * size], arrays)
            for at in starts
        ]


def check_model(loaded: LoadedModel, spec: ModelSpec) -> None:
    """Refuse a model that is none of Keras's.

    Raises:
        ConfigError: it is not.
    """
    if loaded.keras_model is None:
        raise ConfigError(
            f"scenario=predict: {spec.name} from source={spec.source} is no Keras model, so it "
            "has no predict"
        )


def lowered(model: Any) -> str:
    """Reason why Keras lowered jit_compile=True to False; "" where no layer explains it."""
    named = building.layers_without_xla(building.all_layers(model))
    reason = "Keras lowered jit_compile=True to False: supports_jit is False in "
    return f"{reason}{', '.join(named[:3])}" if named else ""
