"""Training of a Keras model, whatever the engine: optimizer, loss and what can be trained."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.trial import Precision, Trial

MOMENTUM = 0.9
"""Momentum of `optimizer=sgd`."""

CHECKING_RATE = 1024.0
"""Learning rate of the checked update: it shows the gradient to nearly its own precision."""

_RANDOM = ("rate", "drop_path_rate", "drop_prob", "dropout", "recurrent_dropout", "stddev")
"""Attributes of layers that draw random numbers while training, unless they are 0."""


def trained_model(built: BuiltModel, trial: Trial) -> Any:
    """The Keras model that is trained.

    Raises:
        ConfigError: it has nothing to train.
    """
    model = built.loaded.keras_model
    if model is None or not model.trainable_variables:
        raise ConfigError(
            f"scenario={trial.scenario}: {trial.model.name} from source={trial.model.source} "
            "has no trainable weights; use a Keras model: another source, or scenario=call"
        )
    return model


def head_of(outputs: Any, trial: Trial) -> Any:
    """The class scores of a batch, shape (batch, ..., classes).

    Raises:
        ConfigError: there are none, so there is no loss.
    """
    heads = keras.tree.flatten(outputs)
    scores = [
        head
        for head in heads
        if "float" in keras.backend.standardize_dtype(head.dtype) and len(head.shape) > 1
    ]
    if len(heads) != 1 or not scores or scores[0].shape[-1] < 2:
        shapes = ", ".join(str(tuple(head.shape)) for head in heads)
        raise ConfigError(
            f"scenario={trial.scenario}: labels do not fit the outputs of {trial.model.name}: "
            f"expected scores of at least 2 classes, (batch, classes), found {shapes}"
        )
    return scores[0]


def adds_up_to_one(head: Any) -> bool:
    """True if scores are probabilities and not logits."""
    values = np.asarray(head).astype(np.float64)
    return bool(values.min() >= 0 and np.allclose(values.sum(axis=-1), 1, atol=0.02))


def optimizer_of(library: Any, trial: Trial) -> Any:
    """The optimizer, which scales the loss where float16 needs it; `library` is Keras."""
    assert trial.training is not None
    name = trial.training.optimizer
    more = {"momentum": MOMENTUM} if name == "sgd" else {}
    rate = trial.training.learning_rate
    classes = {word.lower(): word for word in dir(library.optimizers)}
    optimizer = getattr(library.optimizers, classes[name])(learning_rate=rate, **more)
    if trial.precision is not Precision.MIXED_FLOAT16:
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


def loss_in(returned: Any) -> float:
    """The loss in what a step returns: a scalar, or Keras's list of it."""
    return float(np.ravel(returned)[0])


def undetermined() -> Agreement:
    """The comparison with first steps that differ from one eager run to the next."""
    return Agreement(
        rmse_rel=None,
        top1_match=None,
        ok=False,
        reason="two eager runs of the first step on equal inputs differ",
        refused=True,
    )


def runs_away(executable: Any, calls: int, trial: Trial) -> str:
    """Reason why calls in a row are no training: a loss that is not finite; else ""."""
    executable.prepare()
    for _ in range(calls):
        executable.step()
    if np.isfinite(loss_in(executable.last)):
        return ""
    assert trial.training
    return (
        f"the loss is not finite after {calls} calls in a row with learning_rate="
        f"{trial.training.learning_rate:g}; use a lower one"
    )
