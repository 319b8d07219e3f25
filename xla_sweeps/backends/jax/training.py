"""Training on JAX: one step without side effects, op by op or compiled whole by `jax.jit`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from xla_sweeps.backends.jax.bench import JaxBench, widened
from xla_sweeps.backends.jax.modes import JaxExecutable
from xla_sweeps.backends.keras import building, training
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.measure import learning
from xla_sweeps.measure.learning import FirstSteps
from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.modes import Execution, Mode, mode_of
from xla_sweeps.schema.trial import Precision, Trial
from xla_sweeps.worker.backend import Tell

State = tuple[list[Any], list[Any], list[Any]]
"""Values of the trainable variables, of the model's others, and of the optimizer's."""

Run = Callable[[State, Any], tuple[Any, State]]
"""One step on a batch; returns its loss and the state after it."""


@dataclass
class TrainExecutable(JaxExecutable):
    """Training steps, each from the state that the one before has returned."""

    first: State = ([], [], [])
    now: State = ([], [], [])

    def prepare(self) -> None:
        """Start from the first state: steps return new arrays, and donate none."""
        self.now = self.first

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


class Trainer:
    """The training that all modes of a trial share: one model with one optimizer and one loss."""

    def __init__(self, built: BuiltModel, trial: Trial, inputs: Sequence[Any]) -> None:
        """Choose loss, labels and optimizer, and keep the state.

        Raises:
            ConfigError: the model has nothing to train, or no loss fits its outputs.
        """
        self.model = training.trained_model(built, trial)
        if trial.precision is Precision.MIXED_FLOAT16:
            raise ConfigError(
                "precision=mixed_float16: its loss scaling is not supported on JAX; use "
                "precision=mixed_bfloat16 or float32"
            )
        self.forward, self.precision = built.loaded.forward, trial.precision
        head = training.head_of(self.forward(inputs[0]), trial)
        self.probabilities = training.adds_up_to_one(head)
        self.trainable = list(self.model.trainable_variables)
        self.others = list(self.model.non_trainable_variables)
        self.optimizer = training.optimizer_of(keras, trial)
        self.optimizer.build(self.trainable)
        self.first: State = (
            [each.value for each in self.trainable],
            [each.value for each in self.others],
            [each.value for each in self.optimizer.variables],
        )
        rng = np.random.default_rng(trial.seed)
        drawn = [rng.integers(0, head.shape[-1], tuple(head.shape[:-1])) for _ in inputs]
        labels = [jnp.asarray(each, dtype=np.int32) for each in drawn]
        self.batches = list(zip(inputs, labels, strict=True))
        self._reference: FirstSteps | None = None

    def loss(self, images: Any, labels: Any) -> Any:
        """The mean cross-entropy of a batch, and the model's own losses."""
        outputs = keras.tree.flatten(self.forward(images, training=True))[0]
        wide = outputs if outputs.dtype == np.float64 else outputs.astype(np.float32)
        each = keras.losses.sparse_categorical_crossentropy(
            labels, wide, from_logits=not self.probabilities
        )
        return sum((own.astype(each.dtype) for own in self.model.losses), jnp.mean(each))

    def step(self, state: State, batch: Any) -> tuple[Any, State]:
        """One training step on (images, labels)."""
        before, others_before, optimizer_before = state

        def loss(trainable: list[Any]) -> tuple[Any, list[Any]]:
            variables = [*self.trainable, *self.others]
            mapping = zip(variables, [*trainable, *others_before], strict=True)
            with keras.StatelessScope(list(mapping), collect_losses=True) as scope:
                value = self.loss(*batch)
            return value, [scope.get_current_value(each) for each in self.others]

        (value, others), gradients = jax.value_and_grad(loss, has_aux=True)(before)
        after, optimizer = self.optimizer.stateless_apply(optimizer_before, gradients, before)
        return value, (list(after), others, list(optimizer))

    def bind(self, mode: Mode) -> TrainExecutable:
        """Bind `step` to a mode; each block starts from the same state."""
        batches, first = self.batches, self.first
        if mode.execution is Execution.EAGER:
            return TrainExecutable(mode=mode, run=self.step, inputs=batches, first=first, now=first)
        return TrainExecutable.jitted(self.step, mode, batches, (first,), first=first, now=first)

    def run_eagerly(self) -> bool:
        """Run the first steps eagerly, then what shows how exact they are.

        Returns:
            Whether they are the same with equal inputs.
        """
        self._eager = self.first_steps(self.step)
        again = self.first_steps(self.step, steps=0)
        few = self.batches[: learning.STEPS]
        nudged = self.first_steps(self.step, _nudged(few, self.precision))
        self._spread = learning.spread_of(self._eager, [nudged])
        return learning.deterministic(self._eager, again, self._spread, precision=self.precision)

    def first_steps(
        self, run: Run, batches: Sequence[Any] = (), *, steps: int = learning.STEPS
    ) -> FirstSteps:
        """Run the first step with a learning rate that shows the gradients, then `steps` more.

        All modes draw the same random numbers, which are a function of the state.
        """
        batches = batches or self.batches
        trainable, others, optimizer = self.first
        rate = self.optimizer.learning_rate
        rated = [
            jnp.full_like(value, training.CHECKING_RATE) if variable is rate else value
            for variable, value in zip(self.optimizer.variables, optimizer, strict=True)
        ]
        loss, state = run((trainable, others, rated), batches[0])
        updates = tuple(
            np.asarray(new) - np.asarray(old) for _, new, old in self._changed(state, self.first)
        )
        now, curve = self.first, []
        for position in range(steps):
            value, now = run(now, batches[position % len(batches)])
            curve.append(training.loss_in(value))
        return FirstSteps(loss=training.loss_in(loss), updates=updates, curve=tuple(curve))

    def _changed(self, *states: State) -> list[tuple[Any, ...]]:
        """Each floating variable of the model, with its value in each state."""
        variables = [*self.trainable, *self.others]
        values = [[*trainable, *others] for trainable, others, _ in states]
        rows = zip(variables, *values, strict=True)
        return [row for row in rows if jnp.issubdtype(row[1].dtype, np.floating)]

    def compare(self, steps: FirstSteps) -> Agreement:
        """Compare a mode's first steps with eager's, or with float64."""
        return learning.compare_steps(
            steps,
            self._eager,
            self._spread,
            self._reference,
            names=[row[0].path for row in self._changed(self.first)],
            precision=self.precision,
        )

    def add_reference(self, trial: Trial, built: BuiltModel) -> None:
        """Run the first step in float64 on the CPU, from the same weights.

        Raises:
            XlaSweepsError: the model's dtypes are fixed, or it draws random numbers.
        """
        if training.random_layers(self.model):
            raise XlaSweepsError("the model has dropout or the like, which differs in float64")
        alone = replace(trial, precision=Precision.FLOAT32)
        images, labels = self.batches[0]
        with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
            twin = building.float64_twin(trial.model, built)
            wide = Trainer(twin, alone, [jax.tree.map(widened, images)])
            wide.batches = [(wide.batches[0][0], labels)]
            self._reference = wide.first_steps(jax.jit(wide.step), steps=0)


