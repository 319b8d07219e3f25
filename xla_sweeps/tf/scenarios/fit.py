"""Training through `model.fit` with its input pipeline, and the parts of it alone.

One timed call is an epoch of `batches` batches: of `fit`, of the step alone on batches that are on
the device, or of the pipeline alone, whose batches are made and thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from xla_sweeps.schema.modes import Entry, ExecutionMode, entry_of
from xla_sweeps.tf import modes
from xla_sweeps.tf.scenarios.keras_training import KerasTraining, compiled
from xla_sweeps.tf.training import Trainer


@dataclass
class Epochs(modes.ModeExecutable):
    """The own step on each of some batches in turn."""

    times: int = 1

    def step(self) -> None:
        """Start an epoch."""
        for batch in self.inputs[: self.times]:
            self.last = self.run(batch)


@dataclass
class Input(modes.ModeExecutable):
    """The input pipeline alone."""

    dataset: Any = None

    def step(self) -> None:
        """Make the batches of an epoch."""
        for batch in self.dataset:
            self.last = batch

    def placement(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Where batches are made: in the host's memory."""
        return {"device": sorted({item.device for item in tf.nest.flatten(self.last)})}, []


@dataclass
class Fit(KerasTraining):
    """`model.fit`; `run` fits one batch, and a step the whole dataset."""

    dataset: Any = None

    def step(self) -> None:
        """Fit an epoch."""
        self.last = fitted(self.model, self.dataset)


def make_executable(trainer: Trainer, mode: ExecutionMode, *, batches: int) -> modes.ModeExecutable:
    """Bind an epoch to a mode; Keras's modes are traced in their first call.

    Args:
        trainer: what is trained; has at least so many batches.
        mode: a mode of `scenario=fit`.
        batches: of one epoch.
    """
    entry = entry_of(mode)
    if entry is Entry.FIT:
        model, asked = compiled(trainer, mode)
        return Fit(
            mode=mode,
            run=lambda batch: fitted(model, tf.data.Dataset.from_tensors(batch)),
            inputs=trainer.batches,
            restore=trainer.state.restore,
            model=model,
            asked=asked,
            dataset=dataset_of(trainer, batches),
        )
    if entry is Entry.INPUT:
        dataset = dataset_of(trainer, batches)
        return Input(mode=mode, run=next, inputs=trainer.batches, dataset=dataset)
    step = trainer.own_step(mode)
    return Epochs(
        mode=mode,
        run=step.run,
        inputs=trainer.batches,
        function=step.function,
        concrete=step.concrete,
        trace_s=step.trace_s,
        restore=step.restore,
        times=batches,
    )


def dataset_of(trainer: Trainer, batches: int) -> tf.data.Dataset:
    """The input pipeline: so many batches of (images, labels), here from the host's memory."""
    with tf.device("/device:CPU:0"):
        stacked = tf.nest.map_structure(lambda *parts: tf.stack(parts), *trainer.batches[:batches])
        return tf.data.Dataset.from_tensor_slices(stacked).prefetch(tf.data.AUTOTUNE)


def fitted(model: Any, dataset: tf.data.Dataset) -> Any:
    """The loss of an epoch: the mean of those of its steps, as Keras reports it."""
    return model.fit(dataset, epochs=1, shuffle=False, verbose=0).history["loss"]
