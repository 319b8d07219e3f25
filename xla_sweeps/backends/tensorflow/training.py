"""Train a model: one step that every mode runs, and the state that every block starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from xla_sweeps.backends.keras import training
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.objective import Objective
from xla_sweeps.backends.keras.training import loss_in, raw
from xla_sweeps.backends.tensorflow import devices, models, modes
from xla_sweeps.backends.tensorflow.declaration import BACKEND
from xla_sweeps.backends.tensorflow.pictures import Feed
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.trial import Trial
from xla_sweeps.worker import learning
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
    engine = modes.ENGINE

    def __init__(
        self,
        built: BuiltModel,
        trial: Trial,
        inputs: Sequence[Any],
        labels: Sequence[Any] = (),
        *,
        feed: Feed | None = None,
        objective: Objective | None = None,
    ) -> None:
        """Keep the state; `feed` are the pictures that it trains on.

        Raises:
            ConfigError: no label fits the outputs; or what the base raises.
        """
        super().__init__(built, trial, inputs, labels, objective=objective)
        self.feed = feed
        if feed:
            _check_head(self.objective.classes_shape, feed, trial)
        self.state = State([*self.model.variables, *_variables(self.optimizer)])
        self._settle_loss_scale()
        self._random_losses: list[float] = []  # of eager execution, with dropout

    def kept_on_device(self) -> list[Any]:
        """Values that it keeps on the device besides the model's variables and the inputs."""
        labels = [each for _, drawn in self.batches for each in tf.nest.flatten(drawn)]
        return [*_variables(self.optimizer), *self.state.saved, *labels]

    def values(self, state: None) -> list[np.ndarray]:
        """Copies of the values that `changed` have now."""
        return [np.array(raw(variable).numpy()) for variable in self.changed]

    def place_labels(self, labels: Any, outputs: Any) -> Any:
        """Labels where the outputs of their samples are."""
        device = tf.nest.flatten(outputs)[0].device
        return tf.nest.map_structure(
            lambda each: models.place_tensor(tf.constant(each), device), labels
        )

    def forward_loss(self, batch: Any) -> Any:
        """The loss of (images, labels), as training computes it."""
        images, labels = batch
        return self.loss(self.forward(images, training=True), labels)

    def step(self, batch: Any) -> Any:
        """One training step on (images, labels); returns the loss."""
        images, labels = batch
        with tf.GradientTape() as tape:
            loss = self.loss(self.forward(images, training=True), labels)
            scaled = self.optimizer.scale_loss(loss) if self.library is keras else loss
        gradients = tape.gradient(scaled, self.trainable)
        self.optimizer.apply_gradients(
            [pair for pair in zip(gradients, self.trainable, strict=True) if pair[0] is not None]
        )
        return loss

    def bind(self, mode: Mode) -> modes.ModeExecutable:
        """Bind `step` to a mode; each block starts from the same state."""
        self.state.restore()
        return modes.ModeExecutable.bind(self.step, mode, self.batches, restore=self.state.restore)

    def start_state(self, rate: float | None = None) -> None:
        """Restore the first state, with a learning rate of its own where one is given."""
        self.state.restore()
        if rate is not None:
            self.optimizer.learning_rate = rate

    def random_reason(self, executable: modes.ModeExecutable, steps: FirstSteps) -> str:
        """Reason why a mode does not draw random numbers as eager does; "" where it does.

        The losses of its first step, dropout on, are compared with those of eager's forward pass:
        of a few draws at first, of twice as many as long as they are unlike.
        """
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
        self.state = State([*self.model.variables, *_variables(self.optimizer)])


def _check_head(shape: tuple[int, ...], feed: Feed, trial: Trial) -> None:
    if len(shape) != 2:
        raise ConfigError(
            f"data: pictures have one class each, which does not fit the outputs of "
            f"{trial.model.name}: expected (batch, classes), found {shape}"
        )
    feed.check_labels(shape[-1])


def _variables(optimizer: Any) -> list[Any]:
    """All its variables; tf_keras does not count the learning rate among them."""
    return [*optimizer.variables, optimizer.learning_rate]
