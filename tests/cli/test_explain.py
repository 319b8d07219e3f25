"""The command `explain`, with a model that kills its process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from commands import command, fresh_command

from xla_sweeps.cli.explain import explain_command
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.explanation import Explanation, OpList, State, Trap, TrapName
from xla_sweeps.trial import explaining

MODELS = """
import os
import keras
import tensorflow as tf


class Deadly(keras.layers.Layer):
    def call(self, image):
        if not tf.executing_eagerly():
            image = tf.ensure_shape(
                tf.numpy_function(lambda value: os.abort(), [image], tf.float32), image.shape
            )
        return image


def deadly():
    image = keras.Input((8, 8, 3))
    return keras.Model(image, Deadly(name="deadly")(keras.layers.Conv2D(4, 3)(image)))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "faulty.py").write_text(MODELS)
    return tmp_path


@pytest.mark.tf
@pytest.mark.slow
@pytest.mark.exhaustive  # daily: a dead process in tests/trial/test_explaining.py
def test_a_crash_leaves_what_was_known_and_says_what_is_not(folder: Path) -> None:
    request = ("explain", "model=local", "path=faulty:deadly", "trust_code=true", "device=cpu")
    done = fresh_command(*request, "--format", "json", cwd=folder, code=1)
    explanation = json.loads(done.stdout)
    assert [refusal["op"] for refusal in explanation["refusals"]] == ["PyFunc"]
    (place,) = explanation["refusals"][0]["places"]
    assert (place["layer"], place["line"]) == ("deadly (Deadly)", "faulty.py:11")
    assert explanation["roofline"] is None
    assert "SIGABRT" in explanation["missing"]["roofline"]
    states = {trap["name"]: trap["state"] for trap in explanation["traps"]}
    assert states["other_values"] == "not available"
    assert states["other_random_numbers"] == "none"
    left = {path.name for path in folder.iterdir()}
    assert left <= {"faulty.py", "__pycache__", ".keras", "leases"}


@pytest.mark.tf
@pytest.mark.slow
def test_what_this_tensorflow_compiles_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("explain", "--ops", "--format", "json", "-o", "ops.json")
    done = command(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    listed = json.loads((tmp_path / "ops.json").read_text())
    assert listed["devices"] == ["XLA_CPU_JIT", "XLA_GPU_JIT"]
    ops = {op_entry["op"]: op_entry for op_entry in listed["ops"]}
    for op in ("Conv2D", "Unique", "Where", "NonMaxSuppressionV3", "NonMaxSuppressionV4"):
        assert ops[op]["devices"] == listed["devices"], op
    for op in ("CropAndResize", "ResizeBicubic", "CombinedNonMaxSuppression", "PyFunc"):
        assert ops[op]["devices"] == [], op
        assert ops[op]["advice"]
    assert "float32" in ops["Conv2D"]["types"]["T"]
    op_list = msgspec.convert(listed, OpList)
    monkeypatch.setattr(explaining, "compiled_ops", lambda: op_list)
    with pytest.raises(ConfigError, match=r"unknown operation 'ResizeBicubik'. Did you mean 'R"):
        explain_command(["--ops", "ResizeBicubik"])


HOSTILE = "\x1b[2J\x9b2J\u202ekaerb"


def explained(*words: str, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Run the command with an explanation of hostile words; whether each was to be traced."""
    traced: list[bool] = []
    trap = Trap(name=TrapName.OTHER_SHAPE, state=State.FOUND, what=HOSTILE)
    explanation = Explanation(model="net", device="XLA_CPU_JIT", traps=(trap,))

    def explain(_settings: Any, *, trace: bool, **_rest: Any) -> tuple[Explanation, bool]:
        traced.append(trace)
        return explanation, True

    monkeypatch.setattr(explaining, "explain", explain)
    assert explain_command(["model=resnet50", "device=cpu", *words]) == 0
    return traced


def test_control_characters_of_a_model_are_escaped_in_json_and_left_out_of_the_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "known"
    assert explained("-o", str(path), monkeypatch=monkeypatch) == [True]
    assert "other_shape" in path.read_text()
    assert not set("\x1b\x9b\u202e") & set(path.read_text())
    explained("--format", "json", "-o", str(path), monkeypatch=monkeypatch)
    assert not set("\x1b\x9b\u202e") & set(path.read_text())
    assert json.loads(path.read_text())["traps"][0]["what"] == HOSTILE


def test_no_trace_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = ("--no-trace", "-o", str(tmp_path / "known.txt"))
    assert explained(*words, monkeypatch=monkeypatch) == [False]
