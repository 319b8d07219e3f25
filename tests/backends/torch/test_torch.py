"""PyTorch, in an environment that has no TensorFlow: a whole trial of each scenario."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from other_environments import MACS, OWN, measured, python_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),  # the environment is made first
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="torch's wheel is for Python 3.11"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++"),
]

NORMALIZATION = "    values = keras.layers.BatchNormalization()(values)\n"
"""The layer that torch.compile does not capture while it trains (Keras 3.15.1)."""

DROPOUT = "    values = keras.layers.Dropout(0.5)(values)\n"


@pytest.fixture(scope="module")
def python() -> Path:
    try:
        return python_of("torch")
    except subprocess.CalledProcessError:
        pytest.skip("the package indexes have no CPU build of PyTorch for this Python")


@pytest.fixture(scope="module")
def record(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return measured(python, tmp_path_factory.mktemp("torch"), "backend=torch")


def test_a_trial_measures_the_modes_and_each_computes_the_same(record: Any) -> None:
    outcomes = record["modes"]
    assert [outcomes[mode]["status"] for mode in ("torch_eager", "torch_export")] == ["ok", "ok"]
    assert outcomes["torch_export"]["agreement"]["ok"]
    assert record["model"]["macs"] == MACS
    assert not record["sync"].get("modes")  # on a CPU there is nothing to wait for


def test_a_mode_is_proved_by_the_graphs_that_torch_captured(record: Any) -> None:
    outcomes = record["modes"]
    assert outcomes["torch_eager"]["effective"]["graphs"] == 0
    exported = outcomes["torch_export"]["effective"]
    assert exported["graphs"] == 1
    assert exported["compile_s"] > 0 < exported["trace_s"]
    compiled = outcomes["torch_compile"]
    proof = compiled["effective"]
    whole = proof["graphs"] == 1 and not proof["graph_breaks"]
    assert compiled["status"] == ("ok" if whole else "mode_not_effective")


def test_a_training_step_learns_the_same_in_both_modes(python: Path, tmp_path: Path) -> None:
    words = ("backend=torch", "scenario=train_step", "optimizer=adam")
    record = measured(python, tmp_path, *words, code=OWN.replace(NORMALIZATION, ""))
    outcomes = record["modes"]
    assert [outcomes[mode]["status"] for mode in ("torch_eager", "torch_compile")] == ["ok", "ok"]
    assert [outcome["effective"]["graphs"] for outcome in outcomes.values()] == [0, 1]
    for outcome in outcomes.values():
        assert outcome["agreement"]["rmse_ref_rel"] < 1e-4  # from the weights of the first step
        assert outcome["effective"]["recompilations"] == 0
    assert record["model"]["macs"] == MACS


def test_a_step_with_dropout_is_verified_eagerly_only(python: Path, tmp_path: Path) -> None:
    code = OWN.replace(NORMALIZATION, DROPOUT)
    words = ("backend=torch", "scenario=train_step")
    outcomes = measured(python, tmp_path, *words, code=code, ends=1)["modes"]
    assert outcomes["torch_eager"]["status"] == "ok"
    assert outcomes["torch_compile"]["status"] == "unverifiable"
    message = outcomes["torch_compile"]["failure"]["message"]
    assert "torch.compile draws other random numbers than eager in dropout" in message


@pytest.mark.exhaustive
def test_a_step_with_batch_normalization_is_no_single_graph(python: Path, tmp_path: Path) -> None:
    outcomes = measured(python, tmp_path, "backend=torch", "scenario=train_step", ends=1)["modes"]
    assert outcomes["torch_eager"]["status"] == "ok"
    assert outcomes["torch_compile"]["status"] == "mode_not_effective"
    assert outcomes["torch_compile"]["effective"]["graph_breaks"] > 0


def test_predict_is_compiled_only_where_it_was_asked_to_and_in_each_copy(
    python: Path, tmp_path: Path
) -> None:
    names = ["torch_predict_eager", "torch_predict_compile", "torch_predict_compile"]
    words = ["scenario=predict", "batches=2", f"modes=[{','.join(names)}]"]
    outcomes = measured(python, tmp_path, "backend=torch", *words)["modes"]
    proofs = [outcome["effective"] for outcome in outcomes.values()]
    assert [outcome["status"] for outcome in outcomes.values()] == ["ok"] * 3
    assert [proof["jit_compile"] for proof in proofs] == [False, True, True]
    assert [proof["graphs"] for proof in proofs] == [0, 1, 1]
    assert all(outcome["agreement"]["rmse_ref_rel"] < 1e-5 for outcome in outcomes.values())


def test_what_keras_lowers_is_named(python: Path, tmp_path: Path) -> None:
    code = OWN.replace(
        NORMALIZATION,
        "    layer = keras.layers.Activation('relu', name='own')\n"
        "    layer.supports_jit = False\n"
        "    values = layer(values)\n",
    )
    words = ("backend=torch", "scenario=predict")
    outcomes = measured(python, tmp_path, *words, code=code, ends=1)["modes"]
    assert outcomes["torch_predict_eager"]["status"] == "ok"
    assert outcomes["torch_predict_compile"]["status"] == "mode_not_effective"
    message = outcomes["torch_predict_compile"]["failure"]["message"]
    assert message == (
        "Keras lowered jit_compile=True to False: supports_jit is False in own (Activation)"
    )
