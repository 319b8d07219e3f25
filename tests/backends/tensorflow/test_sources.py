"""Every source: how models are built, loaded, adapted and called, and how they fail."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import half_precision
import numpy as np
import pytest
import tensorflow as tf
from built_models import QUIET, batch_of, build, outputs, own, refusal_of
from catalog_models import of_catalog

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.rounding import float64_outputs
from xla_sweeps.backends.tensorflow import hub_architectures, modes
from xla_sweeps.backends.tensorflow.bench import macs
from xla_sweeps.backends.tensorflow.scenarios.detect import DetectBench
from xla_sweeps.config import catalog
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.trial import InputSpec, ModelSpec, Precision
from xla_sweeps.worker import agreement

pytestmark = [*QUIET, pytest.mark.usefixtures("in_support")]


HANDLE = "https://tfhub.dev/someone/net/1"


def nightly(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.exhaustive)


def test_a_recipe_is_built_at_the_asked_resolution_and_its_head_of_zeros_made_again() -> None:
    built = build(of_catalog("resnet18", "keras_cv", 64))
    assert built.params == 11_699_112
    assert outputs(built)[0].shape == (2, 1000)
    assert built.loaded.keras_model.input_shape == (None, 64, 64, 3)
    head = built.loaded.keras_model.layers[-1]
    head.kernel.assign(tf.zeros_like(head.kernel))
    building.calibrate(built, 4, np.random.default_rng(0))
    assert outputs(built)[0].std() > 0.01


def test_a_detector_returns_its_heads_or_the_boxes_after_suppression() -> None:
    spec = of_catalog("yolo_v8_xs", "keras_cv", 64)
    built = build(spec, step=DetectBench.step)
    boxes_kept, confidences, labels, counts = outputs(built)
    boxes, classes = outputs(replace(built, call=built.loaded.forward))
    assert boxes.shape == (2, 84, 64)
    assert classes.shape == (2, 84, 20)
    assert boxes_kept.shape == (2, 100, 4)
    assert confidences.shape == labels.shape == (2, 100)
    assert (counts > 10).all(), "nothing is thrown away before suppression"


@pytest.mark.exhaustive
def test_suppression_keeps_no_two_boxes_of_a_class_that_overlap() -> None:
    built = build(of_catalog("yolo_v8_xs", "keras_cv", 96), step=DetectBench.step)
    building.calibrate(built, 4, np.random.default_rng(1))
    boxes, confidences, _, (count, *_) = outputs(built, 1)
    x, y, width, height = boxes[0, :count].T
    left, top = np.maximum(x[:, None], x), np.maximum(y[:, None], y)
    right, bottom = (
        np.minimum((x + width)[:, None], x + width),
        np.minimum((y + height)[:, None], y + height),
    )
    shared = np.clip(right - left, 0, None) * np.clip(bottom - top, 0, None)
    area = width * height
    overlap = shared / (area[:, None] + area - shared)
    assert (overlap[~np.eye(count, dtype=bool)] < 0.75).all()
    assert (np.diff(confidences[0, :count]) <= 1e-6).all()


def test_the_example_of_fusion_sums_each_sample_in_both_precisions() -> None:
    spec = of_catalog("fusion_example", "examples", 16)
    built = build(spec)
    assert [(tensor.name, tensor.shape) for tensor in built.inputs] == [
        (name, (16, 16)) for name in "xyz"
    ]
    batch = batch_of(built, 3)
    x, y, z = (np.asarray(values, dtype=np.float64) for values in batch)
    wanted = (x + y * z).sum(axis=(1, 2))
    assert built.call(batch).numpy() == pytest.approx(wanted, rel=1e-5)
    ((reference,),) = float64_outputs(modes.ENGINE, spec, built, [batch])
    assert reference == pytest.approx(wanted, rel=1e-12)
    assert built.params == macs(built).total == 0


@pytest.mark.exhaustive
def test_the_models_of_the_public_questions_about_predict_stay_finite_in_both_kerases() -> None:
    for name, params in (
        ("tiny_dense", 13),
        ("seq_conv", 1_638_657),
        ("seq_conv_lstm", 40_446_593),
    ):
        spec = of_catalog(name, "examples", None)
        built = build(replace(spec, recipe={**spec.recipe, "library": "tf_keras"}))
        assert type(built.loaded.keras_model).__module__.startswith("tf_keras")
        assert built.params == build(spec).params == params
        batch = batch_of(built)
        answers = built.call(batch).numpy()
        assert (answers > 0.01).all()
        assert (answers < 0.99).all()
        assert np.ptp(answers) > 1e-3


@pytest.mark.parametrize(
    "name", ["mnist_mlp", *map(nightly, ("tiny_dense", "seq_conv", "seq_conv_lstm"))]
)
@pytest.mark.parametrize(
    ("precision", "library"),
    [
        (Precision.MIXED_BFLOAT16, "tf_keras"),
        nightly(Precision.MIXED_BFLOAT16, "keras"),
        nightly(Precision.MIXED_FLOAT16, "keras"),
        nightly(Precision.MIXED_FLOAT16, "tf_keras"),
    ],
)
def test_an_example_made_of_layers_computes_in_the_asked_precision(
    precision: Precision, library: str, name: str
) -> None:
    half_precision.require(precision)
    half = str(precision).removeprefix("mixed_")
    spec = of_catalog(name, "examples", None if name == "tiny_dense" else 8)
    spec = replace(spec, recipe={**spec.recipe, "library": library})
    built = build(spec, precision=precision)
    first = built.loaded.keras_model.layers[1]
    assert (first.compute_dtype, first.variable_dtype) == (half, "float32")
    batch = batch_of(built)
    outputs_of_call = built.call(batch)
    assert outputs_of_call.dtype == tf.float32
    assert np.ptp(outputs_of_call.numpy()) > 1e-5  # else nothing could be verified
    ((reference,),) = float64_outputs(modes.ENGINE, spec, built, [batch])
    error = np.abs(outputs_of_call.numpy() - reference).max() / np.abs(reference).max()
    assert 0 < error < agreement.TOLERANCE[precision]


def test_an_example_that_is_not_there_is_refused() -> None:
    spec = of_catalog("fusion_example", "examples", 16)
    said = refusal_of(replace(spec, recipe={"constructor": "sum_of_product"}), kind=ConfigError)
    assert "Did you mean 'sum_of_products'" in said


def test_a_constructor_that_the_installed_version_lacks_is_refused_in_one_line() -> None:
    spec = of_catalog("resnet18", "keras_cv", 64)
    other = replace(spec, recipe={**spec.recipe, "constructor": "ResNet9000"})
    said = refusal_of(other, kind=ConfigError)
    assert re.search(r"keras_cv 0\.9\.\d has no 'ResNet9000'", said)
    other = replace(of_catalog("regnetx_002", "applications"), library="keras")
    said = refusal_of(other, kind=ConfigError)
    assert "keras.applications has no 'RegNetX002' in the installed version" in said


@pytest.mark.parametrize("library", ["keras_hub", *map(nightly, ("keras_cv", "tensorflow_hub"))])
def test_a_broken_library_disables_only_its_own_source(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name == library or (library == "tensorflow_hub" and name.endswith("sources.hub")):
            raise AttributeError("module 'keras' has no attribute 'gone'\nin version 4")
        return import_module(name, *arguments, **keywords)

    monkeypatch.setattr("xla_sweeps.backends.keras.sources.import_module", broken)
    monkeypatch.setattr("xla_sweeps.backends.keras.sources.recipes.import_module", broken)
    specs = {
        "keras_cv": of_catalog("resnet18", "keras_cv", 32),
        "keras_hub": of_catalog("resnet18", "keras_hub", 32),
        "tensorflow_hub": of_hub("imagenet"),
    }
    said = refusal_of(specs[library])
    assert library in said
    assert "has no attribute 'gone'" in said
    other = "keras_hub" if library == "keras_cv" else "keras_cv"
    assert build(specs[other]).params == 11_699_112


def test_a_preset_that_cannot_be_downloaded_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path))
    said = refusal_of(of_catalog("resnet50v2", "keras_cv", weights="no_such_preset"))
    assert said.startswith(
        "weights=no_such_preset: the preset 'no_such_preset' of keras_cv could not be loaded"
    )


class Exported(tf.Module):
    def __init__(self, shape: tuple[int | None, ...]) -> None:
        self.scale = tf.Variable(2.0)
        self.shift = tf.Variable([1.0], trainable=False)
        self.__call__ = tf.function(
            lambda images: images * self.scale + self.shift,
            input_signature=[tf.TensorSpec(shape, tf.float32)],
        )


def test_a_module_is_called_and_has_its_variables_and_no_float64_twin(tmp_path: Path) -> None:
    tf.saved_model.save(Exported((None, 8, 8, 3)), str(tmp_path / "m"))
    spec = own(str(tmp_path / "m"))
    built = build(spec)
    assert built.inputs == (InputSpec(shape=(8, 8, 3)),)
    assert (built.params, built.trainable_params) == (2, 1)
    assert built.loaded.eager_is_graph
    assert np.allclose(built.call(tf.ones((2, 8, 8, 3))), 3.0)
    with pytest.raises(XlaSweepsError, match="dtypes are fixed"):
        float64_outputs(modes.ENGINE, spec, built, [tf.ones((1, 8, 8, 3))])


def test_a_keras_export_is_served(tmp_path: Path) -> None:
    import own_models

    own_models.build(32).export(str(tmp_path / "m"), verbose=False)
    built = build(own(str(tmp_path / "m")))
    assert outputs(built)[0].shape == (2, 10)
    assert built.params == 3 * 3 * 3 * 8 + 8 + 8 * 10 + 10


def test_a_signature_is_called_by_name_and_gives_outputs_by_name(tmp_path: Path) -> None:
    class Signed(tf.Module):
        @tf.function(
            input_signature=[tf.TensorSpec((None, 4), name="a"), tf.TensorSpec((None, 4), name="b")]
        )
        def both(self, a: Any, b: Any) -> dict[str, Any]:
            return {"less": a - b}

    module = Signed()
    tf.saved_model.save(module, str(tmp_path / "m"), signatures={"serving_default": module.both})
    built = build(own(str(tmp_path / "m")))
    assert [tensor.name for tensor in built.inputs] == ["a", "b"]
    assert np.allclose(built.call((tf.ones((2, 4)) * 5, tf.ones((2, 4))))["less"], 4.0)


def test_a_saved_model_without_a_function_is_refused_in_one_line(tmp_path: Path) -> None:
    tf.saved_model.save(tf.Module(), str(tmp_path / "m"))
    said = refusal_of(own(str(tmp_path / "m")))
    assert "nothing to call: no __call__, serve or serving_default" in said


def test_free_sizes_must_be_given_and_fixed_ones_are_kept(tmp_path: Path) -> None:
    tf.saved_model.save(Exported((None, None, None, 3)), str(tmp_path / "free"))
    tf.saved_model.save(Exported((1, 16, 16, 3)), str(tmp_path / "fixed"))
    said = refusal_of(own(str(tmp_path / "free")))
    assert re.search(r"the input \w+ \(free, free, 3\) has free sizes; give resolution=224", said)
    assert build(own(str(tmp_path / "free"), resolution=24)).inputs[0].shape == (24, 24, 3)
    assert build(own(str(tmp_path / "free"), shapes=[24, 32])).inputs[0].shape == (24, 24, 3)
    assert build(own(str(tmp_path / "fixed"))).loaded.batch == 1
    said = refusal_of(own(str(tmp_path / "fixed"), resolution=24))
    assert re.search(r"the input \w+ is fixed at 16 x 16 px; omit resolution=24", said)


def of_hub(weights: str) -> ModelSpec:
    entry: dict[str, Any] = {"name": "net", "family": "F", "variant": "V", "resolution": 8}
    hub = {"handle": HANDLE, "fixed_resolution": True}
    entry |= {"task": "classification", "sources": {"hub": hub}}
    return catalog.model_spec(entry, source="hub", resolution=None, weights=weights)


def test_a_handle_is_found_in_the_hubs_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tensorflow_hub.resolver.DEFAULT_CACHE", str(tmp_path), raising=False)
    tf.saved_model.save(
        Exported((None, 8, 8, 3)), str(tmp_path / hashlib.sha1(HANDLE.encode()).hexdigest())
    )
    built = build(of_hub("imagenet"))
    assert np.allclose(built.call(tf.ones((2, 8, 8, 3))), 3.0)
    assert (built.loaded.eager_is_graph, built.loaded.replica_of) == (True, "")


def test_a_handle_that_cannot_be_downloaded_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))

    refuse = mock.Mock(side_effect=OSError("no route to host"))
    monkeypatch.setattr("urllib.request.OpenerDirector.open", refuse)
    said = refusal_of(of_hub("imagenet"))
    assert said.startswith(f"weights=imagenet: {HANDLE} could not be loaded (")
    assert "TFHUB_CACHE_DIR, or use weights=random" in said


def test_a_folder_works_as_a_handle(tmp_path: Path) -> None:
    tf.saved_model.save(Exported((None, 8, 8, 3)), str(tmp_path / "m"))
    assert np.allclose(build(of_hub(str(tmp_path / "m"))).call(tf.ones((2, 8, 8, 3))), 3.0)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name", ["deit_tiny_distilled_patch16_224", "mixer_b32", "vit_r26_s32", "swin_s3_tiny_224"]
)
def test_an_architecture_of_each_family_computes_the_same_in_eager_graph_and_xla(name: str) -> None:
    model = hub_architectures.build(name)
    images = tf.constant(
        np.random.default_rng(0).uniform(0, 255, (1, *model.input_shape[1:])).astype(np.float32)
    )

    def heads(mode: Mode) -> list[np.ndarray]:
        executable = modes.ModeExecutable.bind(
            lambda batch: model(batch, training=False), mode, [images]
        )
        return executable.outputs()

    eager = heads(Mode.EAGER)
    assert [head.shape for head in eager] == [(1, 1000)] * (2 if "distilled" in name else 1)
    for mode in (Mode.GRAPH, Mode.XLA):
        assert agreement.compare(heads(mode), eager, precision=Precision.FLOAT32, classes=True).ok
