"""The second implementation finds what is inconsistent in a record, and in kept rows."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from factories import make_record
from golden_record import GOLDEN, folder_with, put
from oracle import contradictions
from record_oracle import SCHEMAS, STATUSES, proof

from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import SCHEMA_VERSION, Record, sealed
from xla_sweeps.store import rows
from xla_sweeps.store.store import Store


def xla_times_by(factor: float) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for round_ in document["rounds"]:
            for block in round_["blocks"]:
                if block["mode"] == "xla":
                    for name in ("elapsed_ns", "enqueue_ns"):
                        block[name] = int(block[name] * factor)
        mode = document["modes"]["xla"]
        mode["latencies_s"] = [factor * value for value in mode["latencies_s"]]

    return change


def finish_after(seconds: float) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        begun = datetime.datetime.fromisoformat(document["started_at"])
        document["finished_at"] = (begun + datetime.timedelta(seconds=seconds)).isoformat()

    return change


CHANGES: Mapping[str, tuple[str, Callable[[Any], None]]] = {
    "XLA ten times as fast": ("xla: its blocks last", xla_times_by(0.1)),
    "XLA ten times as slow": ("take longer than the round", xla_times_by(10)),
    "blocks alone": ("alone and", put("modes.xla.latencies_s", [1e-4] * 20)),
    "batch size": ("batch_size -4", put("trial.batch_size", -4)),
    "no batch": ("batch_size 0", put("trial.batch_size", 0)),
    "a negative latency": ("a latency that is not above 0", put("modes.xla.latencies_s.0", -0.1)),
    "a latency of nothing": ("a latency that is not above 0", put("modes.xla.latencies_s.0", 0)),
    "compilation": ("compile_s -5 is below 0", put("modes.xla.compile_s", -5)),
    "more compilation than call": ("more than first_call_s", put("modes.xla.compile_s", 500.0)),
    "a round": ("finished before it started", put("rounds.3.finished_ns", 1)),
    "order": ("a round started before the one before it", put("rounds.3.started_ns", 1)),
    "round numbers": ("duplicate round", put("rounds.3.round", 2)),
    "calls": ("not as before", put("rounds.3.blocks.0.calls", 7)),
    "unknown block": ("a block of an unknown mode", put("rounds.3.blocks.0.mode", "y")),
    "impossible block": ("impossible block", put("rounds.3.blocks.0.elapsed_ns", -1)),
    "order of blocks": ("not those of its order", put("rounds.3.order", ["xla"])),
    "no configuration": ("config lacks model", put("trial", {})),
    "trial": ("wrong type: trial", put("trial", 5)),
    "schema": ("schema 99 is unknown", put("schema_version", 99)),
    "schema 0": ("schema 0 is unknown", put("schema_version", 0)),
    "trial id": ("trial_id", put("trial_id", "t9")),
    "replicate": ("replicate 7", put("replicate", 7)),
    "status": ("unknown status fine", put("status", "fine")),
    "a status without a reason": ("and no failure", put("status", "crashed")),
    "a mode's status": ("unknown status fine", put("modes.xla.status", "fine")),
    "a mode that failed": ("and no failure", put("modes.xla.status", "compile_error")),
    "agreement": ("its outputs disagree", put("modes.xla.agreement.ok", False)),
    "another mode": ("jit_compile is True", put("modes.graph.effective.jit_compile", True)),
    "eager": ("executing_eagerly is", put("modes.eager.effective.executing_eagerly", False)),
    "in force": ("it was not in force", put("modes.xla.effective.in_force", False)),
    "64 bits": ("does not fit 64 bits", put("device.memory_bytes", 2**70)),
    "model": ("is not that of config", put("model.name", "resnet50")),
    "parameters": ("more than model.params", put("model.params", 3)),
    "finish": ("finished before it started", finish_after(-86_400)),
    "time": ("times cannot be checked", put("started_at", "yesterday")),
    "modes": ("are not those of config", put("trial.modes", ["graph", "xla"])),
    "packages": ("environment.packages", put("environment.packages", 5)),
    "words": ("words is not a list", put("words", [5])),
    "words that a terminal acts on": ("words hold a control", put("words", ["seed=1\x1b[201~"])),
    "a clock": ("gpu_sm_mhz is not a number", put("contamination.gpu_sm_mhz", ["a", 1])),
    "a clock without a value": ("gpu_sm_mhz is not", put("contamination.gpu_sm_mhz", [None, 1])),
    "foreign cores": ("foreign_cores -1 is below 0", put("contamination.foreign_cores", -1)),
    "waiting": ("waited_s is not a number", put("contamination.waited_s", "long")),
    "busiest": ("busiest is not a list of texts", put("contamination.busiest", [5])),
    "types": ("from 0", put("model.macs_by_type", {"f32": -1})),
    "times to enqueue": ("differ in length", put("modes.xla.latency_enqueue_ns", [1])),
    "warm-up": ("differ in length", put("modes.xla.warmup_block_calls", [1])),
    "times of the warm-up": ("differ in length", put("modes.xla.warmup_block_ns", [1])),
    "a cause that is no text": ("dirty is not a text", put("rounds.3.dirty", 1e-300)),
    "a load that is no number": (
        "load is not numbers",
        put("rounds.3.load", {"foreign_cores": "x"}),
    ),
    "stages": ("less than nothing", put("seconds.build", -1)),
}


@pytest.mark.parametrize(
    ("label", "name", "allowed"),
    [
        ("predict_xla_2", "jit_compile", {True}),
        ("predict_graph_steps", "jit_compile", {False}),
        ("predict", "jit_compile", {True, False}),
        ("predict_on_batch", "jit_compile", {True, False}),
        ("train_on_batch_auto", "jit_compile", {True, False}),
        ("graph_host", "jit_compile", {False}),
        ("call_host", "executing_eagerly", {True}),
        ("fit_eager", "executing_eagerly", {True}),
        ("fit_xla", "executing_eagerly", {False}),
    ],
)
def test_a_mode_is_what_its_name_says_unless_keras_chooses(
    label: str, name: str, allowed: set[bool]
) -> None:
    accepted = {value for value in (True, False) if not [*proof(label, {name: value})]}
    assert accepted == allowed


def test_the_golden_record_is_without_fault(tmp_path: Path) -> None:
    folder_with(tmp_path, GOLDEN.read_bytes())
    assert contradictions(tmp_path) == []


@pytest.mark.parametrize("name", CHANGES)
def test_each_kind_of_inconsistency_is_found(name: str, tmp_path: Path) -> None:
    word, change = CHANGES[name]
    document = json.loads(GOLDEN.read_bytes())
    change(document)
    path = folder_with(tmp_path, sealed(document))
    lines = contradictions(tmp_path)
    assert any(line.startswith(f"{path}: ") and word in line for line in lines), lines


@pytest.mark.parametrize("column", [None, "speedup", "baseline_call_ms", "params", "status"])
def test_kept_rows_that_are_not_those_of_the_records_are_found(
    column: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "RACY_NS", -1)
    store = Store(tmp_path)
    for seed in range(3):
        status = Status.CONTAMINATED if seed == 1 else Status.OK
        store.save(make_record(noise=0.1, seed=seed, status=status))
    store.save(Record.from_json(GOLDEN.read_bytes()))
    rows.load(tmp_path)
    if column is not None:
        path = tmp_path / "cache" / "rows.parquet"
        file = pyarrow.parquet.ParquetFile(path)
        table, beside = file.read(), file.metadata.metadata
        place = table.schema.names.index(column)
        values = [{"status": "timeout"}.get(column, 7)] * table.num_rows
        table = table.set_column(place, column, pyarrow.array(values, table[column].type))
        pyarrow.parquet.write_table(table.replace_schema_metadata(beside), path)
    assert any("not the rows" in line for line in contradictions(tmp_path)) is (column is not None)


def test_it_knows_the_schemas_and_statuses_of_today() -> None:
    assert tuple(range(1, SCHEMA_VERSION + 1)) == SCHEMAS
    assert {str(status) for status in Status} == STATUSES
