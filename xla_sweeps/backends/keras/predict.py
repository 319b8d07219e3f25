"""Keras's `predict` of a model with its own setting of `jit_compile`, from NumPy to NumPy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import keras
import numpy as np

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.bench import KerasBench
from xla_sweeps.backends.keras.compared import E
from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import Execution, Mode
from xla_sweeps.schema.trial import ModelSpec
from xla_sweeps.system.text import count_noun


@dataclass
class Calls:
    """`predict` of a model with the function that Keras made for a mode."""

    model: Any = None
    """The model itself, not one around it, of which PyTorch captures less."""
    made: Any = None
    jit_compile: bool = False
    """The setting that Keras made of it; the model has that of the mode that was made last."""

    takes_numpy = True

    def prepare(self) -> None:
        """Give the model the function of this mode."""
        self.model.predict_function = self.made


class Predicting(KerasBench[E]):
    """Batches that start in NumPy."""

    @staticmethod
    def step(loaded: LoadedModel, spec: ModelSpec) -> Callable[[Any], Any]:
        """A forward pass of a Keras model; `ConfigError` if it is none."""
        if loaded.keras_model is None:
            raise ConfigError(
                f"scenario=predict: {spec.name} from source={spec.source} is no Keras model, so it "
                "has no predict"
            )
        return loaded.forward

    @cached_property
    def samples(self) -> Any:
        """All inputs in NumPy, one array for each of the model's."""

        def join(*parts: Any) -> np.ndarray:
            return np.concatenate(list(map(keras.ops.convert_to_numpy, parts)))

        return keras.tree.map_structure(join, *self.inputs)

    def host_batches(self, *, batches: int) -> list[Any]:
        """The inputs in NumPy, `batches` of them in each array; they share their memory."""
        size = self.trial.batch_size
        starts = range(0, (len(self.inputs) - batches + 1) * size, size)
        return [
            keras.tree.map_structure(
                lambda array, at=at: array[at : at + batches * size], self.samples
            )
            for at in starts
        ]


class PredictingOnly(Predicting[E]):
    """Every mode is `predict` of the model itself, by the engine's executables that are `Calls`."""

    executable_class: ClassVar[type[Any]]

    def make(self, mode: Mode) -> E:
        """The model in a mode; Keras traces and compiles in the first call."""
        model, size = self.built.loaded.keras_model, self.trial.batch_size
        model.compile(jit_compile=mode.execution is not Execution.EAGER)
        model.make_predict_function()
        executable: E = self.executable_class(
            mode=mode,
            run=lambda samples: model.predict(samples, batch_size=size, verbose=0),
            inputs=list(map(self.built.loaded.pack, self.host_batches(batches=self.trial.batches))),
            model=model,
            made=self.unshare(model.predict_function),
            jit_compile=bool(model.jit_compile),
        )
        executable.prepare()
        return executable

    def unshare(self, made: Any) -> Any:
        """The function that Keras made, or a new one where modes would share what is compiled."""
        return made


def why_lowered(model: Any, otherwise: str = "") -> str:
    """Reason why Keras lowered jit_compile=True to False, by its layers if they explain it."""
    named = building.layers_without_xla(building.all_layers(model))
    more = f" and {count_noun(len(named) - 3, 'more layer')}" if len(named) > 3 else ""
    layers = f"supports_jit is False in {', '.join(named[:3])}{more}" if named else otherwise
    return f"Keras lowered jit_compile=True to False{': ' if layers else ''}{layers}"


def compiled_step(made: Any, attribute: str) -> Any:
    """The function of one step in what Keras made, such as `train_function`; None without one.

    It has an attribute that only functions have which the engine compiles. Reads the closures of
    Keras 3's, tried on 3.15.1; tf_keras's is such a function itself.
    """
    if hasattr(made, attribute):
        return made
    if not inspect.isfunction(made):
        return None
    names = inspect.getclosurevars(made).nonlocals
    inside = [getattr(made, "__wrapped__", None), *map(names.get, _STEPS)]
    return next(filter(None, (compiled_step(each, attribute) for each in inside)), None)


_STEPS = ("_step_function", "step_function", "one_step_on_data")
