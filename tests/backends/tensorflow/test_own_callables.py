"""Callables of one's own that are no Keras models: their variables, and builders among them."""

from __future__ import annotations

import numpy as np
import pytest
from built_models import batch_of, build, outputs, own, refusal_of

pytestmark = [pytest.mark.tf, pytest.mark.usefixtures("here")]

LINEN = '''
import tensorflow as tf

class Unbound:
    """A module of Flax: its variables cannot be asked for."""
    @property
    def variables(self):
        raise ValueError("Can't access variables on unbound modules")
    def __call__(self, x):
        return x * 2

class Bound(Unbound):
    """One with weights: its variables are in a dictionary."""
    variables = {"params": {"kernel": 3.0}}

class Listed(tf.Module):
    def __init__(self):
        self.scale = tf.Variable([2.0])

def over(held):
    return lambda x: held(x)

def unbound():
    return Unbound()

def bound():
    return Bound()

def over_unbound():
    return over(Unbound())

def over_bound():
    return over(Bound())

def over_listed():
    listed = Listed()
    return lambda x: x * listed.scale
'''

BUILDERS = """
import functools, keras

def of_config(config):
    return keras.Sequential([keras.layers.Dense(config.units)])

def of_units(units):
    return keras.Sequential([keras.layers.Dense(4)])

def of_classes(classes):
    return keras.layers.Dense(classes)

def own_call(x):
    return x @ x.missing

def dense(units, *, depth=1):
    given = keras.Input((3,))
    return keras.Model(given, keras.layers.Dense(units)(given))

bound = functools.partial(dense, 4)
named = functools.partial(dense, units=4, depth=1)
cached = functools.lru_cache(lambda: dense(4))

def scaled(factor, *inputs):
    return factor * inputs[0]

applied = functools.partial(scaled, 2)
without_signature = functools.partial(max, key=lambda values: 0)
"""

FILES = {"linen.py": LINEN, "builders.py": BUILDERS}


@pytest.mark.parametrize(
    ("function", "params"),
    [("unbound", 0), ("bound", 0), ("over_unbound", 0), ("over_bound", 0), ("over_listed", 1)],
)
def test_variables_are_those_that_a_callable_or_its_parts_list(function: str, params: int) -> None:
    built = build(own(f"linen.py:{function}", input_spec=[{"shape": [3]}]))
    batch = batch_of(built)
    np.testing.assert_allclose(outputs(built)[0], 2 * batch)
    assert built.params == params


@pytest.mark.parametrize(
    ("function", "setting", "told"),
    [
        ("of_config", "config", "has no attribute 'units' (builders.py:5)"),
        ("of_units", "units", "returns a Sequential"),
        ("of_classes", "classes", "ValueError: "),
        ("own_call", "x", "has no attribute 'missing' (builders.py:14)"),
    ],
)
def test_a_builder_with_one_setting_is_refused_where_it_is_called_on_a_batch(
    function: str, setting: str, told: str
) -> None:
    for given in ({"input_spec": [{"shape": [8, 8, 3]}]}, {"resolution": 8}, {}):
        message = refusal_of(own(f"builders.py:{function}", **given))
        assert message.startswith(f"path=builders.py:{function}")
        assert f"takes {setting}; a function that builds a model takes nothing but" in message
        assert (told if given else "unknown inputs; give resolution=224") in message


@pytest.mark.parametrize("function", ["bound", "named", "cached"])
def test_a_builder_with_bound_settings_or_a_cache_is_called(function: str) -> None:
    assert build(own(f"builders.py:{function}")).params == 16


def test_a_function_of_bound_settings_and_any_inputs_is_the_model_itself() -> None:
    built = build(own("builders.py:applied", input_spec=[{"shape": [3]}]))
    np.testing.assert_allclose(outputs(built)[0], 2 * batch_of(built))


def test_a_builtin_with_bound_arguments_is_the_model_itself() -> None:
    spec = own("builders.py:without_signature", input_spec=[{"shape": [3]}, {"shape": [3]}])
    built = build(spec)
    np.testing.assert_allclose(outputs(built)[0], batch_of(built)[0])
