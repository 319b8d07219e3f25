"""Models as they are built: parameters, multiply-accumulates, calibration, the float64 twin."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Callable
from typing import Any
from unittest import mock
from urllib.error import URLError

import built_models
import half_precision
import keras
import numpy as np
import pytest
import tensorflow as tf
from catalog_models import of_catalog
from paths import SUPPORT

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.rounding import float64_outputs
from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.keras.sources.inputs import draw
from xla_sweeps.backends.tensorflow import hub_architectures, modes
from xla_sweeps.backends.tensorflow.bench import macs
from xla_sweeps.config import catalog
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.trial import ModelSpec, Precision
from xla_sweeps.worker import agreement

pytestmark = built_models.QUIET

ENTRIES = catalog.load_catalog()

EXACT = {
    "efficientnetv2s": 21_612_360,
    "resnet50": 25_636_712,
    "mobilenet_v2": 3_538_984,
    "regnetx_002": 2_705_640,
    "regnetx_016": 9_233_640,
    "regnety_016": 11_255_102,
    "resnetrs50": 35_745_288,
    "convnext_tiny": 28_589_128,
    "nasnet_mobile": 5_326_716,
    "vgg16": 138_357_544,
    "densenet121": 8_062_504,
    "xception": 22_910_480,
}
"""Parameters of all variables, as counted by hand from the libraries' own summaries."""

EXCEPTIONS = {
    ("yolo_v8_xs", "keras_cv"): 3_436_268,
    ("yolo_v8_s", "keras_cv"): 12_804_828,
    ("yolo_v8_l", "keras_cv"): 41_066_172,
    ("yolo_v8_xl", "keras_cv"): 64_128_812,
    ("mobilenet_v3_small_backbone", "keras_cv"): 939_120,
}
"""Parameters of models that differ from the published ones, for the reason in the entry."""

BUILDS = [(name, source) for name, entry in ENTRIES.items() for source in entry.sources]

ALWAYS = {("mobilenet_v2", "applications"), ("deit_tiny_patch16_224", "hub")}
"""Models that are always built; test_sources.py has the other libraries."""

GMACS = {
    "resnet50": 3.86,
    "mobilenet_v1": 0.57,
    "efficientnetb0": 0.39,
    "regnetx_002": 0.2,
    "convnext_tiny": 4.47,
    "efficientnetv2s": 8.4,
    "densenet121": 2.87,
    "xception": 8.36,
}


def nightly(*values: Any) -> Any:
    return pytest.param(*values, marks=(pytest.mark.slow, pytest.mark.exhaustive))


def smallest() -> list[Any]:
    """The model of fewest parameters of each family in each source that builds models itself."""
    models: dict[tuple[str, str], tuple[float, str]] = {}
    for name, source in BUILDS:
        entry, published = ENTRIES[name], ENTRIES[name].published_in(source)
        if source != "hub" and published:
            size = (published.params_million, name)
            models[entry.family, source] = min(models.get((entry.family, source), size), size)
    return [nightly(name, source) for (_, source), (_, name) in sorted(models.items())]


def build(
    name: str,
    resolution: int | None = None,
    precision: Precision = Precision.FLOAT32,
    source: str = "applications",
) -> building.BuiltModel:
    return built_models.build(of_catalog(name, source, resolution), precision=precision)


def _counts(model: Any) -> tuple[int, int]:
    """Parameters of a Keras model, all and trainable."""
    total, trainable = (
        sum(math.prod(one.shape) for one in variables if "seed_generator" not in one.path)
        for variables in (model.variables, model.trainable_variables)
    )
    return total, trainable


def _smallest_resolution(entry: catalog.CatalogEntry) -> int:
    """At least 96 px, below which rounding grows in feature maps of 2 x 2.

    Video clips are large enough at 32.
    """
    least = 32 if entry.frames else 96
    least = max(least, *(source.min_resolution for source in entry.sources.values()))
    return max(entry.min_resolution, math.ceil(least / entry.divisor) * entry.divisor)


def images(built: building.BuiltModel) -> np.ndarray:
    return np.asarray(built_models.batch_of(built, 4))


@pytest.fixture(autouse=True)
def _forget_models() -> None:
    keras.backend.clear_session()
    gc.collect()


