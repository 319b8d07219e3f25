"""Models as people bring them: other Keras, texts, values and states that they live in."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from built_models import IN_A_FOLDER, batch_of, build, outputs, own, refusal_of
from desk import Heard, prepare_modes, set_up
from factories import TRIAL

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.sources import stateful_resets
from xla_sweeps.config.own_inputs import changed_of, states_of, takes_dictionary
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.measurement import ModeOutcome, Status
from xla_sweeps.schema.trial import InputSpec, ModelSpec, Precision, ReplicateJob

pytestmark = IN_A_FOLDER

NET = '''
import keras
import tensorflow as tf
import tf_keras

class Cut(keras.layers.Layer):
    """Keeps the last values of each sample, as many as its second input says."""
    def call(self, values, length):
        keras.ops.convert_to_numpy(length)  # eagerly
        assert int(keras.ops.min(length)) >= 6, "too short"
        return values

class Sliced(keras.Model):
    def __init__(self):
        super().__init__()
        self.cut, self.dense = Cut(), keras.layers.Dense(2)

    def call(self, inputs):
        values, length = inputs
        return self.dense(self.cut(values, length))

class Unfinished(keras.Model):
    def call(self, x):
        return keras.layers.Lambda(lambda y: y)

class OfDense(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

class Wide(OfDense):
    """Has optional outputs, as models that give attention on request."""
    def call(self, x):
        return {"scores": self.dense(x), "attention": None, "states": (None, [x])}

class Nothing(keras.Model):
    def call(self, x):
        return None

def doubled(x):
    return x * 2

class Plain(OfDense):
    """Counts its calls in a variable of the engine, which Keras does not list."""
    def __init__(self):
        super().__init__()
        self.calls = tf.Variable(0.0)

    def call(self, x):
        self.calls.assign_add(1.0)
        return self.dense(x) * self.calls

class Drawing(keras.Model):
    """Draws random numbers, as for an estimate of its uncertainty."""
    def __init__(self):
        super().__init__()
        self.dense, self.dropout = keras.layers.Dense(8), keras.layers.Dropout(0.5)

    def call(self, x):
        return self.dropout(self.dense(x), training=True)

class Drifting(OfDense):
    """Keeps a number in Python."""
    number = 0

    def call(self, x):
        self.number += 1
        return self.dense(x) * self.number

def sized(units, rate):
    return keras.layers.Dense(units)

def unfinished_function():
    return lambda x: keras.layers.Lambda(lambda y: y)

def texts():
    text = keras.Input((1,), dtype="string", name="review")
    words = keras.layers.TextVectorization(vocabulary=["good", "bad"], output_sequence_length=4)
    return keras.Model(text, keras.layers.Embedding(4, 2)(words(text)))

class Held(tf.Module):
    def __init__(self):
        self.dense = keras.layers.Dense(2)

    def __call__(self, x):
        return self.dense(x)

def closure():
    dense = keras.layers.Dense(2)
    return lambda x: dense(x)

def hashing():
    given = keras.Input((3,), dtype="int32")
    return keras.Model(given, keras.layers.Hashing(4)(given))

class ByName(OfDense):
    def call(self, x, scale=None, training=False):
        return self.dense(x) if scale is None else self.dense(x) * scale[:, None]

class OfOne(ByName):
    def call(self, given):
        return super().call(given["x"], given["scale"])

def ids(first):
    given = keras.Input((6,), dtype="int32")
    return keras.Model(given, keras.layers.Dense(2)(keras.layers.Flatten()(first(given))))

def declared(library, **kind):
    given = library.Input((9,), **kind)
    return library.Model(given, library.layers.Dense(2)(given))

def sparse():
    return declared(keras, sparse=True)

def ragged():
    return declared(keras, ragged=True)

def old_sparse():
    return declared(tf_keras, sparse=True)

def old_ragged():
    return declared(tf_keras, ragged=True)

def embedding():
    return ids(keras.layers.Embedding(20, 3))

def lookup():
    return ids(keras.layers.IntegerLookup(vocabulary=[3, 7, 5], output_mode="multi_hot"))
'''

FILES = {"net.py": NET}


def net(function: str, **given: Any) -> ModelSpec:
    """A model of `net.py`, by default of three numbers."""
    return own(f"net.py:{function}", **{"input_spec": [{"shape": [3]}], **given})


def test_a_file_of_keras_2_is_loaded_by_tf_keras(tmp_path: Path) -> None:
    layers = tf_keras.layers
    tf_keras.Sequential(
        [tf_keras.Input((8, 8, 3)), layers.Flatten(), layers.BatchNormalization(), layers.Dense(3)]
    ).save("two.h5")
    built = build(own(str(tmp_path / "two.h5")))
    assert built.inputs == (InputSpec(shape=(8, 8, 3)),)
    assert type(built.loaded.keras_model).__module__.startswith("tf_keras")
    assert outputs(built)[0].shape == (2, 3)


@pytest.mark.parametrize("suffix", ["h5", "keras"])
def test_a_name_that_a_lambda_lacks_is_said_with_a_way_out(suffix: str, tmp_path: Path) -> None:
    space = {"keras": keras}
    exec("factor = 2.0\nscale = lambda x: factor * x", space)
    given = keras.Input((4,))
    keras.Model(given, keras.layers.Lambda(space["scale"])(given)).save(f"scaled.{suffix}")
    message = refusal_of(own(str(tmp_path / f"scaled.{suffix}")))
    assert message.startswith("name 'factor' is not defined, in a Lambda layer of the file: path=")
    assert "measure it where its code is: path=net.py:build" in message
    assert "import=" not in message


def test_a_text_is_refused_by_its_name() -> None:
    said = refusal_of(net("texts", input_spec=None))
    assert "the input review is text, which XLA does not take" in said


@pytest.mark.parametrize("kind", ["sparse", "ragged", "old_sparse", "old_ragged"])
def test_an_input_that_is_not_dense_is_measured_dense_only_if_that_is_asked(kind: str) -> None:
    said = refusal_of(net(kind, input_spec=None))
    assert (
        f"is {kind.removeprefix('old_')}; to measure dense values in its place, give every input"
        in said
    )
    assert "input_spec=[{shape:[9],dtype:float32}]" in said
    assert build(net(kind, input_spec=[{"shape": [9]}])).inputs[0].shape == (9,)


@pytest.mark.parametrize("function", ["Unfinished", "unfinished_function"])
def test_a_layer_in_place_of_tensors_is_named(function: str) -> None:
    assert "the model returns a Lambda, not tensors; apply it" in refusal_of(net(function))


def test_outputs_that_are_none_are_no_outputs() -> None:
    assert [one.shape for one in outputs(build(net("Wide")))] == [(2, 2), (2, 3)]
    nothing = build(net("Nothing"))
    with pytest.raises(XlaSweepsError, match="returns None; there is no output to compare"):
        outputs(nothing)


@pytest.mark.parametrize("given", ["float32", "float16"])
def test_a_trials_precision_comes_before_the_float_type_of_a_file(
    given: str, tmp_path: Path
) -> None:
    (tmp_path / "wide.py").write_text(f'{NET}\nkeras.config.set_floatx("{given}")\n')
    spec = own("wide.py:Wide", input_spec=[{"shape": [3]}])
    mixed = build(spec, precision=Precision.MIXED_BFLOAT16)
    assert mixed.loaded.keras_model.dense.dtype_policy.name == "mixed_bfloat16"
    twin = building.float64_twin(spec, mixed, "float64")
    assert {variable.dtype for variable in twin.loaded.variables} == {"float64"}


def nested(**more: Any) -> keras.Model:
    given = keras.Input((3,))
    inner = keras.Model(given, keras.layers.Dense(3, **more)(given))
    return keras.Sequential([keras.Input((3,)), inner, keras.layers.Dropout(0.5)])


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("function", ["saved.keras", "net.py:again"])
def test_a_half_precision_that_no_layer_has_is_refused(function: str, tmp_path: Path) -> None:
    nested().save("saved.keras")
    again = 'def again():\n    return keras.saving.load_model("saved.keras")\n'
    (tmp_path / "net.py").write_text(NET + again)
    spec = own(function, input_spec=None if function == "saved.keras" else [{"shape": [3]}])
    said = refusal_of(spec, precision=Precision.MIXED_BFLOAT16)
    assert "precision=mixed_bfloat16: no layer of the model" in said


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_a_half_precision_that_a_file_has_may_be_asked_for() -> None:
    nested(dtype="mixed_bfloat16").save("saved.keras")
    for asked in (Precision.MIXED_BFLOAT16, Precision.FLOAT32):
        built = build(own("saved.keras"), precision=asked)
        assert built.precision is Precision.MIXED_BFLOAT16
    said = refusal_of(own("saved.keras"), precision=Precision.MIXED_FLOAT16)
    assert "precision=mixed_float16: no layer of the model" in said


@pytest.mark.parametrize("function", ["Held", "closure", "hashing"])
def test_a_half_precision_is_taken_where_no_type_is_known(function: str) -> None:
    kind = "int32" if function == "hashing" else "float32"
    given = [{"shape": [3], "dtype": kind, "low": 0, "high": 9}]
    built = build(net(function, input_spec=given), precision=Precision.MIXED_BFLOAT16)
    assert built.precision is Precision.MIXED_BFLOAT16


@pytest.mark.parametrize(
    ("call", "names", "expected"),
    [
        (lambda batch: batch, ("x", "y"), True),
        (lambda x, y: x, ("x", "y"), False),
        (lambda image, mask: image, ("image", "maks"), False),
        (lambda *parts: parts, ("x", "y"), False),
        (lambda **parts: parts, ("x", "y"), False),
        (print, ("x", "y"), False),
    ],
)
def test_named_inputs_go_into_a_dictionary_where_one_argument_takes_them(
    call: Callable[..., Any], names: tuple[str, ...], expected: bool
) -> None:
    assert takes_dictionary(call, names) is expected


def test_what_is_no_function_is_called_or_refused_as_before(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text("import tensorflow as tf\nCONFIG = {}\nact = tf.nn.relu\n")
    config = own("odd.py:CONFIG", input_spec=[{"shape": [3]}])
    assert "returned a dict, which cannot be called" in refusal_of(config)
    assert outputs(build(own("odd.py:act", input_spec=[{"shape": [3]}])))[0].shape == (2, 3)


def test_a_large_state_and_one_without_a_shape_are_put_back() -> None:
    class Held(keras.Model):
        pass

    model = Held()
    model.open = tf.Variable([0.0], shape=[None])
    model.large = tf.Variable(tf.zeros(2**20))
    assert [len(value) for _, value in states_of(model)] == [1]
    every = states_of(model, limit=math.inf)
    model.large.assign_add(tf.ones(2**20))
    assert [len(value) for _, value in changed_of(every)] == [2**20]


def test_a_builder_with_settings_is_refused_by_their_names() -> None:
    assert "path=net.py:sized takes units, rate; a function" in refusal_of(net("sized"))


def test_a_float_type_that_the_users_file_sets_is_that_of_the_model(tmp_path: Path) -> None:
    sets = NET.replace("import tensorflow", 'keras.config.set_floatx("float64")\nimport tensorflow')
    (tmp_path / "wide.py").write_text(sets)
    built = build(own("wide.py:Wide", input_spec=[{"shape": [3]}]))
    assert {variable.dtype for variable in built.loaded.variables} == {"float64"}
    assert keras.config.floatx() == "float32"
    assert keras.config.dtype_policy().name == "float32"


def test_a_function_of_a_batch_is_the_models_own_call() -> None:
    assert outputs(build(net("doubled")))[0].shape == (2, 3)


def end_modes(name: str) -> tuple[bool, dict[str, ModeOutcome]]:
    """Prepare the modes of a model: do its eager runs agree, and how does each mode end?"""
    modes = ("eager", "graph", "xla")
    trial = replace(TRIAL, model=net(name), batch_size=2)
    job = ReplicateJob(trial=trial, replicate=0, modes=modes, order_seed=1)
    bench = set_up(job, heard := Heard())
    prepared = prepare_modes(job, bench, heard)
    return bench.deterministic, {mode: prepared[mode].outcome for mode in modes}


def test_a_state_of_the_engine_is_put_back_before_each_compared_call() -> None:
    deterministic, outcomes = end_modes("Plain")
    assert deterministic
    assert [outcome.status for outcome in outcomes.values()] == [Status.OK] * 3


def test_a_mode_that_draws_what_eager_draws_from_the_same_seeds_agrees() -> None:
    deterministic, outcomes = end_modes("Drawing")
    assert not deterministic, "other modes may draw other numbers"
    assert [outcomes[mode].status for mode in ("eager", "graph")] == [Status.OK] * 2
    assert outcomes["xla"].status is Status.NONDETERMINISTIC
    failure: Any = outcomes["xla"].failure
    assert failure.message.startswith("a call draws random numbers, and this mode draws other")
    assert "training=True" in failure.hint


def test_a_model_that_changes_in_python_is_not_verified_and_says_what_to_do() -> None:
    _, outcomes = end_modes("Drifting")
    assert {outcome.status for outcome in outcomes.values()} == {Status.NONDETERMINISTIC}
    failure: Any = outcomes["graph"].failure
    assert failure.message.startswith("two eager runs on the same input differ")
    assert "what Python keeps from call to call" in failure.hint


def test_a_model_is_first_called_with_values_that_it_lives_in() -> None:
    values, length = {"shape": [8]}, {"shape": [], "dtype": "int32", "low": 6, "high": 9}
    built = build(net("Sliced", input_spec=[values, length]))
    assert outputs(built)[0].shape == (2, 2)
    low = {**length, "low": 0, "high": 3}
    with pytest.raises(AssertionError, match="too short"):
        build(net("Sliced", input_spec=[values, low]))


def test_layers_that_keep_a_state_are_reset_also_within_others() -> None:
    kept = keras.layers.GRU(3, stateful=True)
    inner = keras.Sequential([keras.Input(batch_shape=(2, 5, 4)), kept])
    model = keras.Sequential([keras.Input(batch_shape=(2, 5, 4)), inner])
    batch = np.ones((2, 5, 4), "float32")
    first, second = model(batch), model(batch)
    assert not np.allclose(first, second)
    (reset,) = stateful_resets(model)
    reset()
    assert np.allclose(first, model(batch))
    assert stateful_resets(None) == []
    assert stateful_resets(keras.Sequential([keras.layers.GRU(3)])) == []


@pytest.mark.parametrize("function", ["ByName", "OfOne"])
def test_inputs_are_arguments_of_the_call_where_they_have_their_names(function: str) -> None:
    specs = [{"shape": [3], "name": "x"}, {"shape": [], "name": "scale", "low": 2, "high": 3}]
    built = build(net(function, input_spec=specs))
    (output,) = outputs(built)
    dense = built.loaded.keras_model.dense
    x, scale = keras.tree.flatten(batch_of(built))
    np.testing.assert_allclose(output, np.asarray(dense(x)) * np.asarray(scale)[:, None], rtol=1e-5)


@pytest.mark.parametrize(("function", "low", "high"), [("embedding", 0, 20), ("lookup", 3, 8)])
def test_indices_are_drawn_as_their_layer_takes_them(function: str, low: int, high: int) -> None:
    built = build(net(function, input_spec=None))
    assert built.inputs == (InputSpec(shape=(6,), dtype="int32", low=low, high=high),)
    assert outputs(built)[0].shape == (2, 2)


def saved_with_signatures(folder: Path, *names: str) -> str:
    module = tf.Module()
    spec = tf.TensorSpec((None, 3), tf.float32)
    ways = {"encode": lambda x: {"code": x * 2}, "decode": lambda x: {"picture": x * 3}}
    functions = {name: tf.function(ways[name], input_signature=[spec]) for name in names}
    tf.saved_model.save(module, str(folder), signatures=functions)
    return str(folder)


def test_a_signature_of_a_saved_model_is_called_by_its_name(tmp_path: Path) -> None:
    path = saved_with_signatures(tmp_path / "both", "encode", "decode")
    for name, factor in (("encode", 2), ("decode", 3)):
        built = build(own(path, signature=name))
        batch = batch_of(built)
        np.testing.assert_allclose(outputs(built)[0], np.asarray(batch) * factor, rtol=1e-6)
    assert "encode, decode; name one: signature=encode" in refusal_of(own(path))
    said = refusal_of(own(path, signature="encoder"))
    assert re.search("unknown signature of .* Did you mean 'encode'", said)
    with pytest.raises(XlaSweepsError, match="only a SavedModel folder has signatures"):
        own("net.py:texts", signature="encode")
    alone = saved_with_signatures(tmp_path / "one", "decode")
    assert outputs(build(own(alone)))[0].shape == (2, 3)
