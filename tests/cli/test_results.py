"""Exported rows: stable columns and types, filters, and a document that names every column."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from commands import in_terminal
from factories import failed_outcome, make_record
from in_process import command

from xla_sweeps.cli.main import run
from xla_sweeps.schema.columns import STATISTICS_VERSION
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import COLUMNS
from xla_sweeps.store.store import Store


@pytest.fixture
def results(tmp_path: Path) -> Path:
    store = Store(tmp_path / "results")
    store.save(make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}))
    store.save(make_record({"graph": 0.1, "xla": 0.2}, trial_id="f" * 16))
    return tmp_path


def test_results_are_a_table_of_headline_rows_by_default(results: Path) -> None:
    done = command("results", cwd=results, code=0)
    assert done.stderr == ""
    assert "▲ faster" in done.stdout
    assert "▼ slower" in done.stdout
    assert re.search(r" xla +graph ", done.stdout)
    assert not re.search(r" graph +eager ", done.stdout)
    assert re.search(r" graph +eager ", command("results", "--all", cwd=results).stdout)


def test_a_long_table_is_cut_and_says_where_the_rest_is(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("xla_sweeps.cli.results.ROWS_SHOWN", 1)
    assert run(["results", str(results / "results")]) == 0
    shown = capsys.readouterr().out
    assert "1 more rows: --format csv, or --where EXPR\n" in shown
    assert ("faster" in shown) != ("slower" in shown)
    assert run(["results", str(results / "results"), "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_row_without_figures_says_why_below_the_table(results: Path) -> None:
    failed = failed_outcome(Status.SKIPPED, "not reached: no 'nope'")
    for number in (1, 2):
        modes = {"graph": failed, "xla": failed}
        Store(results / "results").save(make_record(trial_id=f"{number}" * 16, modes=modes))
    lines = command("results", cwd=results).stdout.splitlines()
    assert [line for line in lines if line.startswith("‖")] == ["‖ resnet50: no 'nope'"]


def test_results_export_the_same_rows_as_json_csv_and_parquet(results: Path) -> None:
    rows = json.loads(command("results", "--format", "json", "--all", cwd=results).stdout)
    assert len(rows) == 4
    assert {row["verdict"] for row in rows} == {"faster", "slower"}
    text = command("results", "--format", "csv", "--all", cwd=results).stdout
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [line["trial_id"] for line in lines] == [row["trial_id"] for row in rows]
    assert [float(line["speedup"]) for line in lines] == pytest.approx(
        [row["speedup"] for row in rows]
    )
    words = ("--format", "parquet", "--all", "-o", "rows.parquet")
    assert command("results", *words, cwd=results).returncode == 0
    assert pyarrow.parquet.read_table(results / "rows.parquet").to_pylist() == rows
    refused = command("results", "--format", "parquet", cwd=results)
    assert (refused.returncode, refused.stdout) == (2, "")


def test_a_price_per_hour_adds_the_price_of_a_million_samples(results: Path) -> None:
    priced = ("results", "--price-per-hour", "3.6")
    rows = json.loads(command(*priced, "--format", "json", cwd=results).stdout)
    for row in rows:
        assert row["cost_per_million"] == pytest.approx(1000 / row["throughput_samples_per_s"])
        assert row["cost_per_million_high"] == pytest.approx(1000 / row["throughput_low"])
    (header, *_) = command(*priced, "--format", "csv", cwd=results).stdout.splitlines()
    assert header.endswith(",cost_per_million,cost_per_million_low,cost_per_million_high")
    file = ("--format", "parquet", "-o", "rows.parquet")
    assert command(*priced, *file, cwd=results).returncode == 0
    assert pyarrow.parquet.read_table(results / "rows.parquet").to_pylist() == rows
    assert "million" in command(*priced, cwd=results).stdout
    assert "million" not in command("results", cwd=results).stdout
    most_expensive = max(row["cost_per_million"] for row in rows)
    cheaper = (*priced, "--format", "json", "--where", f"cost_per_million<{most_expensive}")
    kept = json.loads(command(*cheaper, cwd=results).stdout)
    assert kept == [row for row in rows if row["cost_per_million"] < most_expensive]
    refused = command("results", "--where", "cost_per_million<1", cwd=results)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "cost_per_million needs a price" in refused.stderr


def test_a_damaged_record_is_reported_and_the_others_are_shown(results: Path) -> None:
    path = results / "results" / "records" / ("f" * 16) / "0.json"
    path.write_bytes(path.read_bytes()[:100])
    done = command("results", cwd=results)
    assert done.returncode == 0
    assert "warning: " in done.stderr
    assert "quarantine" in done.stderr
    assert "▲ faster" in done.stdout


@pytest.mark.parametrize("where", [None, "model=nosuch", "speedup>1"])
def test_parquet_has_the_same_types_for_all_rows_some_and_none(
    where: str | None, results: Path
) -> None:
    chosen = () if where is None else ("--where", where)
    command("results", *chosen, "--format", "parquet", "-o", "rows.parquet", cwd=results, code=0)
    table = pyarrow.parquet.read_table(results / "rows.parquet")
    assert table.num_rows == {None: 2, "model=nosuch": 0, "speedup>1": 1}[where]
    types = {str: pyarrow.string(), bool: pyarrow.bool_()}
    types |= {int: pyarrow.int64(), float: pyarrow.float64()}
    assert {field.name: field.type for field in table.schema} == {
        name: types[column.kind] for name, column in COLUMNS.items()
    }
    assert table.schema.names == list(COLUMNS)


def test_a_filter_selects_the_same_rows_in_every_format(results: Path) -> None:
    chosen = ("results", "--all", "--where", "speedup>1 and model ~ res* and resolution=224")
    rows = json.loads(command(*chosen, "--format", "json", cwd=results).stdout)
    pairs = [f"{row['candidate']} {row['baseline']}" for row in rows]
    assert pairs == ["graph eager", "xla eager", "xla graph"]
    assert {row["statistics_version"] for row in rows} == {STATISTICS_VERSION}
    text = command(*chosen, "--format", "csv", cwd=results).stdout
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [line["baseline"] for line in lines] == ["eager", "eager", "graph"]
    table = command(*chosen, cwd=results).stdout
    assert table.count("▲ faster") == 3
    assert "▼" not in table


def test_numbers_are_whole_in_a_terminal_of_80_columns_and_in_a_pipe(results: Path) -> None:
    rows = json.loads(command("results", "--all", "--format", "json", cwd=results).stdout)
    shown = in_terminal("results", "--all", cwd=results, columns=80)
    assert max(map(len, shown)) <= 80
    piped = command("results", "--all", cwd=results, COLUMNS="").stdout
    for text in ("\n".join(shown), piped):
        assert "…" not in text
        for row in rows:
            if row["speedup"]:
                assert f"{row['speedup']:.2f}×" in text
                assert f"{row['speedup_low']:.2f}–{row['speedup_high']:.2f}" in text
    assert any("candidate  baseline" in line for line in piped.splitlines())


def test_the_studys_questions_are_answered_with_its_figures_beside_ones_own(results: Path) -> None:
    own = command("results", "--show", "fastest", cwd=results)
    assert (own.returncode, own.stderr) == (0, "")
    assert "published" not in own.stdout
    both = command("results", "--show", "fastest", "--with-published", cwd=results)
    assert (both.returncode, both.stderr) == (0, "")
    assert "The fastest model with XLA in 14 settings" in " ".join(both.stdout.split())
    for words in ("A100, published", "T4, published", "Some", "mobilenet_v1"):
        assert words in both.stdout, words
    nothing = command("results", "--show", "inversions", cwd=results)
    assert (nothing.stdout, nothing.stderr) == (
        "",
        "nothing to show: it takes two models of one line on one device\n",
    )
    inverted = command("results", "--show", "inversions", "--with-published", cwd=results)
    assert "× ○" in inverted.stdout


def test_the_studys_rows_stand_beside_measured_ones_in_every_form(results: Path) -> None:
    (results / "results" / "imported").mkdir()
    (results / "results" / "imported" / "mine.csv").write_text("ignored, of an earlier build")
    table = command("results", "--with-published", cwd=results, code=0)
    assert (table.stderr, table.stdout.count("○ imported")) == ("", 117)
    assert "▲ faster" in table.stdout
    words = ("results", "--with-published", "--format")
    shown = json.loads(command(*words, "json", cwd=results, code=0).stdout)
    assert [row["origin"] for row in shown].count("imported") == 116
    command(*words, "parquet", "-o", "rows.parquet", cwd=results, code=0)
    assert pyarrow.parquet.read_table(results / "rows.parquet").to_pylist() == shown
    measured = command("results", "--format", "json", cwd=results, code=0)
    assert (measured.stderr, len(json.loads(measured.stdout))) == ("", 2)


def test_a_filter_that_matches_no_row_says_so_and_gives_none(results: Path) -> None:
    chosen = ("results", "--where", "family=ConvNeXt")
    empty = {"table": "", "json": "[]\n", "csv": ",".join(COLUMNS) + "\n"}
    for form, content in empty.items():
        done = command(*chosen, "--format", form, cwd=results)
        assert (done.returncode, done.stdout) == (0, content)
        assert done.stderr == "0 of 2 rows match --where 'family=ConvNeXt'\n"
    done = command("results", "--where", "batch_size=4 and model=local", cwd=results)
    assert done.stderr.endswith("; rows of your own models have source=local\n")
