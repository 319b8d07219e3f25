"""The command `explain`, with a model that has several faults, and one that kills its process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from commands import command, fresh_command

from xla_sweeps.cli.explain import explain_command
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.schema.explanation import Explanation, OpList, State, Trap, TrapName
from xla_sweeps.trial import explaining

MODELS = """
import os
import keras
import tensorflow as tf


class Peaks(keras.layers.Layer):
    def call(self, image):
        peaks, _ = tf.nn.max_pool_with_argmax(image, 2, 2, "SAME")
        return tf.image.resize(peaks, (8, 8), method="bicubic")


class Deadly(keras.layers.Layer):
    def call(self, image):
        if not tf.executing_eagerly():
            image = tf.ensure_shape(
                tf.numpy_function(lambda value: os.abort(), [image], tf.float32), image.shape
            )
        return image


def of(layer):
    image = keras.Input((8, 8, 3))
    return keras.Model(image, layer(keras.layers.Conv2D(4, 3)(image)))


def peaks():
    return of(Peaks(name="peaks"))


def deadly():
    return of(Deadly(name="deadly"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "faulty.py").write_text(MODELS)
    return tmp_path


@pytest.mark.tf
@pytest.mark.slow
def test_every_refused_operation_is_shown_with_layer_line_and_advice(folder: Path) -> None:
    request = ("explain", "model=local", "path=faulty:peaks", "trust_code=true", "device=cpu")
    done = fresh_command(*request, "ui=quiet", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    for part in (
        "! MaxPoolWithArgmax: no kernel on XLA_CPU_JIT and XLA_GPU_JIT",
        "in peaks (Peaks), faulty.py:9",
        "! ResizeBicubic: no kernel",
        "in peaks (Peaks), faulty.py:10",
        "-> tf.nn.max_pool2d",
    ):
        assert part in done.stdout
    assert {path.name for path in folder.iterdir()} <= {
        "faulty.py",
        "__pycache__",
        ".keras",
        "leases",
    }


@pytest.mark.tf
@pytest.mark.slow
def test_a_crash_leaves_what_was_known_and_says_what_is_not(folder: Path) -> None:
    request = ("explain", "model=local", "path=faulty:deadly", "trust_code=true", "device=cpu")
    done = fresh_command(*request, "--format", "json", cwd=folder)
    assert done.returncode == 1
    explanation = json.loads(done.stdout)
    assert [refusal["op"] for refusal in explanation["refusals"]] == ["PyFunc"]
    assert explanation["refusals"][0]["places"][0]["layer"] == "deadly (Deadly)"
    assert explanation["clustering"] is None
    assert "SIGABRT" in explanation["missing"]["clustering"]
    states = {trap["name"]: trap["state"] for trap in explanation["traps"]}
    assert states["other_values"] == "not available"
    assert states["other_random_numbers"] == "none"


@pytest.mark.tf
@pytest.mark.slow
def test_what_this_tensorflow_compiles_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("explain", "--ops", "--format", "json", "-o", "ops.json")
    done = fresh_command(*words, cwd=tmp_path)
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


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "explain: name a model, as in `xla-sweeps explain model=mobilenet_v2`"),
        (["resnet50"], "explain: 'resnet50': expected KEY=VALUE, as in model=resnet50"),
        (["model=resnet5"], "unknown model 'resnet5'. Did you mean 'resnet50'?"),
        (["model=resnet50", "resolutoin=96"], "unknown option 'resolutoin'"),
        (["model=resnet50", "--ops"], "explain --ops: remove model=resnet50"),
        (["--ops", "--no-trace"], "explain --ops: remove --no-trace"),
        (["--ops", "-o", "."], "cannot write .: it is a folder"),
        (["model=resnet50", "--format", "html"], "argument --format: invalid choice: 'html'"),
        (["model=local", "path=faulty:peaks"], "add trust_code=true if you trust it"),
        (["model=resnet50,vgg16"], "several values"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], line: str, folder: Path) -> None:
    done = command("explain", *words, cwd=folder)
    assert done.returncode == 2
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


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


def test_json_escapes_the_control_characters_of_a_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "known.json"
    explained("--format", "json", "-o", str(path), monkeypatch=monkeypatch)
    text = path.read_text()
    assert not set(HOSTILE) & set("\x1b\x9b\u202e") & set(text)
    assert json.loads(text)["traps"][0]["what"] == HOSTILE


def test_the_text_is_written_without_the_control_characters_of_a_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "known.txt"
    assert explained("-o", str(path), monkeypatch=monkeypatch) == [True]
    assert "other_shape" in path.read_text()
    assert not set("\x1b\x9b\u202e") & set(path.read_text())


def test_no_trace_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = ("--no-trace", "-o", str(tmp_path / "known.txt"))
    assert explained(*words, monkeypatch=monkeypatch) == [False]


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[bool] = []
    monkeypatch.setattr(explaining, "explain", lambda *_, **__: begun.append(True))
    words = ["model=resnet50", "device=cpu", "-o", str(tmp_path / "missing" / "known")]
    with pytest.raises(StoreError, match="there is no folder"):
        explain_command(words)
    assert not begun


@pytest.mark.parametrize("scenario", ["train_step", "fit"])
def test_a_scenario_that_is_not_explained_is_refused_in_one_line(
    scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[bool] = []
    monkeypatch.setattr(explaining, "explain", lambda *_, **__: begun.append(True))
    with pytest.raises(ConfigError, match=f"explain: scenario={scenario} is not explained; remove"):
        explain_command(["model=mobilenet_v2", "device=cpu", f"scenario={scenario}"])
    assert not begun
