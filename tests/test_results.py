"""Exported rows: stable columns and types, filters, and a document that names every column."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import fields
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from factories import make_record
from test_cli import command

from xla_sweeps.comparison import STATISTICS_VERSION, ComparisonRow
from xla_sweeps.store import Store

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    store = Store(tmp_path / "results")
    store.save(make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}))
    store.save(make_record({"graph": 0.1, "xla": 0.2}, trial_id="f" * 16))
    return tmp_path


def test_every_column_is_documented_once_in_order_and_nothing_else() -> None:
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    table = text.partition("| column | unit | meaning |")[2].partition("\n\n")[0]
    named = [name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.partition(" | ")[0])]
    assert sorted(named) == sorted(field.name for field in fields(ComparisonRow))
    assert len(set(named)) == len(named)


def test_columns_have_one_plain_type_each() -> None:
    kinds = ComparisonRow.columns()
    assert list(kinds) == [field.name for field in fields(ComparisonRow)]
    assert {name: kinds[name] for name in ("model", "headline", "replicates", "speedup", "verdict", "flags", "params")} == {
        "model": str, "headline": bool, "replicates": int, "speedup": float, "verdict": str, "flags": str, "params": int,
    }  # fmt: skip


@pytest.mark.parametrize("where", [None, "model=nosuch", "speedup>1"])
def test_parquet_has_the_same_types_for_all_rows_some_and_none(where: str | None, results: Path) -> None:
    chosen = () if where is None else ("--where", where)
    done = command("results", *chosen, "--format", "parquet", "-o", "rows.parquet", cwd=results)
    assert done.returncode == 0
    table = pyarrow.parquet.read_table(results / "rows.parquet")
    assert table.num_rows == {None: 2, "model=nosuch": 0, "speedup>1": 1}[where]
    types = {str: pyarrow.string(), bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64()}
    assert {field.name: field.type for field in table.schema} == {
        name: types[kind] for name, kind in ComparisonRow.columns().items()
    }
    assert table.schema.names == list(ComparisonRow.columns())


def test_a_filter_chooses_rows_alike_in_every_format(results: Path) -> None:
    chosen = ("results", "--all", "--where", "speedup>1 and model ~ res* and resolution=224")
    rows = json.loads(command(*chosen, "--format", "json", cwd=results).stdout)
    assert [(row["candidate"], row["baseline"]) for row in rows] == [
        ("graph", "eager"),
        ("xla", "eager"),
        ("xla", "graph"),
    ]
    assert {row["statistics_version"] for row in rows} == {STATISTICS_VERSION}
    lines = list(csv.DictReader(io.StringIO(command(*chosen, "--format", "csv", cwd=results).stdout)))
    assert [line["baseline"] for line in lines] == ["eager", "eager", "graph"]
    table = command(*chosen, cwd=results).stdout
    assert table.count("▲ faster") == 3
    assert "▼" not in table


def test_a_filter_that_means_no_row_says_so_and_gives_none(results: Path) -> None:
    chosen = ("results", "--where", "family=ConvNeXt")
    for form, content in (("table", ""), ("json", "[]\n"), ("csv", ",".join(ComparisonRow.columns()) + "\n")):
        done = command(*chosen, "--format", form, cwd=results)
        assert (done.returncode, done.stdout) == (0, content)
        assert done.stderr == "none of the 2 rows is meant by: family=ConvNeXt\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--where", "famly=x"), "xla-sweeps: where, character 1: unknown column 'famly'; did you mean 'family'?"),
        (("--format", "csv", "-o", "no/such.csv"), "xla-sweeps: cannot write no/such.csv: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], complaint: str, results: Path) -> None:
    done = command("results", *arguments, cwd=results)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", complaint + "\n")
