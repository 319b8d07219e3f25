"""Training of a Keras model, whatever the engine: optimizer, loss and what can be trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import keras
import numpy as np

from xla_sweeps.backends.keras import building, own_training
from xla_sweeps.backends.keras.bench import KerasBench
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.compared import E
from xla_sweeps.backends.keras.executable import Engine
from xla_sweeps.backends.keras.objective import Objective, objective_of
from xla_sweeps.backends.keras.sources.inputs import is_floating, nudge_batch, widen
from xla_sweeps.backends.keras.weights import name_of
from xla_sweeps.config.own_inputs import find_held_variables
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.backend import Backend
from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.trial import COMPILED, Precision, Trial
from xla_sweeps.worker import agreement, learning
from xla_sweeps.worker.backend import Tell
from xla_sweeps.worker.learning import FirstSteps

MOMENTUM = 0.9
"""Momentum of `optimizer=sgd`."""

CHECKING_RATE = 1024.0
"""Learning rate of the checked update: it shows the gradient to nearly its own precision."""

_RANDOM = ("rate", "drop_path_rate", "drop_prob", "dropout", "recurrent_dropout", "stddev")
"""Attributes of layers that draw random numbers while training, unless they are 0."""


Run = Callable[..., Any]
"""One step on a batch, as a mode runs it; returns its loss, and without side effects the state."""


class Trainer(ABC):
    """The training that all modes of a trial share: one model with one optimizer and one loss.

    Attributes:
        objective: the model's own loss, or that of classes.
        is_own: whether a step is the model's own `train_step`, or Keras's with its own
            `compute_loss`; it has no objective.
        draws: whether that draws random numbers, which XLA's need not equal.
        random_layers: layers that draw random numbers while training, as `random_layers` finds.
        steps: the first steps of each mode that was compared, where that `binds_again`.
    """

    backend: ClassVar[Backend]
    engine: ClassVar[Engine]

    takes_own_steps = False
    """True if a model's own `train_step` can be a step."""

    draws = False

    silences = False
    """True if modes are compared with random layers off; else random numbers are equal."""

    def __init__(
        self,
        built: BuiltModel,
        trial: Trial,
        inputs: Sequence[Any],
        labels: Sequence[Any] = (),
        *,
        objective: Objective | None = None,
    ) -> None:
        """Choose labels and optimizer, and an objective unless one is given.

        Raises:
            ConfigError: the model has nothing to train, or no loss fits its outputs.
        """
        self.trial = trial
        self.model = trained_model(built, trial, takes_own_steps=self.takes_own_steps)
        if reason := self.backend.lacks.get(trial.precision):
            raise ConfigError(
                f"precision={trial.precision}: {reason} on {self.backend.title}; use "
                "precision=mixed_bfloat16 or float32"
            )
        self.forward, self.precision = built.loaded.forward, built.precision
        self.library = building.keras_library_of(self.model)
        self.is_own = own_training.has_own_step(self.model, trial)
        if self.is_own:
            self.batches = self._own_batches(built, trial, inputs, labels)
        else:
            outputs = self.forward(inputs[0])
            self.objective = objective or objective_of(self.model, outputs, trial, self.library)
        self.random_layers = random_layers(self.model)
        self.trainable = list(self.model.trainable_variables)
        self.others = list(self.model.non_trainable_variables)
        held = find_held_variables(self.model) if self.is_own else []
        self.changed = list(filter(is_floating, [*self.trainable, *self.others, *held]))
        if not self.is_own:
            self.optimizer = optimizer_of(self.library, trial, self.model)
            self.optimizer.build(self.trainable)
            rng = np.random.default_rng(trial.seed)
            drawn = (self.objective.draw(rng) for _ in inputs)
            labels = labels or [self.place_labels(each, outputs) for each in drawn]
            self.batches = list(zip(inputs, labels, strict=True))
        self._reference: FirstSteps | None = None
        self.steps: dict[Mode, FirstSteps] = {}

    def _own_batches(
        self, built: BuiltModel, trial: Trial, inputs: Sequence[Any], labels: Sequence[Any]
    ) -> Sequence[Any]:
        """Batches as the model's `train_step` takes them; it has an optimizer then.

        Keras's takes the one that the trial names; another may have several, which stay.
        """
        assert trial.training is not None
        names_one = trial.training.optimizer != COMPILED
        if not own_training.optimizers_of(self.model):
            self.model.compile(optimizer=optimizer_of(self.library, trial, self.model))
        elif names_one and own_training.has_usual_step(self.model):
            self.model.optimizer = optimizer_of(self.library, trial, self.model)
        self.optimizer = own_training.optimizers_of(self.model)[0]
        batches = own_training.batches_for(built.loaded, trial, inputs, labels, run=self.try_step)
        if not getattr(self.optimizer, "built", True):  # as `fit` does
            self.optimizer.build(self.model.trainable_variables)
        return batches

    def try_step(self, batch: Any) -> None:
        """Run the model's `train_step` eagerly, and forget what it changes."""
        raise NotImplementedError

    @abstractmethod
    def bind(self, mode: Mode) -> Any:
        """Bind a step to a mode; each block starts from the same state."""

    @abstractmethod
    def step(self, *args: Any, **more: Any) -> Any:
        """One training step on (images, labels), op by op; see `Run`."""

    @abstractmethod
    def start_state(self, rate: float | None = None) -> Any:
        """The first state, with a learning rate of its own where one is given."""

    def advance(self, run: Run, state: Any, batch: Any) -> tuple[Any, Any]:
        """Run a step, which changes the variables unless an engine overrides this; loss, state."""
        return run(batch), state

    def values(self, state: Any) -> list[np.ndarray]:
        """Copies of the values that `changed` have in a state."""
        return [np.array(keras.ops.convert_to_numpy(raw(each))) for each in self.changed]

    def silent(self) -> AbstractContextManager[None]:
        """Context in which random layers draw nothing, where the engine `silences` them."""
        return nullcontext()

    def reseed(self) -> None:  # noqa: B027
        """Let random layers draw other numbers, where the engine `silences` them."""

    def place_labels(self, labels: Any, outputs: Any) -> Any:
        """Labels where the outputs of their samples are."""
        return keras.tree.map_structure(keras.ops.convert_to_tensor, labels)

    def loss(self, outputs: Any, labels: Any) -> Any:
        """The loss of a forward pass, and those that the model's layers add."""
        loss = self.objective.value(outputs, labels)
        return sum((keras.ops.cast(more, loss.dtype) for more in self.model.losses), loss)

    def run_eagerly(self) -> bool:
        """Run the first steps eagerly, then what shows how exact they are.

        True if they are the same with equal inputs; where random layers are off, with other random
        numbers of the model too. Otherwise nothing can be verified.
        """
        rng, few = np.random.default_rng(0), self.batches[: learning.STEPS]
        with self.silent():
            self._eager = self._first_steps(self.step)
            again = self._first_steps(self.step, steps=0, reseeded=True)
            moved = [
                self._first_steps(self.step, nudge_batches(few, self.precision, rng), steps=steps)
                for steps in (learning.STEPS, 0)
            ]
        self._spread = learning.spread_of(self._eager, moved)
        return learning.deterministic(self._eager, again, self._spread, precision=self.precision)

    @property
    def binds_again(self) -> bool:
        """Whether the compared steps are another program's, without random layers."""
        return bool(self.silences and self.random_layers)

    def first_steps(self, executable: Any, bind_again: Callable[[], Any]) -> FirstSteps:
        """Run a mode's first steps."""
        with self.silent():
            bound = bind_again() if self.binds_again else executable
            bound.prepare()
            steps = self._first_steps(bound.run)
            bound.prepare()
        return steps

    def _first_steps(
        self,
        run: Run,
        batches: Sequence[Any] = (),
        *,
        steps: int = learning.STEPS,
        reseeded: bool = False,
    ) -> FirstSteps:
        """Run the first step with a learning rate that shows the gradients, then `steps` more.

        An optimizer that gathers gradients takes as many steps for its first update.
        """
        batches = batches or self.batches
        state = self.start_state(CHECKING_RATE)
        before = self.values(state)
        if reseeded:
            self.reseed()
        for position in range(own_training.count_gathered_steps(self.optimizer)):
            loss, state = self.advance(run, state, batches[position % len(batches)])
        updates = [new - old for new, old in zip(self.values(state), before, strict=True)]
        state, curve = self.start_state(), []
        for position in range(steps):
            value, state = self.advance(run, state, batches[position % len(batches)])
            curve.append(loss_in(value))
        self.start_state()
        return FirstSteps(loss=loss_in(loss), updates=tuple(updates), curve=tuple(curve))

    def compare(self, steps: FirstSteps) -> Agreement:
        """Compare a mode's first steps with eager's, or with float64."""
        return learning.compare_steps(
            steps,
            self._eager,
            self._spread,
            self._reference,
            names=[name_of(variable) for variable in self.changed],
            precision=self.precision,
        )

    def add_reference(self, trial: Trial, built: BuiltModel) -> None:
        """Run the first step of the same weights in float64 on the CPU.

        Raises:
            XlaSweepsError: the model's dtypes are fixed, or it draws random numbers.
        """
        if self.is_own:
            raise XlaSweepsError("the model's own train_step or compute_loss sets its own types")
        if self.random_layers and not self.silences:
            raise XlaSweepsError("the model has dropout or the like, which differs in float64")
        images, labels = self.batches[0]
        alone = replace(trial, precision=Precision.FLOAT32)
        self.start_state()  # the twin takes the weights as they are
        with self.engine.in_float64():
            twin = building.float64_twin(trial.model, built)
            given = [keras.tree.map_structure(widen, each) for each in (images, labels)]
            wide = type(self)(twin, alone, given[:1], labels=given[1:], objective=self.objective)
            with wide.silent():
                self._reference = self.engine.compute_whole(
                    lambda whole: wide._first_steps(whole(wide.step), steps=0),
                    partial(learning.is_plausible, eager=self._eager, spread=self._spread),
                )


