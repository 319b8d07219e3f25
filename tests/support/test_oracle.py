"""The oracle finds what is inconsistent in a record, and in kept rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from golden_record import GOLDEN, folder_with, put
from oracle import contradictions

from xla_sweeps.schema.record import Record, seal
from xla_sweeps.store import rows
from xla_sweeps.store.store import Store


def test_the_golden_record_is_without_fault(tmp_path: Path) -> None:
    folder_with(tmp_path, GOLDEN.read_bytes())
    assert contradictions(tmp_path) == []


@pytest.mark.parametrize(
    ("place", "value", "line"),
    [
        ("schema_version", 0, "schema_version 0"),
        ("replicate", 7, "replicate 7 differs from its name"),
        ("status", "crashed", "status crashed, and the failure None"),
        ("modes.xla.status", "compile_error", "xla: status compile_error, and the failure None"),
        ("modes.xla.effective.in_force", False, "it was not in force"),
        ("modes.xla.latencies_s", [1e-9] * 20, "alone and"),
        ("trial.modes", ["graph", "xla"], "are not those of the trial"),
        ("rounds.3.round", 2, "it is round 2"),
        ("rounds.3.started_ns", 1, "it started before the one before it"),
        ("rounds.3.blocks.0.elapsed_ns", 10**12, "take longer than the round"),
    ],
)
def test_each_kind_of_inconsistency_is_found(
    place: str, value: Any, line: str, tmp_path: Path
) -> None:
    document = json.loads(GOLDEN.read_bytes())
    put(place, value)(document)
    folder_with(tmp_path, seal(document))
    assert any(line in found for found in contradictions(tmp_path)), contradictions(tmp_path)


def test_kept_rows_that_are_not_those_of_the_records_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "RACY_NS", -1)
    Store(tmp_path).save(Record.from_json(GOLDEN.read_bytes()))
    rows.load(tmp_path)
    assert contradictions(tmp_path) == []
    path = tmp_path / "cache" / "rows.parquet"
    file = pyarrow.parquet.ParquetFile(path)
    table, beside = file.read(), file.metadata.metadata
    place = table.schema.names.index("params")
    table = table.set_column(place, "params", pyarrow.array([7] * table.num_rows, pyarrow.int64()))
    pyarrow.parquet.write_table(table.replace_schema_metadata(beside), path)
    assert any("not the rows" in line for line in contradictions(tmp_path))