CASES = [case if case in ALWAYS else nightly(*case) for case in BUILDS]


@pytest.mark.parametrize(("name", "source"), CASES)
def test_a_model_has_the_parameters_that_were_published(name: str, source: str) -> None:
    published = ENTRIES[name].published_in(source)
    if source == "hub":  # what its replica is made of; the SavedModel has the same variables
        params, trainable = _counts(hub_architectures.build(name))
    else:
        built = build(name, source=source)
        params, trainable = built.params, built.trainable_params
    assert params >= trainable
    if published is None:
        return
    counts_all, wanted = published.params_of == "all", published.params_million
    digits = len(f"{wanted}".partition(".")[2]) if wanted % 1 else 0
    last_place = (1.0 if counts_all else 0.51) * 10.0**-digits  # some tables truncate
    tolerance = max(0.005 * wanted, last_place)
    counted = params if counts_all else trainable
    exact = counted / 1e6 == pytest.approx(wanted, abs=tolerance)
    assert exact or published.params_note, f"{counted:,} and no word why"
    if not exact:
        assert params == EXCEPTIONS[name, source]
    if source == "applications" and name in EXACT:
        assert params == EXACT[name]


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", GMACS)
def test_multiply_accumulates_are_within_three_percent_of_the_published(name: str) -> None:
    count = macs(build(name))
    assert count.total / 1e9 == pytest.approx(GMACS[name], rel=0.03)
    assert not count.at_least


@pytest.mark.parametrize(("name", "source"), smallest())
def test_a_model_of_each_family_computes_the_same_in_each_mode(name: str, source: str) -> None:
    entry = ENTRIES[name]
    spec = of_catalog(name, source, _smallest_resolution(entry))
    built = built_models.build(spec)
    rng = np.random.default_rng(0)
    building.calibrate(built, 4, rng)
    batch = draw(built.inputs, 1, rng)
    eager, *others = (
        modes.ModeExecutable.bind(built.call, mode, [batch]).outputs()
        for mode in (Mode.EAGER, Mode.GRAPH, Mode.XLA)
    )
    kind: dict[str, Any] = {"precision": Precision.FLOAT32}
    kind["classes"] = entry.task == "classification"
    for outputs in others:
        result = agreement.compare(outputs, eager, **kind)
        if not result.ok:  # not as close to eager as allowed, but perhaps as close to the truth
            (reference,) = float64_outputs(modes.ENGINE, spec, built, [batch])
            result = agreement.compare(outputs, eager, reference, **kind)
        assert result.ok, result.reason


@pytest.mark.parametrize(
    "name",
    ["mobilenet_v3_small", *map(nightly, ("regnetx_002", "efficientnetb0", "nasnet_mobile"))],
)
def test_calibration_gives_untrained_logits_that_mean_something(name: str) -> None:
    built = build(name, 96)
    batch = images(built)
    layers = built.loaded.keras_model.layers
    layers = [layer for layer in layers if type(layer).__name__ == "BatchNormalization"]
    momenta = [layer.momentum for layer in layers]
    before = np.abs(np.asarray(built.call(tf.constant(batch)))).max()
    building.calibrate(built, 4, np.random.default_rng(0))
    logits = np.asarray(built.call(tf.constant(batch)))
    assert not 0.01 < before < 10, "this model would not need it"
    assert [layer.momentum for layer in layers] == momenta
    assert momenta[0] == 0.999
    assert logits.shape == (4, 1000)
    assert logits.min() < 0, "no probabilities"
    assert np.isfinite(logits).all()
    assert 0.05 < np.abs(logits).max() < 50
    assert logits.std(axis=0).mean() > 0.01


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("resnet18", "keras_cv"),
        *(nightly("efficientnetv2b0", source) for source in ("applications", "keras_cv")),
    ],
)
def test_calibration_reaches_batch_normalization_in_other_layers(name: str, source: str) -> None:
    built = build(name, 96, source=source)
    building.calibrate(built, 4, np.random.default_rng(0))
    variables = built.loaded.keras_model.variables
    variances = [one for one in variables if one.path.endswith("moving_variance")]
    assert len(variances) >= 20
    assert [one.path for one in variances if np.all(np.asarray(one) == 1)] == []


