"""The loss that training minimizes: what a model was compiled with, or that of classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from built_models import QUIET, build, own
from factories import TRIAL

from xla_sweeps.backends.keras.objective import Objective, objective_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.trial import Trial

pytestmark = QUIET

OWN_TRIAL: Trial = replace(TRIAL, model=replace(TRIAL.model, library="local", name="net:build"))

NET = """
import keras

def autoencoder():
    given = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(given)
    return keras.Model(given, keras.layers.Conv2D(3, 3, padding="same")(x))

def compiled():
    model = autoencoder()
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    return model
"""


def one_layer(library: Any, units: int, **how: Any) -> Any:
    model = library.Sequential([library.Input((4,)), library.layers.Dense(units, **how)])
    model.compile(optimizer="adam")
    return model


def two_heads() -> keras.Model:
    given = keras.Input((4,))
    classes = keras.layers.Dense(3, name="kind")(given)
    price = keras.layers.Dense(1, name="price")(given)
    return keras.Model(given, [classes, price])


def of(model: Any, batch: Any = None, trial: Trial = OWN_TRIAL) -> tuple[Objective, Any]:
    outputs = model(np.ones((2, 4), "float32") if batch is None else batch)
    return objective_of(model, outputs, trial, keras), outputs


@pytest.mark.parametrize(
    ("loss", "weights"),
    [
        (["sparse_categorical_crossentropy", "mae"], [1.0, 0.25]),
        (
            {
                "price": keras.losses.MeanAbsoluteError(),
                "kind": keras.losses.SparseCategoricalCrossentropy(),
            },
            {"kind": 1.0, "price": 0.25},
        ),
    ],
)
def test_the_losses_of_several_outputs_are_weighted_as_keras_does(loss: Any, weights: Any) -> None:
    model = two_heads()
    model.compile(loss=loss, loss_weights=weights)
    objective, outputs = of(model)
    targets = objective.draw(np.random.default_rng(0))
    assert [each.shape for each in targets] == [(2,), (2, 1)]
    assert targets[0].dtype == np.int32
    named = dict(zip(("kind", "price"), targets, strict=True)) if "kind" in loss else targets
    keras_value = model.compute_loss(y=named, y_pred=outputs)
    assert float(objective.value(outputs, targets)) == pytest.approx(float(keras_value), rel=1e-5)


@pytest.mark.parametrize(
    "loss", ["mse", keras.losses.Huber(), keras.losses.MeanSquaredError(reduction="sum")]
)
def test_a_loss_of_values_is_keras_own(loss: Any) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5)])
    model.compile(loss=loss)
    objective, outputs = of(model)
    targets = objective.draw(np.random.default_rng(1))
    assert targets.shape == (2, 5)
    assert 0 <= targets.min() < targets.max() <= 1
    expected = float(model.compute_loss(y=targets, y_pred=outputs))
    assert float(objective.value(outputs, targets)) == pytest.approx(expected, rel=1e-5)
    assert objective.classes_shape == ()


@pytest.mark.parametrize("library", [keras, tf_keras])
@pytest.mark.parametrize("reduction", ["sum", "sum_over_batch_size"])
def test_masked_positions_do_not_count(library: Any, reduction: str) -> None:
    layers = library.layers
    model = library.Sequential(
        [layers.Embedding(20, 8, mask_zero=True), layers.Dense(5, activation="softmax")]
    )
    loss = library.losses.SparseCategoricalCrossentropy(reduction=reduction)
    model.compile(loss=loss)
    words = np.array([[1, 2, 0, 0], [3, 4, 5, 0]])
    objective, outputs = of(model, words)
    targets = objective.draw(np.random.default_rng(2))
    expected = float(model.compute_loss(y=tf.constant(targets), y_pred=outputs))
    assert float(objective.value(outputs, targets)) == pytest.approx(expected, rel=1e-5)


def test_targets_of_a_class_that_the_loss_ignores_do_not_count() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(ignore_class=1))
    objective, outputs = of(model)
    targets = np.array([0, 1])
    expected = float(model.compute_loss(y=targets, y_pred=outputs))
    assert float(objective.value(outputs, targets)) == pytest.approx(expected, rel=1e-5)


def test_a_function_is_a_loss_too_and_a_name_that_keras_lacks_is_refused() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile(loss=lambda targets, outputs: keras.ops.abs(targets - outputs))
    objective, outputs = of(model)
    targets = np.zeros((2, 2), "float32")
    expected = float(np.abs(outputs).mean())
    assert float(objective.value(outputs, targets)) == pytest.approx(expected, rel=1e-5)
    model.loss = "meen"
    with pytest.raises(ConfigError, match="the model's loss 'meen' is unknown to Keras"):
        of(model)


def one_value(targets: Any, outputs: Any) -> Any:
    return keras.ops.square(keras.ops.reshape(targets, (2, 1)) - outputs)


def numbers(targets: Any, outputs: Any) -> Any:
    wanted = keras.ops.one_hot(keras.ops.cast(keras.ops.reshape(targets, (2,)), "int32"), 3)
    return keras.losses.categorical_crossentropy(wanted, outputs, from_logits=True)


def a_column(targets: Any, outputs: Any) -> Any:
    return keras.ops.sum(tf.ensure_shape(targets, (2, 1)) * outputs, axis=-1)


@pytest.mark.parametrize("loss", [one_value, numbers, a_column])
def test_a_loss_of_ones_own_gets_targets_of_a_shape_that_it_takes(loss: Any) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile(loss=loss)
    objective, outputs = of(model)
    targets = objective.draw(np.random.default_rng(3))
    expected = float(model.compute_loss(y=targets, y_pred=outputs))
    assert float(objective.value(outputs, targets)) == pytest.approx(expected, rel=1e-5)


def test_a_loss_that_takes_no_targets_is_refused_with_its_reason() -> None:
    def six(targets: Any, outputs: Any) -> Any:
        return tf.ensure_shape(targets, (6,)) - outputs

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile(loss=six)
    shapes = r"six fails on targets of shape \(2, 3\) or \(2,\) or \(2, 1\): .*compatible"
    with pytest.raises(ConfigError, match=shapes):
        of(model)


def test_each_shape_of_targets_is_tried_once() -> None:
    shapes = []

    def sparse_six(targets: Any, outputs: Any) -> Any:
        shapes.append(tuple(targets.shape))
        return tf.ensure_shape(targets, (6,)) - outputs

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile(loss=sparse_six)
    with pytest.raises(ConfigError, match=r"of shape \(2,\) or \(2, 1\): "):
        of(model)
    assert shapes == [(2,), (2, 1)]


@pytest.mark.parametrize(
    "error", [MemoryError(), tf.errors.ResourceExhaustedError(None, None, "no room for a tensor")]
)
def test_a_loss_that_runs_out_of_memory_is_not_said_to_take_no_targets(error: Exception) -> None:
    def large(targets: Any, outputs: Any) -> Any:
        raise error

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile(loss=large)
    with pytest.raises(type(error)):
        of(model)


def test_texts_of_ctc_are_shorter_than_the_outputs() -> None:
    model = keras.Sequential([keras.Input((8, 4)), keras.layers.Dense(5)])
    model.compile(loss=keras.losses.CTC())
    objective, outputs = of(model, np.ones((2, 8, 4), "float32"))
    targets = objective.draw(np.random.default_rng(3))
    assert targets.shape == (2, 2)
    assert np.isfinite(objective.value(outputs, targets))


def sparse_focal(targets: Any, outputs: Any) -> Any:
    chosen = tf.one_hot(tf.squeeze(targets, -1), 3, dtype=outputs.dtype)
    return tf.reduce_sum(chosen * (1 - outputs) ** 2, axis=-1)


def sparse_logits(targets: Any, outputs: Any) -> Any:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(targets, outputs)


@pytest.mark.parametrize(("loss", "shape"), [(sparse_focal, (4,)), (sparse_logits, (5, 4))])
def test_a_loss_of_ones_own_gets_class_numbers_as_tf_keras_gives_them(
    loss: Any, shape: tuple[int, ...]
) -> None:
    model = tf_keras.Sequential([tf_keras.Input(shape), tf_keras.layers.Dense(3)])
    model.compile(loss=loss)
    batch = np.ones((2, *shape), "float32")
    outputs = model(batch)
    objective = objective_of(model, outputs, OWN_TRIAL, tf_keras)
    targets = objective.draw(np.random.default_rng(3))
    expected = model.test_on_batch(batch, targets)
    for given in (outputs, tf.cast(outputs, "float64")):
        assert float(objective.value(given, targets)) == pytest.approx(expected, rel=1e-5)


def test_outputs_that_are_no_classes_need_a_loss_of_their_own() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    with pytest.raises(ConfigError, match=r"found \(2, 1\); for another loss, compile the model"):
        of(model)
    model.compile(loss="mse")
    catalog = replace(TRIAL, model=replace(TRIAL.model, library="keras"))
    with pytest.raises(ConfigError, match="labels do not fit"):
        of(model, trial=catalog)


@pytest.mark.parametrize("library", [keras, tf_keras])
@pytest.mark.parametrize("kind", ["kernel_regularizer", "activity_regularizer"])
def test_a_penalty_is_not_the_whole_loss_of_class_scores(library: Any, kind: str) -> None:
    objective, _ = of(one_layer(library, 3, **{kind: "l2"}))
    assert objective.classes_shape == (2, 3)


@pytest.mark.parametrize("library", [keras, tf_keras])
def test_a_penalty_of_weights_is_no_loss_of_outputs_that_are_no_classes(library: Any) -> None:
    with pytest.raises(ConfigError, match="labels do not fit"):
        of(one_layer(library, 1, kernel_regularizer="l2"))
    objective, _ = of(one_layer(library, 1, activity_regularizer="l2"))
    assert objective.heads == [None]


def test_an_output_without_dimensions_has_its_loss_or_is_refused() -> None:
    given = keras.Input((4,))
    model = keras.Model(given, keras.layers.Lambda(keras.ops.mean)(given))
    model.compile(loss=lambda targets, output: keras.ops.square(targets - output))
    objective, outputs = of(model)
    assert objective.draw(np.random.default_rng(0)).shape == ()
    assert float(objective.value(outputs, np.float32(0))) == pytest.approx(1.0)
    for loss in ("mse", "ctc", "sparse_categorical_crossentropy"):
        model.compile(loss=loss)
        with pytest.raises(ConfigError, match=r"fails on targets of shape \(\): "):
            of(model)


def test_chances_that_do_not_add_up_to_one_are_told_their_own_loss() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
    with pytest.raises(ConfigError, match=r"model.compile\(loss='binary_crossentropy'\)"):
        of(model)


def test_losses_that_do_not_fit_the_outputs_are_refused() -> None:
    model = two_heads()
    model.compile(loss=["mse", "mse", "mse"])
    with pytest.raises(ConfigError, match="was compiled with 3 losses, and has 2 outputs"):
        of(model)


def test_a_file_keeps_what_the_model_was_compiled_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "net.py").write_text(NET)
    build(own("net.py:compiled")).loaded.keras_model.save(tmp_path / "net.keras")
    loaded = build(own(str(tmp_path / "net.keras"))).loaded.keras_model
    assert loaded.loss == "mse"
    images = np.zeros((2, 8, 8, 3), "float32")
    objective, _ = of(loaded, images)
    assert objective.draw(np.random.default_rng(0)).shape == (2, 8, 8, 3)
