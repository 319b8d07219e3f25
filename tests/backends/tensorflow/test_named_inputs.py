"""Inputs of one's own models that have names: each reaches the place of its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from built_models import IN_A_FOLDER, batch_of, build, outputs, own, refusal_of

from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.sources.own_code import import_named
from xla_sweeps.config import own_inputs

pytestmark = IN_A_FOLDER

NETS = """
import keras
from keras import layers

def shop():
    user = keras.Input((4,), dtype="int32", name="user")
    item = keras.Input((4,), dtype="int32", name="item")
    seen = [layers.Embedding(100, 3)(user), layers.Embedding(5000, 3)(item)]
    given = {"user": user, "item": item}
    return keras.Model(given, layers.Concatenate()([layers.Flatten()(one) for one in seen]))

def less(given, a, b):
    return keras.Model(given, layers.Subtract()([a, b]))

def pair():
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    return less([a, b], a, b)

def turned():
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    return less((b, a), a, b)

def by_name():
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    return less({"b": b, "a": a}, a, b)

def by_key():
    b, a = keras.Input((3,)), keras.Input((3,))
    return less({"a": a, "b": b}, a, b)

def nameless():
    first, second = keras.Input((3,)), keras.Input((3,))
    return less([first, second], first, second)

def half_named():
    first, second = keras.Input((3,)), keras.Input((3,), name="b")
    return less([first, second], first, second)

def nested():
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    mask = keras.Input((1,), name="mask")
    difference = layers.Subtract()([layers.Multiply()([a, mask]), b])
    return keras.Model({"pair": [b, a], "mask": mask}, difference)

def of_pixels():
    pixels = keras.Input((3,), name="pixels")
    return keras.Model({"pixels": pixels}, layers.Rescaling(2.0)(pixels))

class Net(keras.Model):
    def call(self, image, training=False):
        return image * 2

class OfOne(keras.Model):
    def call(self, batch):
        return batch["image"] * 2

class OfItsName(keras.Model):
    def __init__(self, **more):
        super().__init__(**more)
        self.dense = layers.Dense(3, kernel_initializer=twice)

    def call(self, image):
        return self.dense(image["image"])

def twice(shape, dtype=None):
    return 2 * keras.ops.eye(*shape, dtype=dtype)
"""

NETS_OF_KERAS_2 = """
import tf_keras

def less(given, a, b):
    return tf_keras.Model(given, tf_keras.layers.Subtract()([a, b]))

def pair():
    a, b = tf_keras.Input((3,), name="a"), tf_keras.Input((3,), name="b")
    return less([a, b], a, b)

def by_name():
    a, b = tf_keras.Input((3,), name="a"), tf_keras.Input((3,), name="b")
    return less({"b": b, "a": a}, a, b)

def by_key():
    b, a = tf_keras.Input((3,)), tf_keras.Input((3,))
    return less({"a": a, "b": b}, a, b)
