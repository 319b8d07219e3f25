"""Callables of one's own that are no Keras models: their variables, and builders among them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import pytest
from built_models import build, outputs, own

from xla_sweeps.backends.keras.sources.inputs import draw
from xla_sweeps.errors import XlaSweepsError

pytestmark = pytest.mark.tf


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    keras.backend.clear_session()


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


@pytest.mark.parametrize(
    ("function", "params"),
    [("unbound", 0), ("bound", 0), ("over_unbound", 0), ("over_bound", 0), ("over_listed", 1)],
)
def test_variables_are_those_that_a_callable_or_what_it_holds_lists(
    function: str, params: int, tmp_path: Path
) -> None:
    (tmp_path / "linen.py").write_text(LINEN)
    built = build(own(f"linen.py:{function}", input_spec=[{"shape": [3]}]))
    batch = draw(built.inputs, 2, np.random.default_rng(0))
    np.testing.assert_allclose(outputs(built)[0], 2 * batch)
    assert built.params == params


BUILDERS = """
import keras

def of_config(config):
    return keras.Sequential([keras.layers.Dense(config.units)])

def of_units(units):
    return keras.Sequential([keras.layers.Dense(4)])

def of_classes(classes):
    return keras.layers.Dense(classes)

def own_call(x):
    return x @ x.missing
"""


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
    function: str, setting: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "builders.py").write_text(BUILDERS)
    for given in ({"input_spec": [{"shape": [8, 8, 3]}]}, {"resolution": 8}, {}):
        with pytest.raises(XlaSweepsError) as caught:
            build(own(f"builders.py:{function}", **given))
        message = str(caught.value)
        assert message.startswith(f"path=builders.py:{function}")
        assert f"takes {setting}; a function that builds a model takes nothing but" in message
        assert (told if given else "unknown inputs; give resolution=224") in message
        assert "\n" not in message
