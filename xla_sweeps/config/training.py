"""Reads how a model is trained: `scenario=train_step` and `scenario=fit`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from xla_sweeps.config import values
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import TRAINING, Scenario
from xla_sweeps.schema.trial import ModelSpec, Training

KEYS = ("optimizer", "learning_rate")

MAX_RATE = 10

_TASKS = ("classification", "segmentation", "video", "custom")
"""Tasks whose models give class scores; of the user's own model (`custom`) the outputs decide."""


def training_of(
    document: dict[str, Any], explicit: Collection[str], scenario: Scenario, spec: ModelSpec
) -> Training | None:
    """How the trial trains; None, and its keys null, where it does not.

    Raises:
        ConfigError: a value is wrong, the trial trains nothing, or the model cannot be trained.
    """
    if scenario not in TRAINING:
        for key in KEYS:
            if key in explicit and document[key] is not None:
                raise ConfigError(
                    f"{key}={document[key]}: scenario={scenario} trains nothing; add "
                    f"scenario={TRAINING[0]} or remove {key}"
                )
            document[key] = None
        return None
    if spec.library == "tensorflow_hub" or spec.recipe.get("kind") == "saved_model":
        raise ConfigError(
            f"scenario={scenario}: {spec.name} from source={spec.source} is a SavedModel, a graph "
            "without training; use a Keras model"
        )
    if spec.task not in _TASKS:
        raise ConfigError(
            f"scenario={scenario}: {spec.name} is for the task {spec.task}, which has no loss "
            f"here; those that have one: {', '.join(_TASKS[:-1])}"
        )
    return Training(
        optimizer=values.choice(document, "optimizer"),
        learning_rate=values.number(document, "learning_rate", at_most=MAX_RATE),
    )
