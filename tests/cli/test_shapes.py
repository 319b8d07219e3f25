"""The command `shapes`: the trial that it asks for, its answer, and the mistakes that it names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from commands import command
from composed import record_of

from xla_sweeps.cli.answers import shapes_command
from xla_sweeps.schema.trial import LATER
from xla_sweeps.store.store import Store

pytestmark = pytest.mark.usefixtures("composed_once")

WORDS = ["model=mobilenet_v2", "device=cpu"]

ASKED = ["scenario=new_shapes", "effort=starts", "effort.rounds_max=8"]

FIRST_S = {"graph": 1.0, "graph_dynamic": 1.0, "xla": 4.0}

LATER_S = {"graph": 0.16, "graph_dynamic": 0.2, "xla": 0.08}


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A folder with a trial of two shapes, whose times are planted."""
    record = record_of(*WORDS, *ASKED, "shapes=[b32,b32,b8]", call_s=FIRST_S, count=8)
    rounds = [
        replace(
            one, blocks=tuple(replace(b, parts_ns=parts(b.mode, one.round)) for b in one.blocks)
        )
        for one in record.rounds
    ]
    programs = {"graph": 1, "graph_dynamic": 0, "xla": 1}
    modes = {
        label: replace(
            one, effective={**one.effective, "programs": {"b32": 1, "b8": programs[label]}}
        )
        for label, one in record.modes.items()
    }
    for number in (0, 1):
        one = replace(record, replicate=number, rounds=tuple(rounds), modes=modes)
        Store(tmp_path).save(one)
    return tmp_path


def parts(label: str, number: int) -> dict[str, int]:
    later = LATER_S[label]
    met = later if label == "graph_dynamic" else FIRST_S[label]
    seconds = {"b32": FIRST_S[label], "b8": met, f"b32{LATER}": later, f"b8{LATER}": later}
    return {name: round(1e9 * each * (1 + number % 3 / 1000)) for name, each in seconds.items()}


def ask(folder: Path, *more: str) -> int:
    return shapes_command([*WORDS, f"results_dir={folder}", *more])


def test_the_answer_says_what_takes_the_least_time_from_how_many_calls_on(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(measured, "--batches", "32,32,8") == 0
    text = capsys.readouterr().out
    said = " ".join(text.split())
    # Of three calls a pass: 0.8 + 0.6 n, 1.68 + 0.48 n, 3.92 + 0.24 n padded or 7.84 + 0.24 n.
    assert "Least time on these 3 batches: graph_dynamic; graph from 8 passes over them (" in said
    assert "; xla padded to b32 from 10 passes over them (" in said
    assert "Less than graph: xla from 26 passes over them (" in said
    assert "xla padded to b32: pad each batch to b32, then jit_compile=True" in said
    assert "graph_dynamic: tf.function(input_signature=[tf.TensorSpec([None, ...])])" in said
    assert max(map(len, text.splitlines())) <= 100


def test_the_same_as_json_in_seconds(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(measured, "--batches", "32,32,8", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    made = {(one["mode"], one["shape"]): one["programs"] for one in document["shapes"]}
    assert made["graph_dynamic", "b8"] == 0
    assert made["xla", "b8"] == 1
    once = {way["name"]: way["once_s"]["estimate"] for way in document["ways"]}
    assert once["xla"] == pytest.approx(2 * (4 - 0.08), rel=0.01)
    assert document["steps"][0]["name"] == "graph_dynamic"
    assert document["recompiling"] == []


def test_a_trial_that_is_there_is_not_measured_again(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(measured, "--batches", "32,32,8", "--dry-run") == 0
    assert "shapes=[" not in capsys.readouterr().out
    assert ask(measured, "--batches", "32,32,8", "effort.replicates=4", "--dry-run") == 0
    assert "1 to measure (2 replicates)" in capsys.readouterr().err, "two are there"
    assert ask(measured, "--batches", "32,8", "--sizes", "96", "--dry-run") == 0
    assert "shapes=[96,b32,b8]" in capsys.readouterr().out


MODEL = """
import tensorflow as tf

class Sliced(tf.keras.layers.Layer):
    def call(self, values):
        size = tf.cast(values[0, 0] * 1000, tf.int32) % 7 + 2
        return values[:, :1] + tf.reduce_sum(tf.range(20.0)[:size])

def build():
    return tf.keras.Sequential([tf.keras.Input((8,)), Sliced()])
"""


@pytest.mark.tf
@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_model_that_compiles_for_each_value_is_told_apart_by_the_real_command(
    tmp_path: Path,
) -> None:
    (tmp_path / "own_model.py").write_text(MODEL)
    done = command(
        *("shapes", "model=local", "path=own_model.py:build", "trust_code=true", "device=cpu"),
        *("modes=[graph,xla]", "effort.rounds_min=6", "effort.rounds_max=6"),
        *("effort.rounds_look=6", "effort.replicates=1", "--batches", "2,3"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "Compiles again for each new value, not only for each shape, so never pays: xla." in said
    assert "Least time on these 2 batches: graph." in said
