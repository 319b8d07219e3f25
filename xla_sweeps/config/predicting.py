"""Checks of `scenario=predict` and `keras=2`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xla_sweeps.config import values
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import Execution, Scenario, mode_of
from xla_sweeps.schema.trial import ModelSpec

LEGACY = "tf_keras"
"""The library that is Keras 2."""


def built_by(spec: ModelSpec, document: Mapping[str, Any]) -> ModelSpec:
    """The model as the asked version of Keras builds it.

    Raises:
        ConfigError: that version does not have it.
    """
    if document["keras"] is None:
        return spec
    version = values.integer(document, "keras", at_least=2, at_most=3)
    if version == 3 and spec.library == LEGACY:
        raise ConfigError(f"keras=3: Keras 3 has no {spec.variant} any more; leave keras out")
    if version == 3:
        return replace(spec, keras=3)
    if spec.source == "applications":
        return replace(spec, library=LEGACY, keras=2)
    if spec.source == "examples":
        return replace(spec, recipe={**spec.recipe, "library": LEGACY}, keras=2)
    raise ConfigError(
        f"keras=2: {spec.name} from source={spec.source} is not built by tf_keras; it has the "
        "models of source=applications and source=examples"
    )


def check_predict(
    spec: ModelSpec, scenario: Scenario, modes: Sequence[str], *, batches: int
) -> None:
    """Refuse modes that this model or this number of batches does not have.

    Raises:
        ConfigError: with what to do instead.
    """
    if scenario is not Scenario.PREDICT:
        return
    if spec.source == "hub" or spec.recipe.get("kind") == "saved_model":
        raise ConfigError(
            f"scenario=predict: {spec.name} from source={spec.source} is no Keras model, so it has "
            "no predict; use scenario=call"
        )
    for mode in map(mode_of, modes):
        if mode.steps and batches == 1:
            raise ConfigError(
                f"modes: {mode} executes several batches at once; add batches=2 or more"
            )
        legacy = LEGACY in (spec.library, spec.recipe.get("library"))
        if mode.execution is Execution.AUTO and legacy:
            raise ConfigError(f'modes: {mode}: tf_keras (Keras 2) has no jit_compile="auto"')
