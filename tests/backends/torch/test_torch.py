"""PyTorch, in an environment that has no TensorFlow: a whole trial in its three modes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

import pytest
from other_environments import python_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),  # the environment is made first
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="torch's wheel is for Python 3.11"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++"),
]

OWN = """
import keras

def build():
    inputs = keras.Input((16, 16, 3))
    values = keras.layers.Conv2D(8, 3, activation="relu")(inputs)
    values = keras.layers.BatchNormalization()(values)
    values = keras.layers.GlobalAveragePooling2D()(values)
    return keras.Model(inputs, keras.layers.Dense(5)(values))
"""

MACS = 14 * 14 * 27 * 8 + 8 * 5


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("torch")
    (folder / "own.py").write_text(OWN)
    words = ["model=local", "path=own.py:build", "trust_code=true", "backend=torch", "batch_size=2"]
    more = ["effort=quick", "effort.always_reference=true", "device=cpu", "tracker=none"]
    try:
        python = python_of("torch")
    except subprocess.CalledProcessError:
        pytest.skip("the package indexes have no CPU build of PyTorch for this Python")
    command = [str(python), "-m", "xla_sweeps", *words, *more, "results_dir=r"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    [path] = folder.glob("r/records/*/0.json")
    return json.loads(path.read_text())


def test_a_trial_measures_the_modes_and_each_computes_the_same(record: Any) -> None:
    outcomes = record["modes"]
    assert [outcomes[mode]["status"] for mode in ("torch_eager", "torch_export")] == ["ok", "ok"]
    assert outcomes["torch_export"]["agreement"]["ok"]
    assert record["model"]["macs"] == MACS


def test_a_mode_is_proved_by_the_graphs_that_torch_captured(record: Any) -> None:
    outcomes = record["modes"]
    assert outcomes["torch_eager"]["effective"]["graphs"] == 0
    assert outcomes["torch_export"]["effective"]["graphs"] == 1
    compiled = outcomes["torch_compile"]
    proof = compiled["effective"]
    whole = proof["graphs"] == 1 and not proof["graph_breaks"]
    assert compiled["status"] == ("ok" if whole else "mode_not_effective")
