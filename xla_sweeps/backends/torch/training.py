"""Training on PyTorch by `loss.backward()` and Keras's optimizer, which run op by op in every mode.

The forward pass, and its gradients with it, are compiled where the mode says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from xla_sweeps.backends.keras import training
from xla_sweeps.backends.torch.bench import TorchBench
from xla_sweeps.backends.torch.declaration import BACKEND
from xla_sweeps.backends.torch.modes import ENGINE, TorchExecutable, compile_call
from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.modes import Execution, Mode
from xla_sweeps.worker import agreement


class Trainer(training.Trainer):
    """Steps that change the variables; the first state is that of the model as it is now."""

    backend = BACKEND
    engine = ENGINE

    def __init__(self, *given: Any, **named: Any) -> None:
        """Keep the state."""
        super().__init__(*given, **named)
        self._variables = [*self.model.variables, *self.optimizer.variables]
        self._first = [variable.value.detach().clone() for variable in self._variables]

    def step(self, batch: Any, forward: Callable[..., Any] | None = None) -> Any:
        """One training step on (images, labels) by a forward pass, or the model's; the loss."""
        images, labels = batch
        self.model.zero_grad()
        loss = self.loss((forward or self.forward)(images, training=True), labels)
        loss.backward()
        gradients = [variable.value.grad for variable in self.trainable]
        pairs = zip(gradients, self.trainable, strict=True)
        with torch.no_grad():
            self.optimizer.apply_gradients([pair for pair in pairs if pair[0] is not None])
        return loss.detach()

    def bind(self, mode: Mode) -> TorchExecutable:
        """Bind a step to a mode; each block starts from the same state."""
        self.start_state()
        is_compiled = mode.execution is Execution.COMPILED
        run = partial(self.step, forward=compile_call(self.forward) if is_compiled else None)
        return TorchExecutable(mode=mode, run=run, inputs=self.batches, restore=self.start_state)

    def start_state(self, rate: float | None = None) -> None:
        """Restore the first state, random numbers too; with a learning rate of its own if given."""
        torch.manual_seed(self.trial.seed)
        with torch.no_grad():
            for variable, value in zip(self._variables, self._first, strict=True):
                variable.value.copy_(value)
        if rate is not None:
            self.optimizer.learning_rate = rate


class TrainBench(training.Training[TorchExecutable], TorchBench):
    """A model that is trained on PyTorch."""

    trainer_class = Trainer

    def comparison(self, executable: TorchExecutable, position: int = 0) -> Callable[[], Agreement]:
        """Run the first steps of a mode; those of compiled dropout cannot be compared."""
        drawing = self.trainer.random_layers
        if drawing and executable.mode.execution is not Execution.EAGER:
            named = f"torch.compile draws other random numbers than eager in {drawing[0][0].name}"
            return partial(agreement.refuse, named)
        return super().comparison(executable, position)