@dataclass
class TrainBench(JaxBench):
    """A model that is trained."""

    trainer: Trainer = field(init=False)

    compared_inputs = 1
    """The first steps take one batch after the other."""

    def begin(self) -> None:
        """Make the trainer, whose state is that of the weights as they are now."""
        self.trainer = Trainer(self.built, self.trial, self.inputs)

    def bind(self, mode: str) -> TrainExecutable:
        """Training in a mode."""
        return self.trainer.bind(mode_of(mode))

    def call_eagerly(self, tell: Tell) -> None:
        """Run the first steps eagerly."""
        del tell
        self.deterministic = self.trainer.run_eagerly()

    def compute_reference(self) -> None:
        """Run the first step in float64."""
        self.trainer.add_reference(self.trial, self.built)

    def comparison(self, executable: JaxExecutable, position: int = 0) -> Callable[[], Agreement]:
        """Run the first steps of a mode; returns what compares them with eager's."""
        if not self.deterministic:  # what follows would be compared with random numbers
            return training.undetermined
        return partial(self.trainer.compare, self.trainer.first_steps(executable.run))

    def note_build(self, executable: JaxExecutable, tell: Tell) -> None:
        """Nothing: multiply-accumulates are those of a forward pass, counted at the end."""

    def runs_away(self, executable: JaxExecutable, calls: int) -> str:
        """Reason why calls in a row are no training: a loss that is not finite; else ""."""
        return training.runs_away(executable, calls, self.trial)


def _nudged(batches: Sequence[Any], precision: Precision) -> list[Any]:
    """The batches, each input changed by about as much as rounding changes it."""
    rng = np.random.default_rng(0)

    def moved(array: Any) -> Any:
        if not jnp.issubdtype(array.dtype, np.floating):
            return array
        signs = rng.choice((-1.0, 1.0), array.shape) * learning.NUDGE[precision]
        return array * (1 + signs).astype(array.dtype)

    return [(jax.tree.map(moved, images), labels) for images, labels in batches]