"""

FILES = {"nets.py": NETS, "nets_2.py": NETS_OF_KERAS_2}


def test_each_input_is_drawn_from_the_range_of_its_own_embedding() -> None:
    highs = {given.name: given.high for given in build(own("nets.py:shop")).inputs}
    assert highs == {"user": 100, "item": 5000}


NAMED: list[dict[str, Any]] = [
    {"shape": [3], "name": "b"},
    {"shape": [3], "name": "a", "low": 500, "high": 900},
]
"""The inputs of a difference `a - b`, in another order than any of the models has them."""

SHAPE: dict[str, Any] = {"shape": [3]}


def check_difference(built: BuiltModel, sign: int = 1) -> None:
    """The model returns `a - b`, or `b - a`, of inputs `b` and `a`."""
    b, a = batch_of(built)
    np.testing.assert_allclose(outputs(built)[0], sign * np.subtract(a, b))


def check_doubled(built: BuiltModel) -> None:
    np.testing.assert_allclose(outputs(built)[0], 2 * np.asarray(batch_of(built)))


@pytest.mark.parametrize(
    "function",
    [
        *("nets.py:pair", "nets.py:turned", "nets.py:by_name", "nets.py:by_key"),
        *("nets_2.py:pair", "nets_2.py:by_name", "nets_2.py:by_key"),
    ],
)
def test_inputs_reach_the_places_of_their_names(function: str) -> None:
    built = build(own(function, input_spec=NAMED))
    check_difference(built)
    arrays = dict(zip("ba", batch_of(built), strict=True))
    in_order = build(own(function, input_spec=NAMED[::-1]))
    np.testing.assert_array_equal(in_order.call((arrays["a"], arrays["b"])), outputs(built)[0])
    assert sorted(given.name for given in build(own(function)).inputs) == ["a", "b"]


@pytest.mark.parametrize("function", ["pair", "turned", "by_name"])
def test_inputs_reach_their_names_places_in_a_saved_model(function: str, tmp_path: Path) -> None:
    import_named("nets.py", "").__dict__[function]().export(tmp_path / "saved", verbose=False)
    check_difference(build(own(str(tmp_path / "saved"), input_spec=NAMED)))


def test_arguments_of_a_signature_are_given_by_their_names(tmp_path: Path) -> None:
    spec = tf.TensorSpec((None, 3))
    function = tf.function(lambda b, a: {"difference": a - b}, input_signature=[spec, spec])
    tf.saved_model.save(tf.Module(), str(tmp_path / "saved"), signatures={"less": function})
    nameless = [{**given, "name": ""} for given in reversed(NAMED)]
    for given, sign in ((NAMED, 1), (nameless, -1)):
        check_difference(build(own(str(tmp_path / "saved"), input_spec=given)), sign)


def test_a_batch_in_memory_reaches_the_places_of_its_names() -> None:
    arrays = {"b": np.zeros((2, 3), "float32"), "a": np.ones((2, 3), "float32")}
    np.savez("batch.npz", b=arrays["b"], a=arrays["a"])
    given = own_inputs.apply({"inputs": "batch.npz", "input_spec": None}, ())
    built = build(own("nets.py:pair", input_spec=given["input_spec"]))
    batch = tuple(own_inputs.values_of("batch.npz", built.inputs))
    np.testing.assert_allclose(built.call(batch), arrays["a"])


def test_names_that_a_library_made_up_bind_nothing() -> None:
    made_up = [{**given, "name": f"input_{place}"} for place, given in enumerate(NAMED)]
    for function, given in (("nameless", NAMED), ("pair", made_up)):
        check_difference(build(own(f"nets.py:{function}", input_spec=given)), -1)


def test_each_build_of_a_model_binds_the_same_where_names_are_made_up() -> None:
    for function in ("nameless", "half_named"):
        keras.backend.clear_session()
        first = build(own(f"nets.py:{function}", input_spec=[SHAPE, SHAPE]))
        names = [tensor.name for tensor in first.loaded.keras_model.inputs]
        given = [{**SHAPE, "name": name} for name in reversed(names)]
        keras.backend.clear_session()  # so that the first build has these names again
        builds = [build(own(f"nets.py:{function}", input_spec=given)) for _ in range(2)]
        first_given, second = batch_of(builds[0])
        difference = first_given - second if function == "nameless" else second - first_given
        for built in builds:
            np.testing.assert_allclose(outputs(built)[0], difference)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "bb"), "unknown input of path=nets.py:{} 'bb'. Did you mean 'b'? Allowed: a, b."),
        (("a",), "path=nets.py:{}: takes 2 inputs, a, b; input_spec or inputs has 1"),
        (("a", "b", "c"), "path=nets.py:{}: takes 2 inputs, a, b; input_spec or inputs has 3"),
    ],
)
@pytest.mark.parametrize("function", ["pair", "by_name"])
def test_names_that_the_model_does_not_have_are_refused(
    function: str, names: tuple[str, ...], message: str
) -> None:
    given = [{"shape": [3], "name": name} for name in names]
    said = refusal_of(own(f"nets.py:{function}", input_spec=given))
    assert said == message.format(function)


def test_the_only_input_of_a_model_may_have_any_name() -> None:
    check_doubled(build(own("nets.py:of_pixels", input_spec=[{"shape": [3], "name": "image"}])))


def test_inputs_may_be_nested(tmp_path: Path) -> None:
    mask = {"shape": [1], "name": "mask", "low": 1, "high": 1.001}
    import_named("nets.py", "").nested().export(tmp_path / "saved", verbose=False)
    for path in ("nets.py:nested", str(tmp_path / "saved")):
        assert {given.name for given in build(own(path)).inputs} == {"a", "b", "mask"}
        built = build(own(path, input_spec=[*NAMED, mask]))
        b, a, _ = batch_of(built)
        np.testing.assert_allclose(outputs(built)[0], a - b, rtol=0.01)


class Less(tf.Module):
    """Takes two tensors, with settings between and after them."""

    @tf.function
    def __call__(self, a: Any, factor: int = 1, b: Any = None, *, training: bool = False) -> Any:
        return (a - b) * factor + (1 if training else 0)


def test_a_saved_model_gets_every_tensor_that_its_call_takes(tmp_path: Path) -> None:
    tensors = [tf.ones((2, 3))] * 2
    by_place, by_keyword = Less(), Less()
    by_place(tensors[0], 1, tensors[1])
    by_keyword.__call__ = tf.function(lambda a, *, b: a - b)
    by_keyword.__call__(tensors[0], b=tensors[1])
    signed = tf.Module()
    signed.__call__ = tf.function(
        lambda a, b: a - b, input_signature=[tf.TensorSpec((None, 3))] * 2
    )
    for place, module in enumerate((by_place, by_keyword, signed)):
        path = str(tmp_path / str(place))
        tf.saved_model.save(module, path)
        built = build(own(path))
        assert [given.name for given in built.inputs] == ["a", "b"]
        a, b = batch_of(built)
        np.testing.assert_allclose(outputs(built)[0], a - b)
        check_difference(build(own(path, input_spec=NAMED)))


def save(call: Any, path: Path, *calls: tuple[Sequence[Any], dict[str, Any]]) -> str:
    """Save a module whose call is a function that was called so."""
    module = tf.Module()
    module.__call__ = call if hasattr(call, "get_concrete_function") else tf.function(call)
    for arguments, keywords in calls:
        module.__call__(*arguments, **keywords)
    tf.saved_model.save(module, str(path))
    return str(path)


ONES = tf.ones((2, 3))


def test_a_saved_model_needs_no_tensor_that_has_a_default(tmp_path: Path) -> None:
    signature = [tf.TensorSpec((None, 3)), tf.TensorSpec(())]
    scaled = tf.function(lambda x, scale=2.0: x * scale, input_signature=signature)
    masked = save(
        lambda x, mask=None: 2 * x if mask is None else x * mask,
        tmp_path / "masked",
        ([ONES, ONES], {}),
        ([ONES], {}),
    )
    for path in (save(scaled, tmp_path / "scaled"), masked):
        for given in (None, [{"shape": [3], "name": "image"}]):
            check_doubled(build(own(path, input_spec=given)))
    both = [{"shape": [3], "name": name} for name in ("mask", "x")]
    built = build(own(masked, input_spec=both))
    mask, x = batch_of(built)
    np.testing.assert_allclose(outputs(built)[0], x * mask)


def test_a_saved_model_is_called_with_the_settings_of_its_trace(tmp_path: Path) -> None:
    def by_keyword(x: Any, *, training: bool) -> Any:
        return 5 * x if training else 2 * x

    traces = [([ONES], {"training": training}) for training in (True, False)]
    others = [([ONES], {"twice": twice}) for twice in (False, True)]
    cases: list[tuple[Any, Any]] = [
        (lambda x, training: 5 * x if training else 2 * x, traces),
        (by_keyword, traces),
        (lambda x, training=True: 5 * x if training else 2 * x, traces),
        (lambda x, twice=True: 2 * x if twice else x, others),
    ]
    for place, (function, calls) in enumerate(cases):
        check_doubled(build(own(save(function, tmp_path / str(place), *calls))))


def test_a_saved_model_gets_tensors_that_a_keyword_nests(tmp_path: Path) -> None:
    path = save(
        lambda a, *, more: a * more["factor"] - more["b"],
        tmp_path / "saved",
        ([ONES], {"more": {"b": ONES, "factor": 1}}),
    )
    check_difference(build(own(path, input_spec=NAMED)))


@pytest.mark.parametrize("name", ["Net", "OfOne", "OfItsName"])
def test_one_named_input_is_an_argument_of_the_call_where_it_has_its_name(name: str) -> None:
    built = build(own(f"nets.py:{name}", input_spec=[{"shape": [3], "name": "image"}]))
    check_doubled(built)
    batch = batch_of(built)
    predicted = built.loaded.keras_model.predict(built.loaded.pack(batch), verbose=0)
    np.testing.assert_allclose(predicted, 2 * batch)
