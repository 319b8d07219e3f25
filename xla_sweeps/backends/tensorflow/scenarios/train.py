"""Training a model on batches that are on the device: by an own step, or `train_on_batch`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import keras
import numpy as np

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.training import Training
from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.backends.tensorflow.modes import ModeExecutable
from xla_sweeps.backends.tensorflow.pictures import Feed
from xla_sweeps.backends.tensorflow.scenarios import keras_jit
from xla_sweeps.backends.tensorflow.training import Trainer
from xla_sweeps.schema.measurement import INPUTS, Agreement, Flag, Flagged
from xla_sweeps.schema.modes import Entry, Execution, Mode
from xla_sweeps.trial import protocol
from xla_sweeps.worker.backend import Tell
from xla_sweeps.worker.learning import FirstSteps


@dataclass
class TrainBench(Training[ModeExecutable], Bench):
    """A model that is trained.

    Attributes:
        feed: the pictures that it trains on; None for values that are drawn.
        labels: of the inputs; drawn by the trainer without pictures.
    """

    trainer: Trainer = field(init=False)
    feed: Feed | None = None
    labels: Sequence[Any] = ()

    def draw_batches(self, rng: np.random.Generator) -> list[Any]:
        """Batches of pictures with their labels, or of values that are drawn."""
        if self.trial.training and self.trial.training.data:
            self.feed = Feed(self.trial, self.built.inputs)
            return self.feed.first(INPUTS)
        return super().draw_batches(rng)

    def place(self, batches: Sequence[Any]) -> None:
        """Place the batches on the device, their labels as `labels`."""
        super().place(batches)
        if self.feed:
            self.inputs, self.labels = map(list, zip(*self.inputs, strict=True))

    def begin(self) -> None:
        """Make the trainer, whose state is that of the weights as they are now."""
        self.trainer = Trainer(
            self.built, self.trial, self.inputs, feed=self.feed, labels=self.labels
        )

    def make(self, mode: Mode) -> ModeExecutable:
        """Bind training to a mode; Keras's modes are traced in their first call."""
        if mode.entry is not Entry.TRAIN_ON_BATCH:
            return super().make(mode)
        model = compile_model(self.trainer, mode)
        return keras_jit.KerasExecutable(
            mode=mode,
            run=lambda batch: model.train_on_batch(
                *(batch if isinstance(batch, tuple) else [batch])
            ),
            inputs=self.trainer.batches,
            restore=self.trainer.state.restore,
            model=model,
            made="train_function",
        )

    def call_eagerly(self, tell: Tell) -> None:
        """Run the first steps eagerly."""
        super().call_eagerly(tell)
        if self.trainer.random_layers or self.trainer.draws:
            tell(protocol.Caveat(Flagged(Flag.RANDOM_LAYERS)))

    def comparison(self, executable: ModeExecutable, position: int = 0) -> Callable[[], Agreement]:
        """Run the first steps of a mode; returns what compares them with eager's."""
        if executable.mode.execution is Execution.NONE:  # it computes nothing that could be wrong
            return partial(Agreement, rmse_rel=None, top1_match=None, ok=True)
        return super().comparison(executable, position)

    def comparing(self, executable: ModeExecutable, steps: FirstSteps) -> Callable[[], Agreement]:
        """Comparison of a mode's first steps, and of the random numbers that it draws."""
        random_reason = cache(partial(self.trainer.random_reason, executable, steps))
        is_random = self.trainer.random_layers or self.trainer.draws

        def compare() -> Agreement:
            agreement = self.trainer.compare(steps)
            if not agreement.ok or not is_random or executable.mode is Mode.EAGER:
                return agreement
            reason = random_reason()
            return replace(agreement, ok=not reason, reason=reason)

        return compare

    def kept_on_device(self) -> list[Any]:
        """Also the optimizer's variables, the labels, and the state that each block starts from."""
        return [*super().kept_on_device(), *self.trainer.kept_on_device()]

    def runs_away(self, executable: ModeExecutable, calls: int) -> str:
        """Reason why calls in a row are no training: a loss that is not finite; else ""."""
        if executable.mode.execution is Execution.NONE:
            return ""
        return super().runs_away(executable, calls)


def compile_model(trainer: Trainer, mode: Mode, *, steps_per_execution: int = 1) -> Any:
    """A Keras model with the trainer's layers, optimizer and loss, compiled as a mode asks.

    tf_keras has no `jit_compile="auto"`: None leaves the choice to it.
    """
    asked = keras_jit.JIT_COMPILE[mode.execution]
    model = building.wrap_model(
        trainer.model,
        lambda batch: trainer.forward(batch, training=True),
        train_step=trainer.model.train_step if trainer.is_own else None,
    )
    compiled = {} if trainer.is_own else trainer.compiled_with()
    model.compile(
        **compiled,
        jit_compile=None if asked == "auto" and trainer.library is not keras else asked,
        run_eagerly=mode.execution is Execution.EAGER,
        steps_per_execution=steps_per_execution,
    )
    return model
