"""Models as TensorFlow's sources build them, and their outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from composed import complaint_of

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.sources.inputs import draw
from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.config import local_model
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.trial import ModelSpec, Precision

QUIET = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.usefixtures("cleared"),
]
"""Marks of tests of models that make their libraries warn, and are forgotten after each."""

IN_A_FOLDER = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.usefixtures("here"),
]
"""Those of tests in a folder with the `FILES` of their module."""


def own(path: str, **given: Any) -> ModelSpec:
    asked = {"model": {"name": "local"}, "path": path, "trust_code": True, "input_spec": None}
    return local_model.user_model_spec({**asked, **given})


def build(spec: ModelSpec, **changes: Any) -> building.BuiltModel:
    asked = {"precision": Precision.FLOAT32, "seed": 0, **changes}
    return building.build(spec, narrowed=modes.ENGINE.narrow, **asked)


def refusal_of(
    spec: ModelSpec, *, kind: type[XlaSweepsError] = XlaSweepsError, **changes: Any
) -> str:
    """The line with which a model is refused that is asked for so."""
    return complaint_of(build, spec, kind=kind, **changes)


def batch_of(built: building.BuiltModel, count: int = 2) -> Any:
    """Inputs that are the same for each build of a model."""
    return draw(built.inputs, count, np.random.default_rng(0))


def outputs(built: building.BuiltModel, count: int = 2) -> list[np.ndarray]:
    """Outputs of a model for them, one array each."""
    return [np.asarray(output) for output in tf.nest.flatten(built.call(batch_of(built, count)))]
