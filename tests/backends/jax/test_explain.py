"""Models explained on JAX, in an environment that has no TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from explain_each import explain_each
from other_environments import MACS, OWN, python_of
from programs import run_program

from xla_sweeps.report.terminal.explained_lines import WIDTH
from xla_sweeps.report.terminal.explanation import explanation_text
from xla_sweeps.schema.explanation import Explanation, TrapName

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # the environment is made first

MODELS = f"""{OWN}
class Decides(keras.layers.Layer):
    def compute_output_spec(self, values):
        return keras.KerasTensor(values.shape, values.dtype)

    def call(self, values):
        return values * 2 if float(keras.ops.sum(values)) > 0 else values

def deciding():
    inputs = keras.Input((16, 16, 3))
    return keras.Model(inputs, Decides()(inputs))
"""


@pytest.fixture(scope="module")
def explanations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return explain_each("jax", tmp_path_factory.mktemp("jax"), MODELS, "build", "deciding")


@pytest.fixture
def explanation(explanations: dict[str, Any]) -> Any:
    return explanations["build"]


def test_the_program_is_read_with_its_work_and_its_layers(explanation: Any) -> None:
    program, roofline = explanation["program"], explanation["roofline"]
    assert 0 < program["operations"] < explanation["hlo_operations"]
    assert program["convolutions"] + program["dots"] + sum(program["library"].values()) > 0
    layers = {layer for fusion in program["largest"] for layer in fusion["layers"]}
    assert any(layer.endswith(("(Conv2D)", "(Dense)")) for layer in layers)
    assert roofline["work"]["macs_by_type"] == {"f32": 3 * MACS}
    assert roofline["work"]["weight_bytes"] == 4 * (27 * 8 + 8 + 4 * 8 + 8 * 5 + 5)
    assert [mode["mode"] for mode in roofline["modes"]] == ["jax_eager", "jax_xla"]


def test_what_compiles_again_is_counted_with_its_seconds(explanation: Any) -> None:
    rows = {row["call"]: row for row in explanation["compilations"]}
    assert rows["jax.jit, first call"]["programs"] == 1
    assert rows["jax.jit, other values"]["programs"] == 0
    assert rows["jax.jit, a batch of 2"]["programs"] == 1
    assert rows["model(x), first call"]["programs"] > 1
    for name in ("trace_s", "lower_s", "compile_s"):
        assert rows["jax.jit, a batch of 2"][name] > 0
        assert rows["jax.jit, other values"][name] == 0
    states = {trap["name"]: trap["state"] for trap in explanation["traps"]}
    assert states["recompiles_per_shape"] == states["xla_in_every_mode"] == "found"
    assert states["recompiles_per_value"] == states["other_values"] == "none"
    assert states.keys() == set(TrapName)


def test_the_time_of_a_call_is_taken_apart_op_by_op_and_under_jit(explanation: Any) -> None:
    time = explanation["time"]
    assert [mode["mode"] for mode in time["modes"]] == ["jax_eager", "jax_xla"]
    for mode in time["modes"]:
        kinds = {kind for kind, spent_s in mode["by_kind"].items() if spent_s > 0}
        assert {"convolution", "matrix product"} <= kinds
        parts = sum(mode["by_kind"].values()) + mode["gaps_s"] + mode["host_s"]
        assert parts == pytest.approx(mode["call_s"])
        assert mode["kernels"] == []
    assert (time["lost"], time["layered"]) == ([], False), "single operations have no layer"


def test_what_jax_does_not_tell_is_a_line_each(explanation: Any) -> None:
    text = explanation_text(msgspec.convert(explanation, Explanation))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "\nHere JAX with XLA is " in text
    words = " ".join(text.split())
    assert "– the registry of kernels: not available: JAX lists no kernels of XLA" in words
    assert "graph mode runs: not available: JAX has no graph mode" in words
    assert "where the time goes: not available" not in words
    assert "loses" not in text.partition("\nWhere the time goes\n")[2]


def test_a_model_that_decides_by_values_is_refused_for_it(explanations: dict[str, Any]) -> None:
    explanation = explanations["deciding"]
    compiler = explanation["compiler"]
    assert not compiler["compiles"]
    assert "decides by computed values" in compiler["message"]
    (place,) = compiler["places"]
    line = MODELS[: MODELS.index("if float(")].count("\n") + 1
    assert place["line"] == f"own.py:{line}"
    assert explanation["missing"]["program"] == "jax.jit cannot trace the model"


def test_a_backend_that_is_not_installed_is_refused_in_one_line(tmp_path: Path) -> None:
    command = [str(python_of("jax")), "-m", "xla_sweeps", "explain", "model=mobilenet_v2"]
    ended = run_program(*command, "device=cpu", cwd=tmp_path, code=2)
    assert ended.stdout == ""
    install = f"{command[0]} -m pip install tensorflow"
    line = f"tensorflow is not installed; install: {install}; or add backend=jax"
    assert ended.stderr == f"xla-sweeps: backend=tensorflow: {line}\n"
