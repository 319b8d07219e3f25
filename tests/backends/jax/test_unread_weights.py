"""Weights that a function under `jax.jit` holds as constants, in a trial of one's own model."""

from __future__ import annotations

from pathlib import Path

import pytest
from other_environments import measured, python_of

MADE = """
import jax
import keras

class Plain(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(8, name="inside")

    def call(self, x):
        return self.dense(x)

def closing():
    model = Plain()
    model(jax.numpy.ones((2, 16, 16, 3)))
    return jax.jit(lambda x: model(x))

def constant():
    return jax.jit(lambda x: x @ jax.numpy.ones((3, 8)))

def build():
    return MADE()
"""


@pytest.mark.slow
@pytest.mark.exhaustive  # daily: test_engines.py
@pytest.mark.timeout(400)  # the environment is made first
@pytest.mark.parametrize(("made", "kind"), [("closing", "weights_not_read"), ("constant", None)])
def test_a_function_that_closes_over_weights_is_told_from_one_that_has_none(
    made: str, kind: str | None, tmp_path: Path
) -> None:
    words = ("backend=jax", "input_spec=[{shape:[16,16,3]}]")
    code = MADE.replace("MADE", made)
    outcomes = measured(python_of("jax"), tmp_path, *words, code=code, ends=int(bool(kind)))[
        "modes"
    ]
    failures = [outcome["failure"] for outcome in outcomes.values()]
    assert [each and each["kind"] for each in failures] == [kind, kind]
