"""Train a model: one step that every mode runs, and the state that every block starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.training import (
    CHECKING_RATE,
    adds_up_to_one,
    head_of,
    loss_in,
    nudged,
    optimizer_of,
    random_layers,
    trained_model,
)
from xla_sweeps.backends.tensorflow import devices, models, modes
from xla_sweeps.backends.tensorflow.pictures import Feed
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.trial import Precision, Trial
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
        self._assign = tf.function(self._assigned, autograph=False, jit_compile=False)

    def _assigned(self) -> None:
        for variable, saved in zip(self._variables, self.saved, strict=True):
            variable.assign(saved)

    def restore(self) -> None:
        """Give all variables their values again, and wait for the device."""
        self._assign()
        devices.synchronize()


class Trainer:
    """The training that all modes of a trial share: one model with one optimizer and one loss."""

    def __init__(
        self,
        built: BuiltModel,
        trial: Trial,
        inputs: Sequence[Any],
        *,
        feed: Feed | None = None,
        labels: Sequence[Any] = (),
    ) -> None:
        """Choose loss, labels and optimizer, and keep the state.

        Args:
            built: the model; its weights are those that every block starts from.
            trial: what is measured.
            inputs: batches of the model's inputs, on the device.
            feed: the pictures that it trains on; without it values that are drawn.
            labels: of the inputs, on the device; drawn without a feed.

        Raises:
            ConfigError: the model has nothing to train, or no loss or label fits its outputs.
        """
        model = trained_model(built, trial)
        self.model = model
        self.library = building.keras_library_of(model)
        self.forward = built.loaded.forward
        self.precision = trial.precision
        head = head_of(built.loaded.forward(inputs[0]), trial)
        self.probabilities = adds_up_to_one(head)
        self.trainable = list(model.trainable_variables)
        self.optimizer = optimizer_of(self.library, trial)
        self.optimizer.build(self.trainable)
        self.random_layers = random_layers(model)
        statistics = [
            variable
            for variable in model.non_trainable_variables
            if tf.as_dtype(variable.dtype).is_floating
        ]
        self._changed = [*self.trainable, *statistics]
        self.state = State([*model.variables, *_variables(self.optimizer)])
        rng = np.random.default_rng(trial.seed)
        self.feed = feed
        if feed:
            _check_head(head, feed, trial)
        drawn = labels or [_labels(head, rng) for _ in inputs]
        self.batches = list(zip(inputs, drawn, strict=True))
        self._settle_loss_scale()
        self._reference: FirstSteps | None = None
        self._random_losses: list[float] = []  # of eager execution, with dropout

    def kept(self) -> list[Any]:
        """Values that it keeps on the device besides the model's variables and the inputs."""
        labels = [drawn for _, drawn in self.batches]
        return [*_variables(self.optimizer), *self.state.saved, *labels]

    def loss(self, images: Any, labels: Any) -> Any:
        """The mean cross-entropy of a batch, and the model's own losses."""
        outputs = tf.nest.flatten(self.forward(images, training=True))[0]
        wide = outputs if outputs.dtype == tf.float64 else tf.cast(outputs, tf.float32)
        each = self.library.losses.sparse_categorical_crossentropy(
            labels, wide, from_logits=not self.probabilities
        )
        return tf.add_n(
            [tf.reduce_mean(each), *(tf.cast(x, each.dtype) for x in self.model.losses)]
        )

    def step(self, batch: Any) -> Any:
        """One training step on (images, labels); returns the loss."""
        with tf.GradientTape() as tape:
            loss = self.loss(*batch)
            scaled = self.optimizer.scale_loss(loss) if self.library is keras else loss
        gradients = tape.gradient(scaled, self.trainable)
        self.optimizer.apply_gradients(
            [pair for pair in zip(gradients, self.trainable, strict=True) if pair[0] is not None]
        )
        return loss

    def own_step(self, mode: Mode) -> modes.ModeExecutable:
        """Bind `step` to a mode; each block starts from the same state."""
        self.state.restore()
        return modes.ModeExecutable.bind(self.step, mode, self.batches, restore=self.state.restore)

    def run_eagerly(self) -> bool:
        """Run the first steps eagerly, then what shows how exact they are.

        Returns:
            Whether they are the same with equal inputs and other random numbers. Otherwise these
            are a part of what shows how exact the steps are, and nothing can be verified.
        """
        eager = self.own_step(Mode.EAGER)
        with self.without_random_layers():
            self._eager = self._first_steps(eager)
            again = self._first_steps(eager, steps=0, reseed=True)
            rng = np.random.default_rng(0)
            few = self.batches[: learning.STEPS]
            moved = [
                self._first_steps(eager, nudged(few, self.precision, rng), steps=steps)
                for steps in (learning.STEPS, 0)
            ]
            self._spread = learning.spread_of(self._eager, moved)
        return learning.deterministic(self._eager, again, self._spread, precision=self.precision)

    def first_steps(
        self, executable: modes.ModeExecutable, bind_again: Callable[[], modes.ModeExecutable]
    ) -> FirstSteps:
        """Run a mode's first steps, with dropout off.

        Args:
            executable: the mode.
            bind_again: binds the same mode to the model as it is then; called where the model has
                dropout.
        """
        if not self.random_layers:
            return self._first_steps(executable)
        with self.without_random_layers():
            return self._first_steps(bind_again())

    def compare(self, steps: FirstSteps) -> Agreement:
        """Compare a mode's first steps with eager's, or with float64."""
        return learning.compare_steps(
            steps,
            self._eager,
            self._spread,
            self._reference,
            names=[str(getattr(each, "path", each.name)) for each in self._changed],
            precision=self.precision,
        )

    def random_reason(self, executable: modes.ModeExecutable, steps: FirstSteps) -> str:
        """Reason why a mode does not draw random numbers as eager does; "" where it does.

        The losses of its first step, dropout on, are compared with those of eager's forward pass:
        of a few draws at first, of twice as many as long as they are unlike.

        Args:
            executable: the mode.
            steps: its first steps, dropout off.
        """
        rounding = learning.rounding_of(steps, self._eager, self._spread)
        losses: list[float] = []
        draws = learning.DRAWS
        while True:
            self._draw(losses, draws, executable.run, executable.prepare)
            self._draw(
                self._random_losses, draws, lambda batch: self.loss(*batch), self.state.restore
            )
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
            self._reseed(by=number)
            losses.append(loss_in(run(self.batches[0])))
        restore()

    def add_reference(self, trial: Trial, built: BuiltModel) -> None:
        """Run the first step in float64 on the CPU, from the same weights.

        Raises:
            XlaSweepsError: the model's dtypes are fixed.
        """
        self.state.restore()
        images, labels = self.batches[0]
        alone = replace(trial, precision=Precision.FLOAT32)
        with tf.device("/device:CPU:0"):
            twin = building.float64_twin(trial.model, built)
            wide = Trainer(twin, alone, [tf.nest.map_structure(models.widened, images)])
            wide.batches = [(wide.batches[0][0], labels)]
            with wide.without_random_layers():
                graph = wide.own_step(Mode.GRAPH)
                self._reference = wide._first_steps(graph, steps=0)

    @contextmanager
    def without_random_layers(self) -> Iterator[None]:
        """Set the rates of dropout and the like to 0 for what is traced or run meanwhile."""
        rates = [(layer, name, getattr(layer, name)) for layer, name in self.random_layers]
        try:
            for layer, name, _ in rates:
                setattr(layer, name, 0.0)
            yield
        finally:
            for layer, name, rate in rates:
                setattr(layer, name, rate)

    def _first_steps(
        self,
        executable: modes.ModeExecutable,
        batches: Sequence[Any] | None = None,
        *,
        steps: int = learning.STEPS,
        reseed: bool = False,
    ) -> FirstSteps:
        batches = self.batches if batches is None else batches
        executable.prepare()
        before = [values_of(variable) for variable in self._changed]
        if reseed:
            self._reseed()
        self.optimizer.learning_rate = CHECKING_RATE
        loss = loss_in(executable.run(batches[0]))
        updates = tuple(
            values_of(variable) - old for variable, old in zip(self._changed, before, strict=True)
        )
        executable.prepare()  # the learning rate too
        curve = tuple(loss_in(executable.run(batches[k % len(batches)])) for k in range(steps))
        executable.prepare()
        return FirstSteps(loss=loss, updates=updates, curve=curve)

    def _reseed(self, by: int = 1) -> None:
        for variable in self.model.variables:
            if "seed_generator" in getattr(variable, "path", ""):
                variable.assign(values_of(variable) + by)

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


def values_of(variable: Any) -> np.ndarray:
    """A copy of a variable's values."""
    return np.array(raw(variable).numpy())


def raw(variable: Any) -> Any:
    """The `tf.Variable` of a variable of Keras."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def _check_head(head: Any, feed: Feed, trial: Trial) -> None:
    if len(head.shape) != 2:
        raise ConfigError(
            f"data: pictures have one class each, which does not fit the outputs of "
            f"{trial.model.name}: expected (batch, classes), found {tuple(head.shape)}"
        )
    feed.check_labels(int(head.shape[-1]))


def _labels(head: Any, rng: np.random.Generator) -> Any:
    drawn = rng.integers(0, head.shape[-1], tuple(head.shape[:-1]))
    return models.placed(tf.constant(drawn, tf.int32), head.device)


def _variables(optimizer: Any) -> list[Any]:
    """All its variables; tf_keras does not count the learning rate among them."""
    return [*optimizer.variables, optimizer.learning_rate]
