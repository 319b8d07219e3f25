"""Every source: how models are built, loaded, adapted and called, and how they fail."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import half_precision
import keras
import numpy as np
import pytest
import tensorflow as tf
from catalog_models import of_catalog
from keras_files import write_keras_file
from paths import SUPPORT

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.sources import trains_always
from xla_sweeps.backends.keras.sources.inputs import draw, from_specs
from xla_sweeps.backends.tensorflow import hub_architectures, models, modes
from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.backends.tensorflow.explain.graph import traced_ops
from xla_sweeps.backends.tensorflow.explain.traps import random_places
from xla_sweeps.backends.tensorflow.operations import compiled_inside
from xla_sweeps.backends.tensorflow.scenarios.detect import DetectBench
from xla_sweeps.backends.tensorflow.sources import saved_model
from xla_sweeps.config import catalog, local_model
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.trial import InputSpec, ModelSpec, Precision
from xla_sweeps.worker import agreement

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


HANDLE = "https://tfhub.dev/someone/net/1"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(SUPPORT)
    monkeypatch.syspath_prepend(str(SUPPORT))
    yield
    keras.backend.clear_session()


def own(path: str, **given: Any) -> ModelSpec:
    asked = {"model": {"name": "local"}, "path": path, "trust_code": True, "input_spec": None}
    return local_model.user_model_spec({**asked, **given})


def build(spec: ModelSpec, **changes: Any) -> building.BuiltModel:
    return models.build(spec, **{"precision": Precision.FLOAT32, "seed": 0, **changes})


def outputs(built: building.BuiltModel, count: int = 2) -> list[np.ndarray]:
    return [
        np.asarray(output)
        for output in tf.nest.flatten(
            built.call(draw(built.inputs, count, np.random.default_rng(0)))
        )
    ]


def test_every_part_of_a_recipe_is_built_at_the_requested_resolution() -> None:
    built = build(of_catalog("resnet18", "keras_cv", 64))
    assert built.params == 11_699_112
    assert outputs(built)[0].shape == (2, 1000)
    assert built.loaded.keras_model.input_shape == (None, 64, 64, 3)


def test_a_detector_returns_its_heads_or_the_boxes_after_suppression() -> None:
    spec = of_catalog("yolo_v8_xs", "keras_cv", 64)
    boxes, classes = outputs(build(spec))
    assert boxes.shape == (2, 84, 64)
    assert classes.shape == (2, 84, 20)
    boxes_kept, confidences, labels, counts = outputs(build(spec, step=DetectBench.step))
    assert boxes_kept.shape == (2, 100, 4)
    assert confidences.shape == labels.shape == (2, 100)
    assert (counts > 10).all(), "nothing is thrown away before suppression"


@pytest.mark.exhaustive
def test_suppression_keeps_no_two_boxes_of_a_class_that_overlap() -> None:
    built = build(of_catalog("yolo_v8_xs", "keras_cv", 96), step=DetectBench.step)
    building.calibrate(built, draw(built.inputs, 4, np.random.default_rng(1)))
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
    batch = draw(built.inputs, 3, np.random.default_rng(0))
    x, y, z = (np.asarray(values, dtype=np.float64) for values in batch)
    wanted = (x + y * z).sum(axis=(1, 2))
    assert built.call(batch).numpy() == pytest.approx(wanted, rel=1e-5)
    (reference,) = Bench.float64_outputs(spec, built, batch)
    assert reference == pytest.approx(wanted, rel=1e-12)
    assert built.params == models.macs(built).total == 0


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
        batch = draw(built.inputs, 2, np.random.default_rng(0))
        answers = built.call(batch).numpy()
        assert (answers > 0.01).all()
        assert (answers < 0.99).all()
        assert np.ptp(answers) > 1e-3


@pytest.mark.parametrize(
    "name",
    [
        *("tiny_dense", "mnist_mlp", "seq_conv"),
        pytest.param("seq_conv_lstm", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.parametrize(
    ("precision", "library"),
    [
        (Precision.MIXED_BFLOAT16, "tf_keras"),
        *(
            pytest.param(precision, library, marks=pytest.mark.exhaustive)
            for precision, library in (
                (Precision.MIXED_BFLOAT16, "keras"),
                (Precision.MIXED_FLOAT16, "keras"),
                (Precision.MIXED_FLOAT16, "tf_keras"),
            )
        ),
    ],
)
def test_an_example_made_of_layers_computes_in_the_asked_precision(
    precision: Precision, library: str, name: str
) -> None:
    half_precision.require(precision)
    half = str(precision).removeprefix("mixed_")
    spec = of_catalog(name, "examples", None if name == "tiny_dense" else 8)
    spec = replace(spec, recipe={**spec.recipe, "library": library})
    built = models.build(spec, precision=precision, seed=0)
    first = built.loaded.keras_model.layers[1]
    assert (first.compute_dtype, first.variable_dtype) == (half, "float32")
    batch = draw(built.inputs, 2, np.random.default_rng(0))
    outputs_of_call = built.call(batch)
    assert outputs_of_call.dtype == tf.float32
    assert np.ptp(outputs_of_call.numpy()) > 1e-5  # else nothing could be verified
    (reference,) = Bench.float64_outputs(spec, built, batch)
    error = np.abs(outputs_of_call.numpy() - reference).max() / np.abs(reference).max()
    assert 0 < error < agreement.TOLERANCE[precision]


def test_an_example_that_is_not_there_is_refused() -> None:
    spec = of_catalog("fusion_example", "examples", 16)
    with pytest.raises(ConfigError, match="Did you mean 'sum_of_products'"):
        build(replace(spec, recipe={"constructor": "sum_of_product"}))


def test_a_head_of_zeros_is_initialized_again() -> None:
    built = build(of_catalog("resnet18", "keras_cv", 32))
    head = built.loaded.keras_model.layers[-1]
    head.kernel.assign(tf.zeros_like(head.kernel))
    building.calibrate(built, draw(built.inputs, 4, np.random.default_rng(0)))
    assert outputs(built)[0].std() > 0.01


def test_a_constructor_that_the_installed_version_lacks_is_refused_in_one_line() -> None:
    spec = of_catalog("resnet18", "keras_cv", 64)
    with pytest.raises(ConfigError, match=r"keras_cv 0\.9\.\d has no 'ResNet9000'"):
        build(replace(spec, recipe={**spec.recipe, "constructor": "ResNet9000"}))


@pytest.mark.parametrize(
    "library",
    [
        "keras_hub",
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in ("keras_cv", "tensorflow_hub")
        ),
    ],
)
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
    with pytest.raises(XlaSweepsError) as caught:
        build(specs[library])
    assert library in str(caught.value)
    assert "has no attribute 'gone'" in str(caught.value)
    other = "keras_hub" if library == "keras_cv" else "keras_cv"
    assert build(specs[other]).params == 11_699_112


def test_a_preset_that_cannot_be_downloaded_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path))
    with pytest.raises(XlaSweepsError) as caught:
        build(of_catalog("resnet50v2", "keras_cv", weights="no_such_preset"))
    assert str(caught.value).startswith(
        "weights=no_such_preset: the preset 'no_such_preset' of keras_cv could not be loaded"
    )
    assert "\n" not in str(caught.value)


def test_weights_of_a_file_are_loaded_into_a_recipe(tmp_path: Path) -> None:
    first = build(of_catalog("resnet18", "keras_cv", 32), seed=1)
    path = str(tmp_path / "mine.weights.h5")
    first.loaded.keras_model.save_weights(path)
    second = build(of_catalog("resnet18", "keras_cv", 32, weights=path), seed=2)
    assert np.array_equal(
        first.loaded.keras_model.get_weights()[0], second.loaded.keras_model.get_weights()[0]
    )


class Exported(tf.Module):
    def __init__(self, shape: tuple[int | None, ...]) -> None:
        self.scale = tf.Variable(2.0)
        self.shift = tf.Variable([1.0], trainable=False)
        self.__call__ = tf.function(
            lambda images: images * self.scale + self.shift,
            input_signature=[tf.TensorSpec(shape, tf.float32)],
        )


def test_a_module_is_called_and_its_variables_are_found(tmp_path: Path) -> None:
    tf.saved_model.save(Exported((None, 8, 8, 3)), str(tmp_path / "m"))
    built = build(own(str(tmp_path / "m")))
    assert built.inputs == (InputSpec(shape=(8, 8, 3)),)
    assert (built.params, built.trainable_params) == (2, 1)
    assert built.loaded.eager_is_graph
    assert np.allclose(built.call(tf.ones((2, 8, 8, 3))), 3.0)


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
    with pytest.raises(
        XlaSweepsError, match="nothing to call: no __call__, serve or serving_default"
    ):
        build(own(str(tmp_path / "m")))


def test_free_sizes_must_be_given_and_fixed_ones_are_kept(tmp_path: Path) -> None:
    tf.saved_model.save(Exported((None, None, None, 3)), str(tmp_path / "free"))
    tf.saved_model.save(Exported((1, 16, 16, 3)), str(tmp_path / "fixed"))
    with pytest.raises(
        XlaSweepsError,
        match=r"the input \w+ \(free, free, 3\) has free sizes; give resolution=224",
    ):
        build(own(str(tmp_path / "free")))
    assert build(own(str(tmp_path / "free"), resolution=24)).inputs[0].shape == (24, 24, 3)
    assert build(own(str(tmp_path / "fixed"))).loaded.batch == 1
    with pytest.raises(
        XlaSweepsError, match=r"the input \w+ is fixed at 16 x 16 px; omit resolution=24"
    ):
        build(own(str(tmp_path / "fixed"), resolution=24))


def test_a_saved_model_has_no_float64_twin(tmp_path: Path) -> None:
    tf.saved_model.save(Exported((None, 8, 8, 3)), str(tmp_path / "m"))
    spec = own(str(tmp_path / "m"))
    with pytest.raises(XlaSweepsError, match="dtypes are fixed"):
        Bench.float64_outputs(spec, build(spec), tf.ones((1, 8, 8, 3)))


def of_hub(weights: str) -> ModelSpec:
    entry = {
        "name": "net",
        "family": "F",
        "variant": "V",
        "task": "classification",
        "resolution": 8,
        "sources": {"hub": {"handle": HANDLE, "fixed_resolution": True}},
    }
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

    def refuse(*arguments: object, **keywords: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr("urllib.request.OpenerDirector.open", refuse)
    with pytest.raises(XlaSweepsError) as caught:
        build(of_hub("imagenet"))
    assert str(caught.value).startswith(f"weights=imagenet: {HANDLE} could not be loaded (")
    assert "TFHUB_CACHE_DIR, or use weights=random" in str(caught.value)


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


@pytest.mark.parametrize("suffix", ["keras", "h5"])
def test_a_keras_file_is_loaded_with_its_weights(suffix: str, tmp_path: Path) -> None:
    import own_models

    model = own_models.build(32)
    path = str(tmp_path / f"net.{suffix}")
    model.save(path)
    built = build(own(path))
    images = draw(built.inputs, 2, np.random.default_rng(0))
    assert built.inputs == (InputSpec(shape=(32, 32, 3)),)
    assert np.allclose(built.call(images), model(images), atol=1e-6)


def test_a_file_that_is_not_a_model_is_refused_in_one_line(tmp_path: Path) -> None:
    write_keras_file(tmp_path / "net.keras")
    with pytest.raises(XlaSweepsError) as caught:
        build(own(str(tmp_path / "net.keras")))
    assert f"path={tmp_path}/net.keras: Keras {keras.__version__} cannot load it" in str(
        caught.value
    )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "path", ["own_models:build", "own_models.py:build", str(SUPPORT / "own_models.py:build")]
)
def test_a_function_builds_at_the_resolution_asked_for(path: str) -> None:
    assert build(own(path)).inputs[0].shape == (96, 96, 3)
    built = build(own(path, resolution=40))
    assert built.inputs[0].shape == (40, 40, 3)
    assert outputs(built)[0].shape == (2, 10)


def test_a_functions_model_has_a_float64_twin() -> None:
    spec = own("own_models:build", resolution=32)
    built = build(spec)
    batch = draw(built.inputs, 2, np.random.default_rng(0))
    (reference,) = Bench.float64_outputs(spec, built, batch)
    assert reference.dtype == np.float64
    assert 0 < np.abs(np.asarray(built.call(batch)) - reference).max() < 1e-3


def test_several_inputs_are_read_from_the_model_and_reach_it_by_name() -> None:
    built = build(own("own_models:two_inputs"))
    assert {tensor.name: (tensor.shape, tensor.dtype) for tensor in built.inputs} == {
        "tokens": ((16,), "int32"),
        "image": ((32, 32, 3), "float32"),
    }
    assert [output.shape for output in outputs(built)] == [(2, 4), (2, 8)]
    count = models.macs(built)
    assert count.total == 30 * 30 * 8 * 27 + 16 * 4
    assert not count.at_least


def test_inputs_that_are_given_by_name_reach_the_model_by_name_in_whatever_order() -> None:
    given = [
        {"shape": [32, 32, 3], "name": "image"},
        {"shape": [16], "dtype": "int32", "low": 1, "high": 2, "name": "tokens"},
    ]
    built = build(own("own_models:two_inputs", input_spec=given))
    assert [tensor.name for tensor in built.inputs] == ["image", "tokens"]
    assert [output.shape for output in outputs(built)] == [(2, 4), (2, 8)]


def test_a_model_of_any_size_requires_a_resolution() -> None:
    with pytest.raises(XlaSweepsError, match="has free sizes; give resolution=224"):
        build(own("own_models:of_any_size"))
    assert build(own("own_models:of_any_size", resolution=20)).inputs[0].shape == (20, 20, 3)


def test_a_subclassed_model_makes_its_variables_before_it_is_traced() -> None:
    with pytest.raises(XlaSweepsError, match="unknown inputs; give resolution=224"):
        build(own("own_models:Subclassed"))
    assert build(own("own_models:Subclassed", resolution=16)).params == 3 * 3 * 3 * 4 + 4


def test_any_callable_is_called_with_its_inputs_by_name_or_in_order() -> None:
    for names in (("image", "scale"), ("", "")):
        given = [{"shape": [8, 8, 3], "name": names[0]}, {"shape": [], "name": names[1]}]
        built = build(own("own_models:Scaled", input_spec=given))
        assert outputs(built)[0].shape == (2, 8, 8, 8)
        assert built.params == 5 * 5 * 3 * 8
        assert not built.loaded.eager_is_graph


def test_a_tf_function_is_a_graph_even_when_it_is_called_eagerly() -> None:
    assert build(own("own_models:restored", resolution=8)).loaded.eager_is_graph


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("own_models:nothing", "unknown function of own_models.py 'nothing'. Did you mean"),
        ("own_models:NUMBER", "returned a int, which cannot be called on a batch"),
        ("own_models:breaks", "own_models:breaks failed: RuntimeError: the weights are elsewhere"),
        ("broken.py:build", "broken.py, line 1: not valid Python: "),
    ],
)
def test_a_function_that_returns_no_model_is_refused_in_one_line(
    path: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("def build(:\n")
    monkeypatch.chdir(tmp_path if path.startswith("broken") else SUPPORT)
    with pytest.raises(XlaSweepsError) as caught:
        build(own(path))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_inputs_are_drawn_within_their_bounds_and_types() -> None:
    specs = (
        InputSpec(shape=(50,), dtype="int32", high=7),
        InputSpec(shape=(50,), dtype="bool", high=2),
    )
    numbers, truths = draw(specs, 4, np.random.default_rng(0))
    assert numbers.dtype == tf.int32
    assert set(np.unique(numbers)) == set(range(7))
    assert truths.dtype == tf.bool
    assert set(np.unique(truths)) == {False, True}


def test_the_adapter_prefers_a_trace_that_does_not_train(tmp_path: Path) -> None:
    class Trained(tf.Module):
        @tf.function
        def __call__(self, x: Any, training: bool = False) -> Any:
            return x * 0 + (1.0 if training else 2.0)

    module = Trained()
    for training in (True, False):
        module(tf.ones((1, 4)), training=training)
    tf.saved_model.save(module, str(tmp_path / "m"))
    saved = tf.saved_model.load(str(tmp_path / "m"))
    adapted = saved_model.adapt(saved, where="m", inputs=(), resolution=None)
    assert np.allclose(adapted.forward(tf.ones((1, 4))), 2.0)


def test_a_layer_that_was_called_with_training_stays_as_it_was_written() -> None:
    built = build(own("own_models:dropping"))
    images = draw(built.inputs, 2, np.random.default_rng(0))
    first, second = (np.asarray(built.call(images)) for _ in range(2))
    assert not np.array_equal(first, second)
    concrete = tf.function(built.call).get_concrete_function(images)
    assert random_places(traced_ops(concrete, {}))
    plain = build(own("own_models:build", resolution=32))
    assert not trains_always(plain.loaded.keras_model)


FORMS = (
    "augmented",
    "augmented_by_a_sequential",
    "augmented_in_sequentials",
    "augmented_by_a_pipeline",
)


@pytest.mark.parametrize(
    ("form", "in_file"),
    [
        (form, in_file)
        if (form, in_file) == (FORMS[2], False)
        else pytest.param(form, in_file, marks=pytest.mark.exhaustive)
        for form in FORMS
        for in_file in (False, True)
    ],
)
def test_layers_that_augment_do_nothing_in_inference(
    form: str, in_file: bool, tmp_path: Path
) -> None:
    import own_models

    path = f"own_models:{form}"
    if in_file:
        path = str(tmp_path / "net.keras")
        getattr(own_models, form)().save(path)
    built = build(own(path))
    images = draw(built.inputs, 2, np.random.default_rng(0))
    eager, again, compiled = (
        np.asarray(call(images))
        for call in (built.call, built.call, tf.function(built.call, jit_compile=True))
    )
    assert np.array_equal(eager, again)
    assert np.allclose(eager, built.loaded.keras_model.predict(images, verbose=0), atol=1e-5)
    assert np.allclose(eager, compiled, atol=1e-5)
    concrete = tf.function(built.call).get_concrete_function(images)
    assert not random_places(traced_ops(concrete, {}))


LAYERS = """
import keras


