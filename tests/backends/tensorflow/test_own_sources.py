"""Models of one's own: files and functions, as they are loaded, called and refused."""

from __future__ import annotations

import itertools
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from built_models import QUIET, batch_of, build, outputs, own, refusal_of
from composed import complaint_of
from keras_files import write_keras_file
from paths import SUPPORT

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.rounding import float64_outputs
from xla_sweeps.backends.keras.sources import trains_always
from xla_sweeps.backends.keras.sources.inputs import draw, from_specs
from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.backends.tensorflow.bench import macs
from xla_sweeps.backends.tensorflow.explain.graph import traced_ops
from xla_sweeps.backends.tensorflow.explain.traps import random_places
from xla_sweeps.backends.tensorflow.operations import compiled_inside
from xla_sweeps.backends.tensorflow.sources import saved_model
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.trial import InputSpec

pytestmark = [*QUIET, pytest.mark.usefixtures("in_support")]


@pytest.mark.parametrize("suffix", ["keras", "h5"])
def test_a_keras_file_is_loaded_with_its_weights(suffix: str, tmp_path: Path) -> None:
    import own_models

    model = own_models.build(32)
    path = str(tmp_path / f"net.{suffix}")
    model.save(path)
    built = build(own(path))
    images = batch_of(built)
    assert built.inputs == (InputSpec(shape=(32, 32, 3)),)
    assert np.allclose(built.call(images), model(images), atol=1e-6)
    before = np.asarray(built.call(images))
    ((reference,),) = float64_outputs(modes.ENGINE, own(path), built, [images])
    assert reference.dtype == np.float64
    assert 0 < np.abs(before - reference).max() < 1e-5 * np.abs(reference).max()
    assert np.array_equal(built.call(images), before), "the model is as it was"


def test_a_file_that_is_not_a_model_is_refused_in_one_line(tmp_path: Path) -> None:
    write_keras_file(tmp_path / "net.keras")
    path = f"{tmp_path}/net.keras"
    assert f"path={path}: Keras {keras.__version__} cannot load it" in refusal_of(own(path))


@pytest.mark.parametrize(
    "path",
    [
        "own_models.py:build",
        "own_models.py:Networks.build",
        pytest.param("own_models:build", marks=pytest.mark.exhaustive),
        pytest.param(str(SUPPORT / "own_models.py:build"), marks=pytest.mark.exhaustive),
    ],
)
def test_a_function_builds_at_the_resolution_asked_for(path: str) -> None:
    assert build(own(path)).inputs[0].shape == (96, 96, 3)
    built = build(own(path, resolution=40))
    assert built.inputs[0].shape == (40, 40, 3)
    assert macs(built).total == 19 * 19 * 8 * 27 + 8 * 10
    assert outputs(built)[0].shape == (2, 10)


NET = """
import keras
{line}
def build():
    return keras.Sequential([keras.Input((8,)), Wide(4)])
"""


