"""Functions of JAX users, without Keras, by path and in memory."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from other_environments import measured, python_of
from paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # the environment is made first

CODE = """
import jax
import jax.numpy as jnp

def build():
    weight = jax.random.normal(jax.random.key(0), (8, 4))
    return lambda x: jnp.tanh(x @ weight)
"""

MEASURED = f"""{CODE}
import json
import numpy as np
import xla_sweeps as xs

trial = xs.measure(build, np.ones((2, 8), np.float32), backend="jax")
print(json.dumps([trial.exit_code, trial.records[0].read_text()]))
"""


def test_a_plain_function_of_jax_is_measured_by_path_and_in_memory(tmp_path: Path) -> None:
    python = python_of("jax")
    inputs = "input_spec=[{shape:[8]}]"
    records = [measured(python, tmp_path, "backend=jax", inputs, code=CODE)]
    ended = subprocess.run(
        [str(python), "-c", MEASURED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=380,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ended.returncode == 0, ended.stderr
    code, text = json.loads(ended.stdout.splitlines()[-1])
    assert code == 0
    for record in [*records, json.loads(text)]:
        assert {mode: each["status"] for mode, each in record["modes"].items()} == {
            "jax_eager": "ok",
            "jax_xla": "ok",
        }
