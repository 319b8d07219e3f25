"""Training on JAX: one step without side effects, op by op or compiled whole by `jax.jit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from xla_sweeps.backends.jax.bench import JaxBench
from xla_sweeps.backends.jax.declaration import BACKEND
from xla_sweeps.backends.jax.modes import ENGINE, JaxExecutable
from xla_sweeps.backends.keras import own_training, training
from xla_sweeps.backends.keras.sources.inputs import is_floating
from xla_sweeps.backends.keras.training import Run
from xla_sweeps.schema.modes import Execution, Mode

State = tuple[list[Any], ...]
"""Values of the trainable variables, of the model's others, of the optimizer's.

And of metrics, where the step is the model's own.
"""


@dataclass
class TrainExecutable(JaxExecutable):
    """Training steps, each from the state that the one before has returned."""

    now: State = ()

    def __post_init__(self) -> None:
        self.prepare()

    def prepare(self) -> None:
        """Start from the first state: steps return new arrays, and donate none."""
        (self.now,) = self.state

    def step(self) -> None:
        """Start one step on the next of the rotating batches."""
        self.last, self.now = self.run(self.now, self.inputs[self.position])
        self.position = (self.position + 1) % len(self.inputs)

    def synchronize(self) -> None:
        """Wait for the last step, and so for those before it."""
        jax.block_until_ready((self.last, self.now))

    def _compile(self) -> None:
        super()._compile()
        self.run = self.compiled


class Trainer(training.Trainer):
    """Steps without side effects; the first state is that of the model as it is now."""

    backend = BACKEND
    engine = ENGINE
    takes_own_steps = True

    def __init__(self, *given: Any, **named: Any) -> None:
        """Keep the state."""
        super().__init__(*given, **named)
        self.first = self._state()

    def _state(self) -> State:
        model = self.model
        parts = [model.trainable_variables, model.non_trainable_variables, self.optimizer.variables]
        parts += [model.metrics_variables] if self.is_own else []
        return tuple([each.value for each in part] for part in parts)

    def try_step(self, batch: Any) -> None:
        """Run the model's `train_step` eagerly; it changes nothing."""
        self.optimizer.build(self.model.trainable_variables)
        self.model.train_step(self._state(), batch)

    def advance(self, run: Run, state: State, batch: Any) -> tuple[Any, State]:
        """Run a step; its loss, and the state after it."""
        loss, after = run(state, batch)
        return loss, after

    def step(self, state: State, batch: Any) -> tuple[Any, State]:
        """One training step on (images, labels), or the model's own; the loss, the state after."""
        if self.is_own:
            logs, after = self.model.train_step(state, batch)
            return own_training.loss_in(logs), tuple(map(list, after))
        images, labels = batch
        before, others_before, optimizer_before = state

        def loss(trainable: list[Any]) -> tuple[Any, list[Any]]:
            variables = [*self.trainable, *self.others]
            mapping = zip(variables, [*trainable, *others_before], strict=True)
            with keras.StatelessScope(list(mapping), collect_losses=True) as scope:
                value = self.loss(self.forward(images, training=True), labels)
            return value, [scope.get_current_value(each) for each in self.others]

        (value, others), gradients = jax.value_and_grad(loss, has_aux=True)(before)
        after, optimizer = self.optimizer.stateless_apply(optimizer_before, gradients, before)
        return value, (list(after), others, list(optimizer))

    def bind(self, mode: Mode) -> TrainExecutable:
        """Bind `step` to a mode; each block starts from the same state."""
        batches, state = self.batches, (self.first,)
        if mode.execution is Execution.EAGER:
            return TrainExecutable(mode=mode, run=self.step, inputs=batches, state=state)
        return TrainExecutable.jit(self.step, mode, batches, state)

    def start_state(self, rate: float | None = None) -> State:
        """The first state, with a learning rate of its own where one is given."""
        if rate is None or self.is_own:
            return self.first
        trainable, others, optimizer = self.first
        asked = self.optimizer.learning_rate
        pairs = zip(self.optimizer.variables, optimizer, strict=True)
        rated = [jnp.full_like(value, rate) if each is asked else value for each, value in pairs]
        return trainable, others, rated

    def values(self, state: State) -> list[np.ndarray]:
        """The values that `changed` have in a state."""
        pairs = zip([*self.trainable, *self.others], [*state[0], *state[1]], strict=True)
        return [np.asarray(value) for variable, value in pairs if is_floating(variable)]


class TrainBench(training.Training[JaxExecutable], JaxBench):
    """A model that is trained on JAX."""

    trainer_class = Trainer
