"""Identities of models that were compiled with a loss, a metric or an optimizer of one's own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from xla_sweeps.api.compiled import warn_of_lost
from xla_sweeps.api.identity import digest_of
from xla_sweeps.api.shipping import _configuration_of
from xla_sweeps.backends.keras.sources.applications import library_named

pytestmark = [pytest.mark.tf, pytest.mark.filterwarnings("ignore")]

BATCH = np.ones((2, 4), "float32"), np.ones((2, 3), "float32")

PARTS = ("loss", "metric", "optimizer", "schedule")


def digest(model: Any) -> str:
    return digest_of(model, _configuration_of)


def own_classes(library: Any, factor: float) -> dict[str, Any]:
    """Classes of each part, as a cell of a notebook defines them again."""

    class Far(library.losses.Loss):  # type: ignore[misc]
        def call(self, wanted: Any, given: Any) -> Any:
            return tf.reduce_mean(wanted - given) * factor

    class Near(library.metrics.Mean):  # type: ignore[misc]
        def update_state(self, wanted: Any, given: Any, sample_weight: Any = None) -> Any:
            return super().update_state(tf.reduce_mean(wanted - given) * factor)

    class Step(library.optimizers.SGD):  # type: ignore[misc]
        def scale(self) -> float:
            return factor

    class Slow(library.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
        def __call__(self, step: Any) -> float:
            return factor / 10

        def get_config(self) -> dict[str, Any]:
            return {}

    return dict(zip(PARTS, (Far, Near, Step, Slow), strict=True))


def compiled(library: Any, other: str = "") -> Any:
    """A model with four parts of one's own, one of which may have other code."""
    made = {name: own_classes(library, 3.0 if name == other else 2.0)[name] for name in PARTS}
    given = library.Input((4,))
    model = library.Model(given, library.layers.Dense(3, kernel_initializer="ones")(given))
    optimizer = made["optimizer"](made["schedule"]())
    listed = [made["metric"](), library.metrics.MeanSquaredError()]
    model.compile(optimizer, made["loss"](), metrics=listed)
    return model


@pytest.fixture(params=["keras", "tf_keras"])
def library(request: pytest.FixtureRequest) -> Any:
    return keras if request.param == "keras" else library_named("tf_keras")


def test_a_model_keeps_its_identity_whenever_it_is_asked(library: Any) -> None:
    model = compiled(library)
    first, later = digest(model), time.gmtime(2e9)
    with (
        mock.patch("time.time", return_value=2e9),
        mock.patch("time.localtime", return_value=later),
    ):
        assert digest(model) == first
    assert digest(compiled(library)) == first


def test_what_evaluate_and_fit_count_is_no_part_of_it(library: Any) -> None:
    model = compiled(library)
    first, weights = digest(model), model.get_weights()
    model.evaluate(*BATCH, verbose=0)
    assert digest(model) == first
    model.fit(*BATCH, verbose=0)
    model.set_weights(weights)
    assert digest(model) == first


@pytest.mark.parametrize("part", PARTS)
def test_the_code_of_each_part_counts(library: Any, part: str) -> None:
    assert digest(compiled(library, part)) != digest(compiled(library))


@pytest.mark.filterwarnings("error")
def test_what_cannot_be_made_again_is_said(library: Any) -> None:
    class Weighed(library.losses.Loss):  # type: ignore[misc]
        def __init__(self, weight: float) -> None:
            super().__init__()
            self.weight = weight

    model = compiled(library)
    warn_of_lost(model, library)
    model.compile("adam", Weighed(2.0))
    with pytest.warns(UserWarning, match=r"Weighed.get_config\(\) cannot make it again"):
        warn_of_lost(model, library)


def test_the_line_and_file_of_an_activation_do_not_count(library: Any, tmp_path: Path) -> None:
    def activated(line: int, factor: int) -> str:
        file = tmp_path / f"cell-{line}-{factor}.py"  # Keras shows the line in a warning
        file.write_text("\n" * line + f"activation = lambda x: x * {factor}")
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(file.read_text(), file, "exec"), names)
        given = library.Input((4,))
        dense = library.layers.Dense(3, activation=names["activation"], kernel_initializer="ones")
        return digest(library.Model(given, dense(given)))

    assert activated(1, 2) == activated(5, 2)
    assert activated(1, 2) != activated(1, 3)
