"""Training on PyTorch by `loss.backward()` and Keras's optimizer, which run op by op in every mode.

The forward pass, and its gradients with it, are compiled where the mode says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np
import torch

from xla_sweeps.backends.keras import building, training
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.torch.bench import TorchBench, widened
from xla_sweeps.backends.torch.declaration import BACKEND
from xla_sweeps.backends.torch.modes import TorchExecutable, compiled
from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.modes import Execution, Mode
from xla_sweeps.schema.trial import Trial
from xla_sweeps.worker.learning import FirstSteps


@dataclass
class TrainExecutable(TorchExecutable):
    """Training steps, which change the variables; they are the state, so None stands for it."""

    start: Callable[[], None] = lambda: None

    def prepare(self) -> None:
        """Give all variables their first values again."""
        self.start()

    def step(self) -> None:
        """Start one step on the next of the rotating batches."""
        self.last, _ = self.run(None, self.inputs[self.position])
        self.position = (self.position + 1) % len(self.inputs)


class Trainer(training.Trainer):
    """Steps that change the variables; the first state is that of the model as it is now."""

    def __init__(self, built: BuiltModel, trial: Trial, inputs: Sequence[Any]) -> None:
        """Keep the state."""
        super().__init__(built, trial, inputs, title=BACKEND.title)
        self._seed = trial.seed
        self._variables = [*self.model.variables, *self.optimizer.variables]
        self._first = [variable.value.detach().clone() for variable in self._variables]

    def step(self, state: None, batch: Any) -> tuple[Any, None]:
        """One training step on (images, labels)."""
        return self._step(self.forward, state, batch)

    def _step(self, forward: Callable[..., Any], state: None, batch: Any) -> tuple[Any, None]:
        images, labels = batch
        self.model.zero_grad()
        loss = self.loss(forward(images, training=True), labels)
        loss.backward()
        gradients = [variable.value.grad for variable in self.trainable]
        pairs = zip(gradients, self.trainable, strict=True)
        with torch.no_grad():
            self.optimizer.apply_gradients([pair for pair in pairs if pair[0] is not None])
        return loss.detach(), state

    def bind(self, mode: Mode) -> TrainExecutable:
        """Bind a step to a mode; each block starts from the same state."""
        self.started()
        run = self.step
        if mode.execution is Execution.COMPILED:
            run = partial(self._step, compiled(self.forward))
        return TrainExecutable(mode=mode, run=run, inputs=self.batches, start=self.started)

    def started(self, rate: float | None = None) -> None:
        """Restore the first state, random numbers too; with a learning rate of its own if given."""
        torch.manual_seed(self._seed)
        with torch.no_grad():
            for variable, value in zip(self._variables, self._first, strict=True):
                variable.value.copy_(value)
        if rate is not None:
            self.optimizer.learning_rate = rate

    def values(self, state: None) -> list[np.ndarray]:
        """Copies of the values that `changed` have now."""
        return [keras.ops.convert_to_numpy(variable).copy() for variable in self.changed]

    def float64_steps(self, trial: Trial, built: BuiltModel) -> FirstSteps:
        """The first step of the same weights in float64 on the CPU."""
        images, labels = self.batches[0]
        self.started()  # the twin takes the weights as they are
        with keras.device("cpu"):
            twin = building.float64_twin(trial.model, built)
            wide = Trainer(twin, trial, [keras.tree.map_structure(widened, images)])
            wide.batches = [(wide.batches[0][0], labels.cpu())]
            return wide.first_steps(wide.step, steps=0)


@dataclass
class TrainBench(training.Training[TorchExecutable], TorchBench):
    """A model that is trained on PyTorch."""

    trainer_class = Trainer

    def comparison(self, executable: TorchExecutable, position: int = 0) -> Callable[[], Agreement]:
        """Run the first steps of a mode; those of compiled dropout cannot be compared."""
        drawing = training.random_layers(self.trainer.model)
        if drawing and executable.mode.execution is not Execution.EAGER:
            reason = f"torch.compile draws other random numbers than eager in {drawing[0][0].name}"
            refused = Agreement(
                rmse_rel=None, top1_match=None, ok=False, reason=reason, refused=True
            )
            return lambda: refused
        return super().comparison(executable, position)
