"""Train a model: one step that every mode runs, and the state that every block starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from xla_sweeps.backends.keras import own_training, training
from xla_sweeps.backends.keras.training import loss_in, raw
from xla_sweeps.backends.tensorflow import devices, modes
from xla_sweeps.backends.tensorflow.declaration import BACKEND
from xla_sweeps.backends.tensorflow.pictures import Feed
from xla_sweeps.config.own_inputs import find_held_variables
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.modes import Mode
from xla_sweeps.worker import learning
from xla_sweeps.worker.agreement import TOLERANCE
from xla_sweeps.worker.learning import FirstSteps

HALVINGS = 24
"""Maximum number of halvings of the loss scale until gradients are finite."""


class State:
    """Variables, and the values that `restore` gives them again."""

    def __init__(self, variables: Sequence[Any]) -> None:
        """Keep the values that the variables have now."""
        self._variables = [raw(variable) for variable in variables]
        self.saved = [tf.identity(variable) for variable in self._variables]
        self._assign = tf.function(self._restore_all, autograph=False, jit_compile=False)

    def _restore_all(self) -> None:
        for variable, saved in zip(self._variables, self.saved, strict=True):
            variable.assign(saved)

    def restore(self) -> None:
        """Give all variables their values again, and wait for the device."""
        self._assign()
        devices.synchronize()


class Trainer(training.Trainer):
    """Steps that change the variables, with one loss for every mode, dropout off while compared."""

    backend = BACKEND
    silences = True
    takes_own_steps = True
    engine = modes.ENGINE

    def __init__(self, *given: Any, feed: Feed | None = None, **named: Any) -> None:
        """Keep the state; `feed` are the pictures that it trains on.

        Raises:
            ConfigError: no label fits the outputs, or a strategy holds the weights; or what the
                base raises.
        """
        super().__init__(*given, **named)
        if any(isinstance(raw(one), tf.distribute.DistributedValues) for one in self.trainable):
            raise ConfigError(
                f"scenario={self.trial.scenario}: {self.trial.model.name} is built in the scope of "
                "a tf.distribute strategy, and training is measured on one device; build it "
                "without"
            )
        self.feed = feed
        if feed and not self.is_own:
            shape = self.objective.classes_shape
            if len(shape) != 2:
                raise ConfigError(
                    "data: pictures have one class each, which does not fit the outputs of "
                    f"{self.trial.model.name}: expected (batch, classes), found {shape}"
                )
            feed.check_labels(shape[-1])
        self.state = State(self._changing())
        self._settle_loss_scale()
        self._random_losses: list[float] = []  # of eager execution, with dropout

    def _changing(self) -> list[Any]:
        if self.is_own:
            return own_training.state_of(self.model)
        return [*self.model.variables, *_variables(self.optimizer)]

    def try_step(self, batch: Any) -> None:
        """Run the model's `train_step` eagerly; weights that it does not make stay as they were."""
        state = State([*self.model.variables, *find_held_variables(self.model)])
        try:
            self.model.train_step(batch)
        finally:
            state.restore()

    def compiled_with(self) -> dict[str, Any]:
        """Arguments of Keras's `compile`: as the user's own model was given them, where it was."""
        is_one = not tf.nest.is_nested(self.objective.structure)
        metrics = own_training.metrics_of(self.model, self.trial) if is_one else []
        return {
            "optimizer": self.optimizer,
            "metrics": metrics or None,
            **self.objective.compiled_with(),
        }

    def kept_on_device(self) -> list[Any]:
        """Values that it keeps on the device besides the model's variables and the inputs."""
        labels = [] if self.is_own else [drawn for _, drawn in self.batches]
        return [*_variables(self.optimizer), *self.state.saved, *tf.nest.flatten(labels)]

    def values(self, state: None) -> list[np.ndarray]:
        """Copies of the values that `changed` have now."""
        return [np.array(raw(variable).numpy()) for variable in self.changed]

    def place_labels(self, labels: Any, outputs: Any) -> Any:
        """Labels where the outputs of their samples are."""
        device = tf.nest.flatten(outputs)[0].device
        return tf.nest.map_structure(
            lambda each: devices.place_tensor(tf.constant(each), device), labels
        )

    def forward_loss(self, batch: Any) -> Any:
        """The loss of (images, labels), as training computes it."""
        if self.is_own:
            return self.step(batch)
        images, labels = batch
        return self.loss(self.forward(images, training=True), labels)

    def step(self, batch: Any) -> Any:
        """One training step on (images, labels), or the model's own; returns the loss."""
        if self.is_own:
            return own_training.loss_in(self.model.train_step(batch))
        with tf.GradientTape() as tape:
            loss = self.forward_loss(batch)
            scaled = self.optimizer.scale_loss(loss) if self.library is keras else loss
        gradients = tape.gradient(scaled, self.trainable)
        self.optimizer.apply_gradients(
            [pair for pair in zip(gradients, self.trainable, strict=True) if pair[0] is not None]
        )
        return loss

    def bind(
        self, mode: Mode, kind: type[modes.ModeExecutable] = modes.ModeExecutable, **more: Any
    ) -> Any:
        """Bind `step` to a mode as such a kind; each block starts from the same state."""
        self.state.restore()
        return kind.bind(self.step, mode, self.batches, restore=self.state.restore, **more)

    def start_state(self, rate: float | None = None) -> None:
        """Restore the first state, with a learning rate of its own where one is given."""
        self.state.restore()
        if rate is not None and not self.is_own:
            self.optimizer.learning_rate = rate

    def run_eagerly(self) -> bool:
        """Run the first steps eagerly; an own step may draw random numbers, which vary."""
        is_steady = super().run_eagerly()
        if self.is_own:
            self._draw(self._random_losses, learning.DRAWS, self.step, self.state.restore)
            self.draws = own_training.varies(self._random_losses)
        return is_steady or self.draws

    def compare(self, steps: FirstSteps) -> Agreement:
        """Compare a mode's first steps with eager's, or where they are drawn, their sizes."""
        if not self.draws:
            return super().compare(steps)
        reason = own_training.unlike(steps, self._eager)
        return Agreement(rmse_rel=None, top1_match=None, ok=not reason, reason=reason)

    def random_reason(self, executable: modes.ModeExecutable, steps: FirstSteps) -> str:
        """Reason why a mode does not draw random numbers as eager does; "" where it does.

        The losses of its first step, dropout on, are compared with those of eager's forward pass:
        of a few draws at first, of twice as many as long as they are unlike.
        """
        if self.draws:  # what the first losses differ by is no rounding
            rounding = TOLERANCE[self.precision] * max(map(abs, self._random_losses))
        else:
            rounding = learning.rounding_of(steps, self._eager, self._spread)
        losses: list[float] = []
        draws = learning.DRAWS
        while True:
            self._draw(losses, draws, executable.run, executable.prepare)
            self._draw(self._random_losses, draws, self.forward_loss, self.state.restore)
            eager = self._random_losses[:draws]
            reason = learning.random_reason(losses, eager, rounding=rounding)
            if not reason or draws >= learning.MOST_DRAWS:
                return reason
            draws *= 2

    def _draw(
        self,
        losses: list[float],
        count: int,
        run: Callable[[Any], Any],
        restore: Callable[[], None],
    ) -> None:
        """Add losses of the first batch, each with other random numbers, up to `count` of them."""
        for number in range(len(losses), count):
            restore()
            self.reseed(by=number)
            losses.append(loss_in(run(self.batches[0])))
        restore()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Set the rates of dropout and the like to 0 for what is traced or run meanwhile."""
        rates = [(layer, name, getattr(layer, name)) for layer, name in self.random_layers]
        try:
            for layer, name, _ in rates:
                setattr(layer, name, 0.0)
            yield
        finally:
            for layer, name, rate in rates:
                setattr(layer, name, rate)

    def reseed(self, by: int = 1) -> None:
        """Let layers draw other random numbers."""
        for variable in self.model.variables:
            if "seed_generator" in getattr(variable, "path", ""):
                variable.assign(raw(variable).numpy() + by)

    def _settle_loss_scale(self) -> None:
        """Let the loss scale fall until gradients are finite, as the first steps of training do."""
        scale = getattr(self.optimizer, "dynamic_scale", None)
        if scale is None:
            return
        for _ in range(HALVINGS):
            self.step(self.batches[0])
            if int(self.optimizer.iterations):
                break
        settled = float(scale)
        self.state.restore()
        scale.assign(settled)
        self.state = State(self._changing())


def _variables(optimizer: Any) -> list[Any]:
    """All its variables; tf_keras does not count the learning rate among them."""
    return [*optimizer.variables, optimizer.learning_rate]