@pytest.mark.parametrize(
    ("file", "line", "others"),
    [
        ("nets1/net.py", "from .wide import Wide", ["nets1/wide.py", "nets1/__init__.py"]),
        ("nets2/net.py", "from .wide import Wide", ["nets2/wide.py"]),
        ("lib3/nets/net.py", "from ..wide import Wide", ["lib3/wide.py"]),
        ("src/lib4/net.py", "from lib4.wide import Wide", ["src/lib4/wide.py"]),
        ("nets5/net.py", "from blocks5.wide import Wide", ["blocks5/wide.py"]),
        ("nets6/net.py", "from wide6 import Wide", ["nets6/wide6.py"]),
    ],
)
def test_a_file_of_a_repository_finds_what_it_imports(
    file: str, line: str, others: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    content = {file: NET.format(line=line), "src/lib4/__init__.py": ""}
    content |= dict.fromkeys(others, "from keras.layers import Dense as Wide")
    for name, text in content.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    assert outputs(build(own(f"{file}:build")))[0].shape == (2, 4)


def test_a_script_that_ends_where_it_is_imported_is_refused_in_one_line(tmp_path: Path) -> None:
    script = tmp_path / "train_net.py"
    script.write_text("import sys\n\ndef build(): ...\n\nsys.exit(2)  # as of argparse\n")
    said = refusal_of(own(f"{script}:build"))
    assert f"it calls sys.exit(2) ({script}:5); what only a script does" in said


def test_several_inputs_are_read_from_the_model_and_reach_it_by_name() -> None:
    built = build(own("own_models:two_inputs"))
    assert {tensor.name: (tensor.shape, tensor.dtype) for tensor in built.inputs} == {
        "tokens": ((16,), "int32"),
        "image": ((32, 32, 3), "float32"),
    }
    assert [output.shape for output in outputs(built)] == [(2, 4), (2, 8)]
    count = macs(built)
    assert count.total == 30 * 30 * 8 * 27 + 16 * 4
    assert not count.at_least


@pytest.mark.parametrize(
    ("model", "lacks"), [("of_any_size", "has free sizes"), ("Subclassed", "unknown inputs")]
)
def test_a_model_of_any_size_requires_a_resolution(model: str, lacks: str) -> None:
    assert f"{lacks}; give resolution=224" in refusal_of(own(f"own_models:{model}"))
    sizes: list[dict[str, Any]] = [{"resolution": 20}, {"shapes": [20, 24]}]
    for size in sizes:
        built = build(own(f"own_models:{model}", **size))
        assert built.inputs[0].shape == (20, 20, 3)
        assert model == "of_any_size" or built.params == 3 * 3 * 3 * 4 + 4, "before it is traced"


@pytest.mark.parametrize(
    ("model", "specs"),
    [
        ("built_for_a_size", "{shape:[24,24,3],dtype:float32}"),
        (
            "called_with_a_dictionary",
            "{name:one,shape:[5],dtype:float32},{name:other,shape:[1],dtype:float32}",
        ),
        ("OfIds", "{shape:[128],dtype:int32,high:50}"),
        (
            "called_with_two",
            "{name:left,shape:[6],dtype:float32},{name:right,shape:[6],dtype:float32}",
        ),
    ],
)
def test_a_model_of_known_inputs_is_refused_with_them_to_paste(model: str, specs: str) -> None:
    words = f"unknown inputs; give 'input_spec=[{specs}]'"
    assert refusal_of(own(f"own_models:{model}")).endswith(words)


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
        ("own_models:NUMBER", "returned an int, which cannot be called on a batch"),
        ("own_models:Networks.nothing", "own_models has no 'Networks.nothing'"),
        ("own_models:Networks.of_instance", ": of_instance is called on an instance; write a fun"),
        ("own_models:NETWORKS.build", ": build is called on an instance; write a function that"),
        ("own_models:Networks.of_sizes", "takes width, depth; a function that builds a model "),
        ("own_models:a_class", "returned the class Sequential; return an instance"),
        ("own_models:breaks", "own_models:breaks failed: RuntimeError: the weights are elsewhere"),
        ("broken.py:build", "broken.py, line 1: not valid Python: "),
        ("absent.py:build", "ModuleNotFoundError: No module named 'nothing_here' (absent.py:2)"),
    ],
)
def test_a_function_that_returns_no_model_is_refused_in_one_line(
    path: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("def build(:\n")
    (tmp_path / "absent.py").write_text("def build():\n    import nothing_here\n")
    monkeypatch.chdir(SUPPORT if path.startswith("own_models") else tmp_path)
    assert reason in complaint_of(lambda: build(own(path)), kind=XlaSweepsError)


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
    adapted = saved_model.load(own(str(tmp_path / "m")))
    assert np.allclose(adapted.forward(tf.ones((1, 4))), 2.0)


def test_a_layer_that_was_called_with_training_stays_as_it_was_written() -> None:
    built = build(own("own_models:dropping"))
    images = batch_of(built)
    first, second = (np.asarray(built.call(images)) for _ in range(2))
    assert not np.array_equal(first, second)
    concrete = tf.function(built.call).get_concrete_function(images)
    assert random_places(traced_ops(concrete, {}))
    plain = build(own("own_models:build", resolution=32))
    assert not trains_always(plain.loaded.keras_model)


DAILY = ("augmented_in_sequentials", False)


@pytest.mark.parametrize(
    ("form", "in_file"),
    [
        pytest.param(*case, marks=() if case == DAILY else pytest.mark.exhaustive)
        for case in itertools.product(
            (
                *("augmented", "augmented_by_a_sequential", "augmented_in_sequentials"),
                "augmented_by_a_pipeline",
            ),
            (False, True),
        )
    ],
)
def test_layers_that_augment_are_off_in_inference(form: str, in_file: bool, tmp_path: Path) -> None:
    import own_models

    path = f"own_models:{form}"
    if in_file:
        path = str(tmp_path / "net.keras")
        getattr(own_models, form)().save(path)
    built = build(own(path))
    images = batch_of(built)
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
    assert complaint_of(own, path) == (
        f"path={path}: unknown layer 'Gate' of the module my_layers; give the module or file that "
        "has it: add import=my_layers.py"
    )
    assert outputs(build(own(path, **{"import": str(layers)})))[0].shape == (2, 8, 8, 3)


def test_an_error_of_free_sizes_holds_the_whole_input_spec_ready_to_paste() -> None:
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    features = keras.Input((7,), name="features")
    given = {"tokens": tokens, "features": features}
    said = complaint_of(from_specs, given, resolution=None, where="m", kind=XlaSweepsError)
    assert said.endswith(
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


DEEP = """
import keras

def _normalized(x):
    for _ in range(16):
        x = keras.layers.Dense(128, use_bias=False)(x)
        x = keras.layers.Activation("swish")(keras.layers.BatchNormalization()(x))
    return keras.layers.Dense(10)(x)

def narrow():
    inputs = keras.Input((32,))
    return keras.Model(inputs, _normalized(inputs))

def of_four():
    inputs = keras.Input(batch_shape=(4, 32))
    only_four = keras.ops.reshape(inputs, (4, 32))
    return keras.Model(inputs, _normalized(only_four))
"""


@pytest.mark.parametrize(
    ("name", "batch_size", "largest"), [("narrow", 1, 20), ("of_four", 4, 1e7)]
)
def test_calibration_takes_as_many_samples_as_the_statistics_of_a_deep_model_need(
    name: str, batch_size: int, largest: float, tmp_path: Path
) -> None:
    (tmp_path / "deep.py").write_text(DEEP)
    built = build(own(f"{tmp_path}/deep.py:{name}"))
    building.calibrate(built, 4, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    answers = [np.asarray(built.call(draw(built.inputs, batch_size, rng))) for _ in range(3)]
    assert 0.05 < np.abs(answers).max() < largest
    assert np.abs(answers[1] - answers[0]).max() > 0.1 * np.abs(answers).max()
    means = [one for one in built.loaded.variables if "moving_mean" in one.path]
    assert all(np.ptp(np.asarray(one)) > 0 for one in means), "statistics were taken"