class Training(KerasBench[E]):
    """A model that is trained: every mode trains what its trainer has."""

    trainer_class: ClassVar[type[Trainer]]
    trainer: Trainer

    is_forward = False
    compared_inputs = 1
    """The first steps take one batch after the other."""

    def begin(self) -> None:
        """Make the trainer, whose state is that of the weights as they are now."""
        self.trainer = self.trainer_class(self.built, self.trial, self.inputs)

    def make(self, mode: Mode) -> E:
        """Training in a mode."""
        executable: E = self.trainer.bind(mode)
        return executable

    def call_eagerly(self, tell: Tell) -> None:
        """Run the first steps eagerly."""
        self.deterministic = self.trainer.run_eagerly()

    def compute_references(self) -> None:
        """Run the first step in float64; the trainer keeps it."""
        self.trainer.add_reference(self.trial, self.built)

    def add_moves(self, tell: Tell) -> bool:
        """Compute nothing: the trainer knows how far rounding moves its steps."""
        return False

    def comparison(self, executable: E, position: int = 0) -> Callable[[], Agreement]:
        """Run the first steps of a mode; returns what compares them with eager's."""
        if not self.deterministic:  # what follows would be compared with random numbers
            differ = "two eager runs of the first step on equal inputs differ"
            return partial(agreement.refuse, differ)
        steps = self.trainer.first_steps(executable, partial(self.make, executable.mode))
        if self.trainer.binds_again:
            self.trainer.steps[executable.mode] = steps
        return self.comparing(executable, steps)

    def comparison_of_last(self, executable: E, position: int) -> Callable[[], Agreement]:
        """Run the first steps again, unless by another program: a loss tells little of a step."""
        steps = self.trainer.steps.get(executable.mode)
        return self.comparing(executable, steps) if steps else self.comparison(executable)

    def comparing(self, executable: E, steps: FirstSteps) -> Callable[[], Agreement]:
        """Comparison of a mode's first steps with eager's, or with float64."""
        return partial(self.trainer.compare, steps)

    def count_macs(self, tell: Tell, executable: E | None = None) -> None:
        """Count multiply-accumulates of the model: a step has more than a forward pass."""
        if executable is None:
            super().count_macs(tell)

    def unread_names(self, executable: Any) -> list[str]:
        """Names of the weights that a forward pass never reads, so that they have no gradient."""
        return self.unread_eagerly

    def runs_away(self, executable: E, calls: int) -> str:
        """Reason why calls in a row are no training: a loss that is not finite; else ""."""
        executable.prepare()
        for _ in range(calls):
            executable.step()
        if np.isfinite(loss_in(executable.last)):
            return ""
        assert self.trial.training
        rate = self.trial.training.learning_rate
        own = self.trial.training.optimizer == COMPILED
        asked = "the model's learning rate" if own else f"learning_rate={rate:g}"
        return f"the loss is not finite after {calls} calls in a row with {asked}; use a lower one"


