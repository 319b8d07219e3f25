"""The command `predict-cost`: which trials it asks for, and the answer from their records."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from composed import record_of

from xla_sweeps.cli.answers import predict_cost_command
from xla_sweeps.errors import StoreError
from xla_sweeps.schema.measurement import Status
from xla_sweeps.store import derive
from xla_sweeps.store.store import Store

pytestmark = pytest.mark.usefixtures("composed_once")

WORDS = ["model=mobilenet_v2", "device=cpu", "modes=[call_host,graph_host,predict]"]

FIXED_S = {"call_host": 0.010, "graph_host": 0.001, "predict": 0.041}

SAMPLE_S = {"call_host": 0.003, "graph_host": 0.001, "predict": 0.001}


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A folder with the records of all but the largest size."""
    for size, batches in ((1, 1), (8, 1), (32, 1), (8, 4)):
        words = [*WORDS, "scenario=predict", f"batch_size={size}", f"batches={batches}"]
        call_s = {
            mode: FIXED_S[mode] * (1 if mode == "predict" else batches)
            + SAMPLE_S[mode] * size * batches
            for mode in FIXED_S
        }
        record = record_of(*words, call_s=call_s, noise=0.001, seed=size + batches)
        Store(tmp_path).save(record)
    return tmp_path


def ask(folder: Path, *more: str) -> int:
    return predict_cost_command([*WORDS, f"results_dir={folder}", *more])


def test_only_what_is_missing_is_measured(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(measured, "--batches", "4", "--batch-sizes", "1,8,32,128", "--dry-run") == 0
    (missing,) = capsys.readouterr().out.splitlines()
    command = "python -m xla_sweeps scenario=predict batch_size=128 batches=1 model=mobilenet_v2 "
    assert missing.startswith(command)


def test_a_higher_effort_brings_no_twin(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(measured, "--batches", "1", "--dry-run", "effort=standard") == 0
    commands = capsys.readouterr().out.splitlines()
    sizes = [word for line in commands for word in line.split() if word.startswith("batch_size")]
    assert sizes == ["batch_size=1", "batch_size=8", "batch_size=32"]


def test_the_answer_says_what_a_call_costs_and_when_to_call_the_model_instead(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(measured, "--batches", "4", "--batch-sizes", "1,8,32") == 0
    said = capsys.readouterr()
    assert "4 trials: 4 ok" in said.err
    assert "×  " not in said.err, "speedups of its trials answer another question"
    text = " ".join(said.out.split())
    assert re.search(
        r"Call tf\.function\(jit_compile=False\) instead of model\.predict without compile: "
        r"2\.00 \(.*?\) ms a call instead of 42\.0 \(.*?\) at batch 1, 33\.0 \(.*?\) ms a call "
        r"instead of 73\.0 \(.*?\) at batch 32\. "
        r"write tf\.function\(model, jit_compile=False\), instead of model\.",
        text.partition(" batches mode ")[0],
    )
    graph = "graph_host (tf.function(jit_compile=False))"
    assert re.search(
        r"1 × 1 call_host 13\.0 \(.*?\) 11\.0 \(.*?\) 1 × 1 graph_host 2\.00 \(.*?\) — "
        r"1 × 1 predict 42\.0",
        text,
    )
    assert "4 × 8 call_host 136" in text
    assert re.search(
        rf"predict takes longer than {re.escape(graph)}: 40\.0 \(.*?\) ms at batch 1, ", text
    )
    assert "call_host (model(x)) costs less than predict at batch 1, 8." in text
    assert "call_host (model(x)) costs more than predict at batch 32." in text
    assert f"{graph} costs less than predict at every measured batch size." in text


def test_the_same_as_json(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--batches", "4", "--batch-sizes", "1,8,32", "--format", "json")
    assert ask(measured, *asked) == 0
    document = json.loads(capsys.readouterr().out)
    first, *_, several = document["modes"]["predict"]
    assert first["overhead"]["estimate"] == pytest.approx(0.04, rel=0.02)
    assert first["reference"] == "graph_host"
    assert (several["batch_size"], several["batches"]) == (8, 4)


def test_no_measured_size_is_said(measured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xla_sweeps.cli.answers.measure_aside", lambda request, plan: 3)
    with pytest.raises(StoreError, match="no mode was measured; see why: ") as refused:
        ask(measured, "--batches", "1", "--batch-sizes", "63,64,65")
    assert str(refused.value).endswith(f"xla-sweeps results {measured}")


def test_a_size_without_a_record_makes_the_exit_code_1(
    measured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("xla_sweeps.cli.answers.measure_aside", lambda request, plan: 0)
    assert ask(measured, "--batches", "4", "--batch-sizes", "1,8,32,64") == 1
    assert "predict takes longer than graph_host" in " ".join(capsys.readouterr().out.split())


def test_contaminated_sizes_are_kept_and_said(
    measured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(derive, "is_clear", lambda records: False)
    busy = measured / "busy"
    for (record,) in Store(measured).load().records.values():
        Store(busy).save(replace(record, status=Status.CONTAMINATED))
    asked = ("--batches", "4", "--batch-sizes", "1,8,32")
    assert ask(busy, *asked, "--dry-run") == 0
    assert capsys.readouterr().out == ""
    assert ask(busy, *asked) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "predict takes longer than graph_host" in said
    assert said.endswith("~ 4 of 4 contaminated by other load: only their clear differences count.")


def test_an_interrupted_sweep_gives_no_answer(
    measured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("xla_sweeps.cli.answers.measure_aside", lambda request, plan: 130)
    assert ask(measured) == 130
    assert capsys.readouterr().out == ""
