"""The command `compatibility`: the trials that it asks for, and the answer from their records."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from commands import command as forked_command
from composed import record_of
from factories import MODEL, failed_outcome
from in_process import command

from xla_sweeps.analysis.compatibility import NEEDED
from xla_sweeps.cli import compatibility
from xla_sweeps.config.catalog import load_layers
from xla_sweeps.errors import LEFT_CODE, ConfigError
from xla_sweeps.report import study
from xla_sweeps.report.compatibility import sentence
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.store import rows
from xla_sweeps.store.store import Store

pytestmark = pytest.mark.usefixtures("composed_once")

ON = "device=cpu"

MODELS = ("fusion_example", "mnist_mlp", "seq_conv", "seq_conv_lstm", "tiny_dense")


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A folder with a check of each example, of all results, and a trial of another model."""
    failures = {
        "fusion_example": failed_outcome(Status.DYNAMIC_SHAPE, "a shape depends on values"),
        "mnist_mlp": failed_outcome(Status.WRONG_RESULT, "other outputs"),
    }
    shared = ["batch_size=1", "modes=[graph,xla]", ON]
    asked = [(name, "effort=check") for name in MODELS] + [("vgg16", "effort=quick")]
    for seed, (model, effort) in enumerate(asked):
        call_s = {"graph": 0.01, "xla": 0.02 if model == "seq_conv" else 0.005}
        words = [f"model={model}", effort, *shared]
        record = record_of(*words, call_s=call_s, noise=0.001, seed=seed)
        facts = replace(MODEL, name=model, source=record.trial.model.source)
        record = replace(record, model=facts)
        if model in failures:
            record = replace(record, modes={**record.modes, "xla": failures[model]})
        Store(tmp_path / "results").save(record)
    return tmp_path


