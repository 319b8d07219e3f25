"""Models explained on PyTorch, in an environment that has no TensorFlow."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from explain_each import explain_each
from other_environments import MACS, ON_TORCH, OWN

from xla_sweeps.report.terminal.explained_lines import WIDTH
from xla_sweeps.report.terminal.explanation import explanation_text
from xla_sweeps.schema.explanation import Explanation

pytestmark = ON_TORCH

MODELS = f"""{OWN}
import torch

class Breaks(keras.layers.Layer):
    def call(self, values):
        if float(keras.ops.sum(values)) > 0:
            values = values * 2
        for name in "abcdefghijkl":
            values = renamed(values, name)
        return values

def renamed(values, name):
    torch._dynamo.graph_break(msg="a break of its own")
    return values + len(name)

class Fixed(keras.layers.Layer):
    def compute_output_spec(self, values):
        return keras.KerasTensor((None, 16 * 16 * 3), values.dtype)

    def call(self, values):
        return keras.ops.reshape(values, (3, 16 * 16 * 3))

def fixed():
    inputs = keras.Input((16, 16, 3))
    return keras.Model(inputs, keras.layers.Dense(5)(Fixed()(inputs)))

def broken():
    inputs = keras.Input((16, 16, 3))
    return keras.Model(inputs, keras.layers.Dense(5)(Breaks()(inputs)))
"""


def explain(model: str, folder: Path) -> Any:
    """The explanation of one of the models."""
    try:
        return explain_each("torch", folder, MODELS, model)[model]
    except subprocess.CalledProcessError:
        pytest.skip("the package indexes have no CPU build of PyTorch for this Python")


def text_of(explanation: Any) -> str:
    """The text, with one blank between words; no line is wider than a terminal."""
    text = explanation_text(msgspec.convert(explanation, Explanation))
    assert max(map(len, text.splitlines())) <= WIDTH
    return " ".join(text.split())


def test_breaks_have_their_reasons_and_the_users_lines(tmp_path: Path) -> None:
    explanation = explain("broken", tmp_path)
    compiled, exported = explanation["captures"]
    assert compiled["graphs"] > 1
    lines = {each["reason"].partition(" call")[0]: each["line"] for each in compiled["breaks"]}
    line = MODELS[: MODELS.index("if float(")].count("\n") + 1
    assert lines["Unsupported Tensor.item()"] == f"own.py:{line}"
    assert compiled["limit"] == 8
    assert any("renamed" in name and "(own.py:" in name for name in compiled["gave_up"])
    assert exported["graphs"] is None
    assert "data-dependent" in exported["refusal"]
    assert exported["place"] == f"own.py:{line}"
    text = text_of(explanation)
    assert "reached the limit of 8 recompilations: it runs uncompiled" in text
    assert [mode["mode"] for mode in explanation["roofline"]["modes"]] == ["torch_eager"]


def test_a_model_of_one_batch_size_is_explained_but_for_others(tmp_path: Path) -> None:
    explanation = explain("fixed", tmp_path)
    compiled, exported = explanation["captures"]
    assert compiled["graphs"] == exported["graphs"] == 1
    assert compiled["recompilations"] == {"the same batch": 0}
    assert list(compiled["refused"]) == ["a batch of 2", "a batch of 5"]
    text = text_of(explanation)
    assert "further graphs for a batch of 2: not available: shape '[3, 768]' is invalid" in text
    assert explanation["roofline"]


def test_a_whole_model_is_one_graph_and_timed_in_both_ways(tmp_path: Path) -> None:
    explanation = explain("build", tmp_path)
    compiled, exported = explanation["captures"]
    assert exported["graphs"] == 1
    assert exported["calls"] > 3
    assert not exported["refusal"]
    assert compiled["recompilations"]["the same batch"] == 0
    assert compiled["recompilations"]["a batch of 2"] > 0
    roofline = explanation["roofline"]
    assert [mode["mode"] for mode in roofline["modes"]] == ["torch_eager", "torch_export"]
    assert roofline["work"]["macs_by_type"] == {"f32": 3 * MACS}
    assert roofline["work"]["weight_bytes"] == 4 * (27 * 8 + 8 + 4 * 8 + 8 * 5 + 5)
    text = text_of(explanation)
    assert "Here PyTorch exported and compiled is " in text
    assert "silent traps of XLA: not available: PyTorch compiles with its own compiler" in text
    assert "where the time goes: not available: PyTorch's trace has no operations of a" in text
