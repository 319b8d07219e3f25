"""Reads how a model is trained: `scenario=train_step` and `scenario=fit`."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from xla_sweeps.config import values
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import SCENARIOS, Scenario
from xla_sweeps.schema.options import SYNTHETIC, typed
from xla_sweeps.schema.trial import Data, ModelSpec, Training
from xla_sweeps.system import pictures

KEYS = ("optimizer", "learning_rate", "data", "drop_remainder")

MAX_RATE = 10

MAX_BATCHES = 10_000

FIT_BATCHES = 8
"""Batches of an epoch of `fit` on drawn values, unless the user says how many."""

_TASKS = ("classification", "segmentation", "video", "custom")
"""Tasks whose models give class scores; of the user's own model (`custom`) the outputs decide."""


def training_of(
    document: Mapping[str, Any], explicit: Collection[str], scenario: Scenario, spec: ModelSpec
) -> Training | None:
    """The training of a trial; None if it trains nothing.

    Raises:
        ConfigError: a value is wrong, the trial trains nothing, or the model cannot be trained.
    """
    if not SCENARIOS[scenario].trains:
        for key in KEYS:
            if key in explicit and document[key] not in (None, SYNTHETIC):
                right = Scenario.FIT if key in KEYS[2:] else Scenario.TRAIN_STEP
                raise ConfigError(
                    f"{key}={typed(document[key])}: scenario={scenario} trains nothing; add "
                    f"scenario={right} or remove {key}"
                )
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
        data=_data(document, explicit, scenario),
    )


def batches_of(
    document: Mapping[str, Any], explicit: Collection[str], scenario: Scenario, data: Data | None
) -> int:
    """Number of batches of one call; all of an epoch unless the user says how many.

    Raises:
        ConfigError: no number, more than there are, or several in a scenario whose calls take one
            batch.
    """
    facts = SCENARIOS[scenario]
    batches = values.integer(document, "batches", at_least=1, at_most=MAX_BATCHES)
    if batches > 1 and not facts.takes_batches:
        several = " or ".join(name for name, each in SCENARIOS.items() if each.takes_batches)
        raise ConfigError(
            f"batches={batches}: a call of scenario={scenario} takes one batch; use "
            f"scenario={several}, or batch_size"
        )
    is_given = "batches" in explicit or batches != 1
    if data is None:
        return FIT_BATCHES if facts.is_epoch and not is_given else batches
    size = values.integer(document, "batch_size", at_least=1)
    whole, rest = divmod(data.pictures, size)
    epoch = whole + (rest > 0 and not data.drop_remainder)
    given = document["data"]
    if not is_given and epoch > MAX_BATCHES:
        raise ConfigError(
            f"data={given}: an epoch is {epoch:,} batches of {size}, and a call handles at most "
            f"{MAX_BATCHES:,}; add batches=100"
        )
    if is_given and batches > epoch:
        raise ConfigError(
            f"batches={batches:,}: data={given} has {epoch:,} batches of {size}; use "
            f"batches={epoch} or less"
        )
    return batches if is_given else epoch


def _data(
    document: Mapping[str, Any], explicit: Collection[str], scenario: Scenario
) -> Data | None:
    """The pictures of `data`, as they are now; None for values that are drawn."""
    given = values.text(document, "data")
    if given == SYNTHETIC:
        if document["drop_remainder"] is not None and "drop_remainder" in explicit:
            raise ConfigError(
                f"drop_remainder={typed(document['drop_remainder'])}: only an epoch over "
                "pictures has a smaller last batch; add data=PATH (`xla-sweeps make-data` makes a "
                "small set)"
            )
        return None
    if not SCENARIOS[scenario].is_epoch:
        raise ConfigError(
            f"data={given}: a step of scenario={scenario} trains on values that are drawn; use "
            "scenario=fit"
        )
    path = values.path_of(given).absolute()
    if not path.exists() and difflib.get_close_matches(given, [SYNTHETIC]):
        raise ConfigError(
            f"data={given}: there is no such file or folder; did you mean data={SYNTHETIC}?"
        )
    files = pictures.find(str(path), shown=given)
    drop = values.boolean(document, "drop_remainder")
    size = values.integer(document, "batch_size", at_least=1)
    if files.count < size:
        raise ConfigError(
            f"batch_size={size}: data={given} has {files.count:,} pictures; use batch_size="
            f"{files.count} or less"
        )
    return Data(
        path=str(path), pictures=files.count, fingerprint=files.fingerprint, drop_remainder=drop
    )