def test_models_are_prepared_ahead_as_far_as_the_machine_allows(tmp_path: Path) -> None:
    done = command("compatibility", "tiny_dense", ON, "--ahead=1000", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--ahead=1000 is " in done.stderr


def test_the_answer_counts_the_checks_alone_and_gives_the_reasons(measured: Path) -> None:
    done = command("compatibility", "examples", ON, cwd=measured, code=0)
    assert max(map(len, done.stdout.splitlines())) <= 80
    said = " ".join(done.stdout.split())
    assert said.startswith(
        "XLA compiles 4 of 5 models and refuses 1. Outputs agree with eager's in 3. "
        "Against graph: 2 faster, 1 slower, 0 as fast, 0 not told apart."
    )
    for part in (
        "examples 5 4 3 2 1",
        "do not compile fusion_example (examples): dynamic_shape a shape depends on values",
        "do not agree mnist_mlp (examples): wrong_result other outputs",
        "slower seq_conv (examples): 0.50×",
    ):
        assert part in said


def test_the_exit_code_says_that_trials_are_left_though_all_have_a_record(
    measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose process was lost has a record, and is measured again."""
    monkeypatch.setattr(compatibility, "measure_aside", lambda *_: LEFT_CODE)
    command("compatibility", "examples", ON, cwd=measured, code=LEFT_CODE)


def test_models_that_were_too_disturbed_to_be_timed_are_counted() -> None:
    row: dict[str, Any] = dict.fromkeys(NEEDED, "") | {
        "candidate": "xla",
        "baseline": "graph",
        "status": "ok",
    }
    rows = [
        row | {"verdict": verdict, "speedup": speedup, "failed_mode": ""}
        for verdict, speedup in ((Verdict.FASTER, 2.0), (Verdict.NOT_MEASURED, None))
    ]
    assert sentence(rows).endswith("1 faster, 0 slower, 0 as fast, 0 not told apart, 1 not timed.")
    assert sentence(rows[:1]).endswith("0 not told apart.")


def test_the_answer_is_given_as_data_and_markdown(measured: Path) -> None:
    def shown(form: str) -> str:
        return command("compatibility", "examples", ON, "--format", form, cwd=measured).stdout

    lines = list(csv.DictReader(shown("csv").splitlines()))
    assert [line["model"] for line in lines] == list(MODELS)
    document = json.loads(shown("json"))
    assert document["skipped"] == {}
    assert [check["status"] for check in document["checks"]] == [line["status"] for line in lines]
    assert "| mnist_mlp | examples | wrong_result | other outputs |" in shown("markdown")


def test_the_page_and_the_report_have_the_counts(measured: Path) -> None:
    table = rows.load(measured / "results").table
    (made,) = [one for one in study.of_table(table) if one.key == "compatibility"]
    assert made.finding.startswith("XLA compiles 4 of 5 models and refuses 1.")
    assert made.lines == (("XLA, batch 1", "Some", "examples", "5", "4", "3", "2", "1"),)


def asked(*words: str, cwd: Path) -> list[str]:
    done = command("compatibility", *words, ON, "--dry-run", cwd=cwd, code=0)
    return [line.partition("xla_sweeps ")[2] for line in done.stdout.splitlines()]


def test_a_pattern_chooses_models_with_all_sources_a_source_or_layers(tmp_path: Path) -> None:
    (first, *_), vgg = asked("vgg19", "vgg19", cwd=tmp_path), asked("vgg16", cwd=tmp_path)
    shared = "effort=check batch_size=1 'modes=[graph,xla]'"
    assert first == f"model=vgg19 source=applications resolution=224 {shared}"
    assert len(vgg) == len({line.split()[1] for line in vgg if "model=vgg16 " in line}) + sum(
        "model=vgg16_backbone" in line for line in vgg
    )
    hub = asked("hub", "swin_tiny*", "source=hub", "--largest-px", "256", cwd=tmp_path)
    assert {"source=hub" in line.split() for line in hub} == {True}
    (mobile,) = asked("mobilenet_v2", "effort=quick", "batch_size=8", "jit=false", cwd=tmp_path)
    assert mobile.endswith("resolution=224 effort=quick batch_size=8 jit=false")
    layers = asked("layers:*LSTM", cwd=tmp_path)
    assert [line.split(":")[1].split()[0] for line in layers] == ["LSTM"]


def test_large_resolutions_are_reduced_where_the_model_takes_it(tmp_path: Path) -> None:
    (large,) = asked("efficientnetb7", "source=applications", cwd=tmp_path)
    assert "resolution=384" in large
    (fixed,) = asked("nasnet_large", cwd=tmp_path)
    assert "resolution=331" in fixed


def test_what_a_scenario_does_not_have_is_skipped_and_counted(measured: Path) -> None:
    def ask(*words: str) -> CompletedProcess[str]:
        return command("compatibility", "examples", *words, ON, cwd=measured)

    done = ask("precision=mixed_bfloat16", "source=examples", "--dry-run")
    assert "model=fusion_example" not in done.stdout
    assert done.stdout.count("precision=mixed_bfloat16") == len(MODELS) - 1
    done = ask("scenario=detect", "--dry-run")
    assert (done.returncode, done.stdout) == (2, "")
    assert "scenario=detect: fusion_example is not a detector" in done.stderr


def test_a_mistake_in_an_option_is_told_before_any_model_is_composed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compatibility, "_trials", lambda *_: pytest.fail("models were listed"))
    with pytest.raises(ConfigError, match="unknown option 'efort'"):
        compatibility.compatibility_command(["efort=quick"])


@pytest.mark.tf
@pytest.mark.exhaustive
def test_every_layer_takes_a_batch_of_the_shapes_that_are_listed() -> None:
    import keras

    from xla_sweeps.backends.keras import single_layers

    for name in load_layers():
        model = getattr(single_layers, name)()
        batch = [keras.ops.zeros((2, *one.shape[1:]), one.dtype) for one in model.inputs]
        outputs = keras.tree.flatten(model(batch if len(batch) > 1 else batch[0]))
        assert all(output.shape[0] == 2 for output in outputs), name


OWN = """
import keras, tensorflow as tf

class InPython(keras.layers.Layer):
    def call(self, values):
        doubled = tf.numpy_function(lambda array: 2 * array, [values], "float32")
        return tf.ensure_shape(doubled, values.shape)

    def compute_output_shape(self, shape):
        return shape

def build():
    inputs = keras.Input((8,))
    return keras.Model(inputs, InPython()(inputs))
"""


@pytest.mark.tf
@pytest.mark.slow
@pytest.mark.parametrize(
    "layers", [(), pytest.param(("layers:Dense",), marks=pytest.mark.exhaustive)]
)
def test_models_are_checked_once_and_one_that_cannot_be_compiled_is_named(
    layers: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(OWN)
    own = ("model=local", "path=net.py:build", "trust_code=true", ON)

    def check(*words: str) -> str:
        done = forked_command("compatibility", *words, cwd=tmp_path, code=0)
        return " ".join(done.stdout.split())

    if layers:
        said = check("tiny_dense", *layers, ON)
        assert "XLA compiles 2 of 2 model" in said
        assert "Outputs agree with eager's in 2." in said
    said = check(*own)
    assert "XLA compiles 0 of 1 model and refuses 1" in said
    records = sorted((tmp_path / "results" / "records").rglob("*.json*"))
    assert check(*own) == said
    assert sorted((tmp_path / "results" / "records").rglob("*.json*")) == records
