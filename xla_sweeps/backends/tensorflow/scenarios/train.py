"""Training a model on batches that are on the device: by an own step, or `train_on_batch`."""

from __future__ import annotations

from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.backends.tensorflow.scenarios.keras_training import KerasTraining, compiled
from xla_sweeps.backends.tensorflow.training import Trainer
from xla_sweeps.schema.modes import Entry, ExecutionMode, entry_of


def make_executable(trainer: Trainer, mode: ExecutionMode) -> modes.ModeExecutable:
    """Bind training to a mode; Keras's modes are traced in their first call."""
    if entry_of(mode) is not Entry.TRAIN_ON_BATCH:
        return trainer.own_step(mode)
    model, asked = compiled(trainer, mode)
    return KerasTraining(
        mode=mode,
        run=lambda batch: model.train_on_batch(*batch),
        inputs=trainer.batches,
        restore=trainer.state.restore,
        model=model,
        asked=asked,
    )