@pytest.mark.slow
@pytest.mark.exhaustive  # daily: test_the_float64_reference_makes_the_call_of_the_scenario
@pytest.mark.parametrize("name", ["mobilenet_v2", "regnetx_002", "convnext_tiny"])
def test_the_float64_twin_computes_the_same_with_smaller_errors(name: str) -> None:
    spec = of_catalog(name, "applications", 64)
    built = built_models.build(spec)
    batch = images(built)
    building.calibrate(built, 4, np.random.default_rng(0))
    ((reference,),) = float64_outputs(modes.ENGINE, spec, built, [batch[:2]])
    assert reference.dtype == np.float64
    logits = np.asarray(built.call(tf.constant(batch)))[:2]
    error = np.abs(logits - reference).max() / np.abs(reference).max()
    assert 0 < error < 1e-4
    assert keras.config.floatx() == "float32"
    assert keras.config.dtype_policy().name == "float32"


@pytest.mark.parametrize(
    ("name", "source"), [("mobilenet_v2", "applications"), ("tiny_dense", "examples")]
)
def test_the_catalog_is_built_as_published_whatever_keras_json_says(
    name: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in {"_FLOATX": "float16", "_IMAGE_DATA_FORMAT": "channels_first"}.items():
        monkeypatch.setattr(keras.src.backend.config, key, value)
    built = built_models.build(of_catalog(name, source))
    assert {weight.dtype for weight in built.loaded.variables} == {"float32"}
    shape = tuple(built.call(images(built)[:1]).shape)
    assert shape == {"mobilenet_v2": (1, 1000), "tiny_dense": (1, 1)}[name]


def test_the_float64_reference_makes_the_call_of_the_scenario() -> None:
    def negated(loaded: LoadedModel, given: ModelSpec) -> Callable[[Any], Any]:
        return lambda batch: -loaded.forward(batch)

    asked = built_models.own(f"{SUPPORT}/own_models.py:build", resolution=32)
    built = built_models.build(asked, step=negated)
    batch = images(built)
    ((reference,),) = float64_outputs(modes.ENGINE, asked, built, [batch[:2]])
    assert reference.dtype == np.float64
    outputs = np.asarray(built.call(tf.constant(batch)))[:2]
    assert 0 < np.abs(outputs - reference).max() < 1e-3 * np.abs(reference).max()


@pytest.mark.slow
@pytest.mark.exhaustive  # daily: test_sources.py
def test_mixed_precision_computes_in_half_and_gives_float32_logits() -> None:
    half_precision.require("mixed_bfloat16")
    built = build("mobilenet_v1", 32, Precision.MIXED_BFLOAT16)
    assert built.loaded.keras_model.layers[1].compute_dtype == "bfloat16"
    assert built.call(tf.constant(images(built))).dtype == tf.float32
    assert keras.config.dtype_policy().name == "float32"


def test_the_same_seed_gives_the_same_weights() -> None:
    first, second = (
        build("mnist_mlp", 8, source="examples").loaded.keras_model.get_weights()[0]
        for _ in range(2)
    )
    assert np.array_equal(first, second)


def test_weights_from_a_file_are_loaded(tmp_path: os.PathLike[str]) -> None:
    path = f"{tmp_path}/mine.weights.h5"
    first = built_models.build(of_catalog("mobilenet_v1", "applications", 32), seed=1)
    first.loaded.keras_model.save_weights(path)
    spec = of_catalog("mobilenet_v1", "applications", 32, weights=path)
    models = (first.loaded.keras_model, built_models.build(spec, seed=2).loaded.keras_model)
    assert np.array_equal(*(model.get_weights()[0] for model in models))


def test_pretrained_weights_without_a_network_are_refused_in_one_line(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import keras.src.utils.file_utils as file_utils

    refuse = mock.Mock(side_effect=URLError("Name or service not known"))
    monkeypatch.setattr(file_utils, "urlretrieve", refuse)
    monkeypatch.setattr(file_utils.config, "keras_home", lambda: str(tmp_path))
    spec = of_catalog("mobilenet_v2", "applications", 224, weights="imagenet")
    assert built_models.refusal_of(spec).startswith(
        "weights=imagenet: mobilenet_v2's weights could not be downloaded; check the network"
    )
