"""A function of a JAX user, without Keras, in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from other_environments import python_of
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
    modes = json.loads(text)["modes"]
    assert {mode: each["status"] for mode, each in modes.items()} == {
        "jax_eager": "ok",
        "jax_xla": "ok",
    }
