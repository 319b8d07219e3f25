"""Training through `model.fit` with its input pipeline, and the parts of it alone.

One timed call is an epoch of `batches` batches: of `fit`, of the step alone on batches that are on
the device, or of the pipeline alone, whose batches are made and thrown away. The last batch of
pictures may be smaller; XLA compiles for its size too.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from xla_sweeps.backends.keras.own_training import loss_in
from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.backends.tensorflow.pictures import Feed
from xla_sweeps.backends.tensorflow.scenarios.keras_jit import KerasExecutable
from xla_sweeps.backends.tensorflow.scenarios.train import TrainBench, compile_model
from xla_sweeps.backends.tensorflow.training import Trainer
from xla_sweeps.schema.modes import Entry, Mode

_AGAIN = 3
"""Later steps on the last batch, whose median is not compilation."""


@dataclass
class Epoch(modes.ModeExecutable):
    """The own step on each of some batches in turn, of which the last may be smaller."""

    last_batch: Any = None
    """None if it is not."""
    run_last: Callable[[Any], Any] | None = None
    """A step on it; `run` if it is None."""
    last_batch_s: float = 0.0
    """The first step on it, with a synchronization."""
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
            self.step_on_last()

    def first_call_s(self) -> float:
        """Seconds of the first epoch; its step on the last batch is timed too."""
        with self.observe_first_call():
            seconds = self.timed_s(self.run_full)
            if self.last_batch is not None:
                self.last_batch_s = self.timed_s(self.step_on_last)
                seconds += self.last_batch_s
        return seconds

    def step_on_last(self) -> None:
        """Start the step on the last batch."""
        self.last = (self.run_last or self.run)(self.last_batch)

    def extras(self) -> dict[str, Any]:
        """Time that the first step on the last batch took beyond later ones, in seconds."""
        if self.last_batch is None:
            return {}
        self.prepare()
        again = statistics.median(self.timed_s(self.step_on_last) for _ in range(_AGAIN))
        return {"last_batch_compile_s": max(0.0, self.last_batch_s - again)}


@dataclass
class Fed(modes.ModeExecutable):
    """Read a dataset, whose pictures may be damaged."""

    feed: Feed | None = None

    def naming(self) -> contextlib.AbstractContextManager[None]:
        """Name a picture that cannot be decoded."""
        return self.feed.naming() if self.feed else contextlib.nullcontext()


@dataclass
class Input(Fed):
    """The input pipeline alone."""

    dataset: Any = None

    def step(self) -> None:
        """Make the batches of an epoch."""
        with self.naming():
            for batch in self.dataset:
                self.last = batch

    def renew(self) -> bool:
        """Return False: no model runs."""
        return False

    def proof(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Evidence that batches are made in the host's memory; no model runs."""
        return {"device": sorted({tensor.device for tensor in tf.nest.flatten(self.last)})}, []


@dataclass
class Fit(Fed, KerasExecutable, Epoch):
    """`model.fit`; `run` fits one batch."""

    fit_full: Any = None
    """Fits the batches of full size; `fit_all` the whole epoch."""
    fit_all: Any = None

    def run_full(self) -> None:
        """Fit the batches of full size."""
        with self.naming():
            self.last = self.fit_full()

    def step(self) -> None:
        """Fit an epoch."""
        with self.naming():
            self.last = self.fit_all()


class FitBench(TrainBench):
    """Epochs; without pictures the trainer has at least as many batches as one of them."""

    def make(self, mode: Mode) -> modes.ModeExecutable:
        """Bind an epoch to a mode; Keras's modes are traced in their first call."""
        trainer, batches = self.trainer, self.trial.batches
        if mode.entry is Entry.INPUT:
            dataset = dataset_of(trainer, batches)
            return Input(
                mode=mode, run=next, inputs=trainer.batches, dataset=dataset, feed=trainer.feed
            )
        last = _last_batch(trainer)
        times = batches - (last is not None)
        if mode.entry.fits:
            return self._fit(mode, last, times)
        steps: Epoch = trainer.bind(mode, Epoch, times=times, last_batch=last)
        if last is not None:
            smaller = modes.ModeExecutable.bind(trainer.step, mode, [last])
            steps.run_last = smaller.run
            steps.trace_s = (steps.trace_s or 0.0) + (smaller.trace_s or 0.0)
        return steps

    def _fit(self, mode: Mode, last: Any, times: int) -> Fit:
        trainer = self.trainer
        steps = self.trial.steps_per_execution
        model = compile_model(trainer, mode, steps_per_execution=steps)
        bind = partial(
            Fit,
            mode=mode,
            inputs=trainer.batches,
            restore=trainer.state.restore,
            model=model,
            made="train_function",
            times=times,
        )
        if mode.entry is Entry.FIT_NUMPY:  # Keras shuffles, as in most tutorials
            fit_arrays = partial(fit, model, batch_size=self.trial.batch_size)
            fit_all = partial(fit_arrays, *_in_numpy(trainer.batches[:times]))
            return bind(
                run=lambda batch: fit_arrays(*_in_numpy([batch])), fit_full=fit_all, fit_all=fit_all
            )
        fit_dataset = partial(fit, model, shuffle=False)
        dataset = dataset_of(trainer, self.trial.batches)
        return bind(
            run=lambda batch: fit_dataset(_alone(trainer, batch)),
            fit_full=lambda: fit_dataset(dataset.take(times)),
            fit_all=lambda: fit_dataset(dataset),
            feed=trainer.feed,
            last_batch=last,
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


def fit(model: Any, *samples: Any, **more: Any) -> Any:
    """The loss of an epoch: the mean of those of its steps, as Keras reports it."""
    return loss_in(model.fit(*samples, verbose=0, **more).history)


def _in_numpy(batches: Sequence[Any]) -> tuple[Any, ...]:
    """(images, labels) of all these batches, each one array; of inputs alone only these."""
    arrays = tf.nest.map_structure(
        lambda *parts: np.concatenate([np.asarray(part) for part in parts]), *batches
    )
    return arrays if isinstance(arrays, tuple) else (arrays,)


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
