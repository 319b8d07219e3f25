"""Functions of a JAX user: in memory without Keras, and those that hold weights as constants."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from other_environments import measured, python_of
from paths import ROOT
from programs import run_program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # the environment is made first

MEASURED = """
import json
import jax
import jax.numpy as jnp
import numpy as np
import xla_sweeps as xs

def build():
    weight = jax.random.normal(jax.random.key(0), (8, 4))
    return lambda x: jnp.tanh(x @ weight)

short = {"effort.rounds_max": 10, "effort.latency_calls": 5, "effort.warmup_s": 0.05}
trial = xs.measure(build, np.ones((2, 8), np.float32), backend="jax", **short)
print(json.dumps([trial.exit_code, trial.records[0].read_text()]))
"""


def test_a_plain_function_of_jax_is_measured_in_memory(tmp_path: Path) -> None:
    own = {"PYTHONPATH": str(ROOT)}
    ended = run_program(python_of("jax"), "-c", MEASURED, cwd=tmp_path, more=own)
    code, text = json.loads(ended.stdout.splitlines()[-1])
    assert code == 0
    statuses = {mode: each["status"] for mode, each in json.loads(text)["modes"].items()}
    assert statuses == {"jax_eager": "ok", "jax_xla": "ok"}


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


@pytest.mark.exhaustive  # daily: test_engines.py
@pytest.mark.parametrize(("made", "kind"), [("closing", "weights_not_read"), ("constant", None)])
def test_a_function_that_closes_over_weights_is_told_from_one_that_has_none(
    made: str, kind: str | None, tmp_path: Path
) -> None:
    words = ("backend=jax", "input_spec=[{shape:[16,16,3]}]")
    code = MADE.replace("MADE", made)
    record = measured(python_of("jax"), tmp_path, *words, code=code, ends=int(bool(kind)))
    failures = [outcome["failure"] for outcome in record["modes"].values()]
    assert [each and each["kind"] for each in failures] == [kind, kind]