class Gate(keras.layers.Layer):
    def call(self, x):
        return x * keras.ops.sigmoid(x)


def make(path):
    image = keras.Input((8, 8, 3))
    keras.Model(image, Gate()(image)).save(path)
"""


def test_a_keras_file_with_custom_layers_needs_the_module_that_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers, path = tmp_path / "my_layers.py", str(tmp_path / "gated.keras")
    layers.write_text(LAYERS)
    with monkeypatch.context() as elsewhere:
        elsewhere.syspath_prepend(str(tmp_path))
        import_module("my_layers").make(path)
    del sys.modules["my_layers"]
    with pytest.raises(XlaSweepsError) as caught:
        build(own(path))
    assert str(caught.value) == (
        f"path={path}: unknown layer 'Gate' of the module my_layers; give the module or file that "
        "has it: add import=my_layers.py"
    )
    spec = own(path, **{"import": str(layers)})
    assert outputs(build(spec))[0].shape == (2, 8, 8, 3)


def test_an_error_of_free_sizes_holds_the_whole_input_spec_ready_to_paste() -> None:
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    features = keras.Input((7,), name="features")
    with pytest.raises(XlaSweepsError) as caught:
        from_specs({"tokens": tokens, "features": features}, resolution=None, where="m")
    assert str(caught.value).endswith(
        "the input tokens (free) has free sizes; give every input, with your sizes: "
        "'input_spec=[{name:tokens,shape:[128],dtype:int32},"
        "{name:features,shape:[7],dtype:float32}]'"
    )


def test_xla_inside_a_saved_model_is_detected(tmp_path: Path) -> None:
    class Jitted(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None, 4))], jit_compile=True)
        def __call__(self, x: Any) -> Any:
            return x + 1

    tf.saved_model.save(Jitted(), str(tmp_path / "m"))
    built = build(own(str(tmp_path / "m")))
    traced = tf.function(built.call).get_concrete_function(tf.TensorSpec((2, 4)))
    assert compiled_inside(traced)