def nudge_batches(
    batches: Sequence[Any], precision: Precision, rng: np.random.Generator
) -> list[Any]:
    """The batches, each input changed by about as much as rounding changes it; no label is."""
    nudge = partial(nudge_batch, precision=precision, rng=rng)
    return [
        (nudge(batch[0]), *batch[1:]) if isinstance(batch, tuple) else nudge(batch)
        for batch in batches
    ]


def trained_model(built: BuiltModel, trial: Trial, *, takes_own_steps: bool) -> Any:
    """The Keras model that is trained.

    Raises:
        ConfigError: it has nothing to train, or a `train_step` or `compute_loss` of its own that
            the engine does not take.
    """
    model = built.loaded.keras_model
    is_own = model is not None and own_training.has_own_step(model, trial)
    if is_own and not takes_own_steps:
        raise ConfigError(
            f"scenario={trial.scenario}: {type(model).__name__} has a train_step or compute_loss "
            "of its own, which is measured on TensorFlow and JAX only"
        )
    if model is None or not (is_own or model.trainable_variables):
        lacks = "is no Keras model" if model is None else "has no trainable weights"
        raise ConfigError(
            f"scenario={trial.scenario}: {trial.model.name} from source={trial.model.source} "
            f"{lacks}; use a Keras model: another source, or scenario=call"
        )
    return model


