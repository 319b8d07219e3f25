"""Keras's own training loops: a model for each setting of `jit_compile`, and its proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras

from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.backends.tensorflow.scenarios import keras_jit
from xla_sweeps.backends.tensorflow.training import Trainer, raw
from xla_sweeps.schema.modes import ExecutionMode

_JIT = {"auto": "auto", "graph": False, "xla": True, "eager": False}
"""Keras's `jit_compile` by the last word of a mode."""


@dataclass
class KerasTraining(modes.ModeExecutable):
    """A training loop of Keras, of a model with its own setting of `jit_compile`."""

    model: Any = None
    asked: Any = None

    def placement(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Where the operations of the first call ran, or where what they train is.

        TensorFlow shows no graph of a function that XLA compiles whole.
        """
        weights = (raw(item).device for item in self.model.trainable_variables)
        return keras_jit.placement(self.places or frozenset(weights), device)

    def compilation(self) -> tuple[dict[str, Any], list[str]]:
        """What Keras made of `jit_compile`, or whether it runs eagerly as it was asked to."""
        if self.mode is ExecutionMode.FIT_EAGER:
            problems = [] if self.model.run_eagerly else ["Keras traced a graph"]
            return {"executing_eagerly": self.model.run_eagerly}, problems
        self.function = keras_jit.step_function(self.model.train_function)
        functions = keras_jit.concrete_functions(self.function)
        found, problems = keras_jit.evidence(self.model, functions, self.asked)
        if not found["jit_compile"]:  # what XLA compiles in it, the model brings
            self.concrete = next(iter(functions), None)
        return found, problems


def compiled(trainer: Trainer, mode: ExecutionMode) -> tuple[Any, Any]:
    """A Keras model with the trainer's layers, optimizer and loss, and the `jit_compile` it asks.

    tf_keras has no `jit_compile="auto"`: None leaves the choice to it.
    """
    asked: Any = _JIT[mode.rpartition("_")[2]]
    model = keras_jit.wrapped(trainer.model, lambda batch: trainer.forward(batch, training=True))
    model.compile(
        optimizer=trainer.optimizer,
        loss=trainer.library.losses.SparseCategoricalCrossentropy(
            from_logits=not trainer.probabilities
        ),
        jit_compile=None if asked == "auto" and trainer.library is not keras else asked,
        run_eagerly=mode is ExecutionMode.FIT_EAGER,
    )
    return model, asked
