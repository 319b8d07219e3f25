"""Exported rows: a table is written as its rows are."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import resource
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from changed_rows import with_columns
from factories import make_record

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.errors import StoreError
from xla_sweeps.report.export import csv_text, write_json, write_parquet, write_text
from xla_sweeps.schema.row import COLUMNS, ComparisonRow, row_dict

NUMBERS = (None, 0.0, 1.0, -2.0, 0.1, 1 / 3, 1e-5, 3e-300, 1e15, 1e16, 1e20, 123456789.123, 1e-4)
WORDS = (
    *("", "plain", "a,b", 'say "x"', "two\nlines", "=1+1", "-x,y", "+", "@sum", "\t=1", "\r=1"),
    *("é ✕", "a;=1+1", "\n=1", "\uff1d1+1", "\uff20sum"),
)


@pytest.fixture
def rows() -> list[ComparisonRow]:
    (row,) = summarize([make_record()]).comparisons
    return [
        *(with_columns(row, speedup=number, p_value=number) for number in NUMBERS),
        *(with_columns(row, model=word, note=word, headline=False) for word in WORDS),
    ]


def test_cells_are_read_back_and_semicolons_are_quoted(rows: list[ComparisonRow]) -> None:
    """Where they separate cells, what is after one would be a formula."""
    text = csv_text([row_dict(row) for row in rows], tuple(COLUMNS))
    assert ',"a;=1+1",' in text
    read = [line["note"] for line in csv.DictReader(io.StringIO(text, newline=""))]
    formulas = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff20")
    wanted = [f"'{word}" if word[:1] in formulas else word for word in WORDS]
    assert read[len(NUMBERS) :] == wanted


@pytest.mark.parametrize(
    "write", [partial(write_text, "x" * 101), partial(write_parquet, pyarrow.table({"a": ["x"]}))]
)
def test_an_export_that_does_not_fit_leaves_the_old_file_as_it_was(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    output = tmp_path / "rows"
    output.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(StoreError, match=r"cannot write .*rows: File too large"):
            write(output)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert output.read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]


def test_json_is_ascii_and_has_no_number_that_is_not_finite(tmp_path: Path) -> None:
    document = {"low": -math.inf, "none": math.nan, "name": "\x9b1mé\udcff", "each": (1.5, 2)}
    write_json(document, tmp_path / "given.json")
    text = (tmp_path / "given.json").read_text("ascii")
    assert json.loads(text) == {
        "low": None,
        "none": None,
        "name": "\x9b1mé\udcff",
        "each": [1.5, 2],
    }


@pytest.mark.parametrize("output", [".", "nowhere/rows.csv/"])
def test_a_place_that_cannot_be_written_is_named(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nowhere").write_text("")
    with pytest.raises(StoreError, match=f"cannot write {output.rstrip('/')}"):
        write_text("x", Path(output))


def test_only_a_terminal_is_spared_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "model\n\x1b]0;owned\x07é\n"
    write_text(text, None)
    assert capsys.readouterr().out == text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    write_text(text, None)
    assert capsys.readouterr().out == "model\n]0;ownedé\n"


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text("a\n", pipe)
    assert os.read(reader, 9) == b"a\n"
    os.close(reader)
    assert pipe.is_fifo()