def optimizer_of(library: Any, trial: Trial, model: Any = None) -> Any:
    """The optimizer, which scales the loss where float16 needs it; `library` is Keras.

    Of a model of the user's own it may be the one that it is compiled with.
    """
    assert trial.training is not None
    name, compiled = trial.training.optimizer, None
    if name == COMPILED:
        name, compiled = "sgd", own_training.compiled_optimizer(model)
    more = {"momentum": MOMENTUM} if name == "sgd" else {}
    rate = trial.training.learning_rate
    classes = {word.lower(): word for word in dir(library.optimizers)}
    optimizer = compiled or getattr(library.optimizers, classes[name])(learning_rate=rate, **more)
    is_scaled = type(optimizer).__name__ == "LossScaleOptimizer"
    if trial.precision is not Precision.MIXED_FLOAT16 or is_scaled:
        return optimizer
    if library is not keras:
        raise ConfigError(
            f"precision=mixed_float16: {trial.model.name} is a model of tf_keras, whose loss "
            "scaling is not supported; use precision=mixed_bfloat16 or float32"
        )
    return keras.optimizers.LossScaleOptimizer(optimizer)


def random_layers(model: Any) -> list[tuple[Any, str]]:
    """Layers that draw random numbers while training, with the attribute that says how much."""
    return [
        (layer, name)
        for layer in building.all_layers(model)
        for name in _RANDOM
        if isinstance(rate := getattr(layer, name, None), float) and rate > 0
    ]


def raw(variable: Any) -> Any:
    """The engine's own variable of one of Keras."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def loss_in(returned: Any) -> float:
    """The loss in what a step returns: a scalar, or Keras's list of it."""
    return float(np.ravel(keras.ops.convert_to_numpy(returned))[0])
