"""Callables of one's own that are no Keras models: their variables, and builders among them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import pytest
from built_models import build, outputs, own

from xla_sweeps.backends.keras.sources.inputs import draw

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
