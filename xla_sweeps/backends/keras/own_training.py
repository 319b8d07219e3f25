"""Training as a user's own model brings it: its optimizer, and its `train_step` or `compute_loss`.

A `train_step` takes what `fit` gives it: inputs and targets, or inputs alone, as those of
autoencoders and GANs do. Which of both is tried. With a `compute_loss` of its own the step is
Keras's `train_step`.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import keras
import numpy as np

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.objective import objective_of
from xla_sweeps.backends.keras.sources import OWN, LoadedModel
from xla_sweeps.config.own_inputs import find_held_variables, takes_by_name
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.trial import Trial
from xla_sweeps.trial.failures import error_line, root_cause
from xla_sweeps.worker.learning import FirstSteps

VARYING = 1e-6
"""Share of the largest loss by which losses differ that are not the same but for rounding."""

APART = 2.0
"""First steps that draw random numbers change the weights by sizes that differ by no more."""


def has_own_step(model: Any, trial: Trial) -> bool:
    """True for a model of the user's own whose `train_step`, or its `compute_loss`, is its own."""
    usual = building.keras_library_of(model).Model
    keeps = has_usual_step(model) and type(model).compute_loss is usual.compute_loss
    return trial.model.library == OWN and not keeps


def has_usual_step(model: Any) -> bool:
    """True if a model's `train_step` is Keras's."""
    return type(model).train_step is building.keras_library_of(model).Model.train_step


def compiled_optimizer(model: Any) -> Any:
    """A new optimizer like the one that a model was compiled with; None if it was not.

    Of a schedule it has the first rate. `ConfigError` if it cannot be made again.
    """
    own = getattr(model, "optimizer", None)
    if own is None:
        return None
    try:
        rate = float(keras.ops.convert_to_numpy(own.learning_rate))
        with _at_rate(own, rate):
            config = own.get_config()
        if "learning_rate" in config:
            config["learning_rate"] = rate
        return type(own).from_config(config)
    except Exception as error:
        raise ConfigError(
            f"the model's {type(own).__name__} cannot be made again ({error_line(error)}); give "
            "optimizer=adam or another"
        ) from error


@contextmanager
def _at_rate(optimizer: Any, rate: float) -> Iterator[None]:
    """Replace a schedule of an optimizer, which may have no config of its own, by a rate."""
    schedule = getattr(optimizer, "_learning_rate", None)
    if not callable(schedule):
        yield
        return
    optimizer._learning_rate = rate
    try:
        yield
    finally:
        optimizer._learning_rate = schedule


def count_gathered_steps(optimizer: Any) -> int:
    """The number of steps whose gradients an optimizer of Keras 3 gathers for one update."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return getattr(inner, "gradient_accumulation_steps", None) or 1


def metrics_of(model: Any, trial: Trial) -> list[Any]:
    """New metrics like those that the user's own model of one output was compiled with.

    Reads what Keras 3.15.1 and tf_keras 2.21.0 keep of `compile` in private.
    """
    compiled = getattr(model, "_compile_metrics", None) or getattr(model, "compiled_metrics", None)
    given = getattr(compiled, "_user_metrics", None)
    if trial.model.library != OWN or not isinstance(given, list | tuple):
        return []
    return [
        type(each).from_config(each.get_config()) if hasattr(each, "get_config") else each
        for each in keras.tree.flatten(given)
    ]


def optimizers_of(model: Any) -> list[Any]:
    """The optimizers that a model holds: a GAN has two."""
    held = [getattr(model, "optimizer", None), *vars(model).values()]
    are = {id(each): each for each in held if hasattr(each, "apply_gradients")}
    return list(are.values())


def state_of(model: Any) -> list[Any]:
    """All variables that a `train_step` may change: of layers, metrics and optimizers."""
    metrics = [each for metric in model.metrics for each in metric.variables]
    of_optimizers = [
        each for one in optimizers_of(model) for each in (*one.variables, one.learning_rate)
    ]
    every = [*model.variables, *find_held_variables(model), *metrics, *of_optimizers]
    kept = {id(each): each for each in every if hasattr(each, "assign")}
    return list(kept.values())


def loss_in(logs: Any) -> Any:
    """The loss in what a `train_step` returns: what it calls so, or the first value.

    Raises:
        XlaSweepsError: it returns nothing.
    """
    if logs is None or (isinstance(logs, Mapping) and not logs):
        raise XlaSweepsError("train_step returns no loss; return it, as in {'loss': loss}")
    if not isinstance(logs, Mapping):
        return logs
    return logs.get("loss", next(iter(logs.values())))


def batches_for(
    loaded: LoadedModel,
    trial: Trial,
    inputs: Sequence[Any],
    labels: Sequence[Any],
    *,
    run: Callable[[Any], object],
) -> Sequence[Any]:
    """Batches as the model's `train_step` takes them, found by what `run` does with the first.

    Labels that are not known are drawn for the loss that it is compiled with.

    Raises:
        XlaSweepsError: it takes neither; the message has the reason of the likelier one.
    """
    model, targets = loaded.keras_model, labels or _targets_of(loaded, trial, inputs)
    likely = list[Sequence[Any]]()
    for alone in _nest_inputs(loaded, inputs):
        pairs = list(zip(alone, targets, strict=False))
        likely += [pairs, alone] if labels or getattr(model, "loss", None) else [alone, pairs]
    errors = []
    for batches in filter(None, likely):
        try:
            run(batches[0])
        except Exception as error:
            errors.append(error)
            traceback.print_exc()
        else:
            return batches
    cause = root_cause(errors[0])
    raise XlaSweepsError(
        f"train_step of {type(model).__name__} fails on a batch of inputs with targets, and of "
        f"inputs alone: {type(cause).__name__}: {error_line(cause)}"
    )


def _nest_inputs(loaded: LoadedModel, inputs: Sequence[Any]) -> list[Sequence[Any]]:
    """Inputs as the model takes them; where its call takes several by name, in a tuple too."""
    packed = [keras.tree.lists_to_tuples(loaded.pack(one)) for one in inputs]  # for tf.data
    names, call = [given.name for given in loaded.inputs], loaded.keras_model.call
    if not isinstance(packed[0], Mapping) or not takes_by_name(call, names):
        return [packed]
    order = [name for name in inspect.signature(call).parameters if name in names]
    return [packed, [tuple(one[name] for name in order) for one in packed]]


def _targets_of(loaded: LoadedModel, trial: Trial, inputs: Sequence[Any]) -> list[Any]:
    """Targets that are drawn for a model's loss; none where it has no loss, or no outputs."""
    with suppress(Exception):
        model, outputs = loaded.keras_model, loaded.forward(inputs[0], training=False)
        objective = objective_of(model, outputs, trial, building.keras_library_of(model))
        if not any(objective.heads):
            return []
        rng = np.random.default_rng(trial.seed)
        drawn = [objective.draw(rng) for _ in inputs]
        return [keras.tree.map_structure(keras.ops.convert_to_tensor, each) for each in drawn]
    return []


def unlike(steps: FirstSteps, eager: FirstSteps) -> str:
    """Reason why a first step with other random numbers is no step like eager's; or ""."""
    sizes = steps.size, eager.size
    if not all(map(np.isfinite, sizes)):
        return "its first step gives values that are not finite"
    if max(sizes) <= APART * min(sizes):
        return ""
    return f"its first step changes the weights by {sizes[0]:.3g}, eager's by {sizes[1]:.3g}"


def varies(losses: Sequence[float]) -> bool:
    """True if losses differ by more than rounding: the step draws random numbers."""
    return max(losses) - min(losses) > VARYING * max(map(abs, losses))
