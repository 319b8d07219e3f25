"""JAX, in an environment that has no TensorFlow: what it computes, and a whole trial."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from other_environments import MACS, measured, python_of
from paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # the environment is made first

SUPPORT = ROOT / "tests/support"


DECIDING = """
import keras

class Decides(keras.layers.Layer):
    def compute_output_spec(self, values):
        return keras.KerasTensor(values.shape, values.dtype)

    def call(self, values):
        return values * 2 if float(keras.ops.sum(values)) > 0 else values

def build():
    inputs = keras.Input((16, 16, 3))
    return keras.Model(inputs, Decides()(inputs))
"""


JITTED = """
from functools import partial

import jax
import keras

class Jitted(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(8, name="inside")

    @partial(jax.jit, static_argnums=0)
    def call(self, x):
        return self.dense(x)

class Plain(Jitted):
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


@pytest.fixture(scope="module")
def python() -> Path:
    return python_of("jax")


@pytest.fixture(scope="module")
def record(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return measured(python, tmp_path_factory.mktemp("jax"), "backend=jax")


def test_a_trial_measures_both_modes_and_each_computes_the_same(record: Any) -> None:
    outcomes = record["modes"]
    assert [outcomes[mode]["status"] for mode in ("jax_eager", "jax_xla")] == ["ok", "ok"]
    assert all(outcome["agreement"]["ok"] for outcome in outcomes.values())
    assert all(outcome["agreement"]["rmse_ref_rel"] < 1e-5 for outcome in outcomes.values())
    assert record["model"]["macs"] == MACS


def test_each_mode_is_proved_by_what_was_compiled(record: Any) -> None:
    outcomes = record["modes"]
    eager, compiled = outcomes["jax_eager"]["effective"], outcomes["jax_xla"]["effective"]
    assert compiled["compilations"] == 1
    assert compiled["compile_s"] > 0 < compiled["lower_s"]
    assert eager["recompilations"] == compiled["recompilations"] == 0
    assert outcomes["jax_xla"]["steady_memory_bytes"] > 0


def test_a_training_step_learns_the_same_in_both_modes(python: Path, tmp_path: Path) -> None:
    record = measured(python, tmp_path, "backend=jax", "scenario=train_step", "optimizer=adam")
    outcomes = record["modes"]
    assert [outcomes[mode]["status"] for mode in ("jax_eager", "jax_xla")] == ["ok", "ok"]
    for outcome in outcomes.values():
        assert outcome["agreement"]["rmse_ref_rel"] < 1e-3
        assert outcome["effective"]["recompilations"] == 0
    assert outcomes["jax_xla"]["effective"]["compilations"] == 1
    assert record["model"]["macs"] == MACS


def test_predict_is_compiled_whole_only_where_it_was_asked_to(python: Path, tmp_path: Path) -> None:
    outcomes = measured(python, tmp_path, "backend=jax", "scenario=predict", "batches=2")["modes"]
    proofs = [outcomes[f"jax_predict_{name}"]["effective"] for name in ("eager", "xla")]
    assert [outcome["status"] for outcome in outcomes.values()] == ["ok", "ok"]
    assert [proof["jit_compile"] for proof in proofs] == [False, True]
    assert all(proof["in_force"] and not proof["recompilations"] for proof in proofs)
    assert all(outcome["agreement"]["rmse_ref_rel"] < 1e-5 for outcome in outcomes.values())


def test_a_model_that_decides_by_values_runs_eagerly_only(python: Path, tmp_path: Path) -> None:
    outcomes = measured(python, tmp_path, "backend=jax", code=DECIDING, ends=1)["modes"]
    assert outcomes["jax_eager"]["status"] == "ok"
    assert outcomes["jax_xla"]["status"] == "dynamic_shape"
    assert "decides by computed values" in outcomes["jax_xla"]["failure"]["message"]


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ("Jitted", "weights_not_read"),
        ("closing", "weights_not_read"),
        ("Plain", None),
        ("constant", None),
    ],
)
def test_weights_that_jax_holds_as_constants_are_named(
    made: str, kind: str | None, python: Path, tmp_path: Path
) -> None:
    words = ("backend=jax", "input_spec=[{shape:[16,16,3]}]")
    code = JITTED.replace("MADE", made)
    outcomes = measured(python, tmp_path, *words, code=code, ends=int(bool(kind)))["modes"]
    failures = [outcome["failure"] for outcome in outcomes.values()]
    assert [each and each["kind"] for each in failures] == [kind, kind]


def test_one_trial_compares_tensorflow_and_jax_on_the_same_weights(
    python: Path, tmp_path: Path
) -> None:
    beside = next(python.parent.parent.glob("lib/python3*")) / "site-packages"
    record = measured(
        Path(sys.executable),
        tmp_path,
        "modes=[graph,xla,jax_xla]",
        environ={"PYTHONPATH": str(beside)},
    )
    outcomes = record["modes"]
    assert [outcome["status"] for outcome in outcomes.values()] == ["ok"] * len(outcomes)
    assert {"graph", "xla", "jax_xla"} <= outcomes.keys()
    assert all(outcome["agreement"]["ok"] for outcome in outcomes.values())
    assert outcomes["jax_xla"]["agreement"]["rmse_rel"] < 1e-5
    assert outcomes["jax_xla"]["effective"]["compilations"] == 1


def test_outputs_equal_those_of_tensorflow(python: Path) -> None:
    script = str(SUPPORT / "built_outputs.py")
    ours = _printed(python, script, "jax")
    theirs = _printed(Path(sys.executable), script, "tensorflow")
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())


def test_multiply_accumulates_are_counted_in_what_jax_traced(python: Path) -> None:
    assert _printed(python, str(SUPPORT / "jax_macs.py")) == {
        "dot": [64, False],
        "jit": [64, False],
        "convolution": [2 * 64 * 9 * 6 * 12, False],
        "grouped": [2 * 64 * 9 * 2 * 12, False],
        "scan": [5 * 64, False],
        "while": [64, True],
    }


def _printed(python: Path, *arguments: str) -> Any:
    """What a script prints last."""
    environ = {"PATH": "", "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    ended = subprocess.run(
        [str(python), *arguments], capture_output=True, text=True, timeout=200, env=environ
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def test_a_gpu_that_jax_does_not_see_is_one_line_with_what_to_do(python: Path) -> None:
    program = (
        "from types import SimpleNamespace\n"
        "from xla_sweeps.backends.jax.backend import _device\n"
        "from xla_sweeps.errors import DeviceError\n"
        "try:\n    print(_device(SimpleNamespace(device='gpu:0', on_accelerator=True)))\n"
        "except DeviceError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [python, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cuda", "KERAS_BACKEND": "jax"},
        check=False,
    )
    (line,) = done.stdout.splitlines()
    assert "sees no GPU (its plugin for CUDA is missing)" in line, done.stderr
    assert line.endswith("pip install 'jax[cuda13]'")
