"""Training through `model.fit` with its input pipeline, and the parts of it alone.

One timed call is an epoch of `batches` batches: of `fit`, of the step alone on batches that are on
the device, or of the pipeline alone, whose batches are made and thrown away. The last batch of
pictures may be smaller; XLA compiles for its size too.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.backends.tensorflow.scenarios.keras_training import KerasTraining, compiled
from xla_sweeps.backends.tensorflow.training import Trainer
from xla_sweeps.schema.modes import Entry, ExecutionMode, entry_of

_AGAIN = 3
"""Later steps on the last batch, whose median is not compilation."""


@dataclass
class Epoch(modes.ModeExecutable):
    """An epoch of a mode that computes, whose last batch may be smaller than the others."""

    last_batch: Any = None
    """None if it is not."""
    run_last: Callable[[Any], Any] | None = None
    """A step on it; `run` if it is None."""
    last_batch_s: float = 0.0
    """The first step on it, with a synchronization."""

    def run_full(self) -> None:
        """Start an epoch without its last batch if that is smaller."""
        raise NotImplementedError

    def first(self) -> None:
        """Run an epoch for the first time; the last batch is timed."""
        self.run_full()
        if self.last_batch is not None:
            self.synchronize()
            self.last_batch_s = self._on_last_batch_s()

    def last_batch_compile_s(self) -> float | None:
        """How much longer the first step on the last batch took than later ones, seconds."""
        if self.last_batch is None:
            return None
        self.prepare()
        again = statistics.median(self._on_last_batch_s() for _ in range(_AGAIN))
        return max(0.0, self.last_batch_s - again)

    def _on_last_batch_s(self) -> float:
        started = time.perf_counter()
        self.last = (self.run_last or self.run)(self.last_batch)
        self.synchronize()
        return time.perf_counter() - started


@dataclass
class Steps(Epoch):
    """The own step on each of some batches in turn."""

    times: int = 1
    """Batches of full size in an epoch."""

    def run_full(self) -> None:
        """Start the steps on batches of full size."""
        for index in range(self.times):
            self.last = self.run(self.inputs[index % len(self.inputs)])

    def step(self) -> None:
        """Start an epoch."""
        self.run_full()
        if self.last_batch is not None:
            self.last = (self.run_last or self.run)(self.last_batch)


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

    def compilation(self) -> tuple[dict[str, Any], list[str]]:
        """Nothing: no model runs."""
        return {}, []


@dataclass
class Fit(KerasTraining, Epoch):
    """`model.fit`; `run` fits one batch, and a step the whole dataset."""

    dataset: Any = None
    times: int = 1
    """Batches of full size in an epoch."""

    def run_full(self) -> None:
        """Fit the batches of full size."""
        self.last = fitted(self.model, self.dataset.take(self.times))

    def step(self) -> None:
        """Fit an epoch."""
        self.last = fitted(self.model, self.dataset)


def make_executable(trainer: Trainer, mode: ExecutionMode, *, batches: int) -> modes.ModeExecutable:
    """Bind an epoch to a mode; Keras's modes are traced in their first call.

    Args:
        trainer: what is trained; without a feed it has at least so many batches.
        mode: a mode of `scenario=fit`.
        batches: of one epoch.
    """
    entry = entry_of(mode)
    last = _last_batch(trainer)
    times = batches - (last is not None)
    if entry is Entry.FIT:
        model, asked = compiled(trainer, mode)
        return Fit(
            mode=mode,
            run=lambda batch: fitted(model, _alone(trainer, batch)),
            inputs=trainer.batches,
            restore=trainer.state.restore,
            model=model,
            asked=asked,
            dataset=dataset_of(trainer, batches),
            last_batch=last,
            times=times,
        )
    if entry is Entry.INPUT:
        dataset = dataset_of(trainer, batches)
        return Input(mode=mode, run=next, inputs=trainer.batches, dataset=dataset)
    step = trainer.own_step(mode)
    smaller = None if last is None else modes.make_executable(trainer.step, mode, [last])
    return Steps(
        mode=mode,
        run=step.run,
        inputs=trainer.batches,
        function=step.function,
        concrete=step.concrete,
        trace_s=(step.trace_s or 0.0) + (smaller.trace_s or 0.0) if smaller else step.trace_s,
        restore=step.restore,
        times=times,
        last_batch=last,
        run_last=smaller.run if smaller else None,
    )


def dataset_of(trainer: Trainer, batches: int) -> tf.data.Dataset:
    """The input pipeline of an epoch: (images, labels) of each batch.

    Pictures are read, decoded and cropped; drawn values come from the host's memory.
    """
    if trainer.feed:
        return trainer.feed.epoch()
    with tf.device("/device:CPU:0"):
        stacked = tf.nest.map_structure(lambda *parts: tf.stack(parts), *trainer.batches[:batches])
        return tf.data.Dataset.from_tensor_slices(stacked).prefetch(tf.data.AUTOTUNE)


def fitted(model: Any, dataset: tf.data.Dataset) -> Any:
    """The loss of an epoch: the mean of those of its steps, as Keras reports it."""
    return model.fit(dataset, epochs=1, shuffle=False, verbose=0).history["loss"]


def _alone(trainer: Trainer, batch: Any) -> tf.data.Dataset:
    """A dataset of one batch, of the shapes that an epoch's has.

    Where the last batch may be smaller, the batch size is unknown in the graph that Keras traces.
    """
    if trainer.feed is None or trainer.feed.fixed_size:
        return tf.data.Dataset.from_tensors(batch)
    return tf.data.Dataset.from_tensor_slices(batch).batch(len(batch[1]))


def _last_batch(trainer: Trainer) -> Any:
    """A batch of as many pictures as the last one of an epoch; None if that is of full size."""
    if trainer.feed is None or not trainer.feed.last:
        return None
    return tf.nest.map_structure(lambda tensor: tensor[: trainer.feed.last], trainer.batches[0])
