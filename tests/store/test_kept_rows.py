"""Figures computed from the kept records: those of before each change, to twelve digits.

NumPy has other code for other processors, so that the last digits may differ.

The files were written by `results DIR --all --format csv --with-published` at commit a7678f81, that
of an H200 at fcc8d653. What was removed since is left out: the column `process` of the first ones,
and the published rows of then. The columns of time to prepare, memory and power were added since,
with every other byte the same; later those of cold starts, when the bounds of intervals changed
(`STATISTICS_VERSION` 8), and with them one verdict, from ambiguous to faster. The columns
`compile_s` and `baseline_compile_s`, empty since time to prepare had a name, hold trace and first
call again; no other byte changed. The column `commit` was added, and no other cell changed.
What changes a figure on purpose writes them again, and says so.
"""

from __future__ import annotations

import csv
import io
import lzma
import re
import tarfile
from pathlib import Path

import pytest
from in_process import command
from paths import ROOT

ARCHIVES = ROOT / "benchmarks" / "results"
ROWS = ROOT / "tests" / "data" / "kept_rows"


@pytest.mark.parametrize("name", ["backends", "findings", "h100", "h100_first", "h200"])
def test_rows_of_the_kept_records_are_the_same(name: str, tmp_path: Path) -> None:
    with tarfile.open(ARCHIVES / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    words = ("results", name, "--all", "--format", "csv")
    done = command(*words, cwd=tmp_path, code=0)
    assert_same(done.stdout, kept(name))


def test_the_published_rows_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    done = command("results", "--all", "--with-published", "--format", "csv", cwd=tmp_path, code=0)
    assert_same(done.stdout, kept("published"))


def kept(name: str) -> str:
    """The text of a file of rows."""
    return lzma.decompress((ROWS / f"{name}.csv.xz").read_bytes()).decode()


def assert_same(text: str, wanted: str) -> None:
    """Compare two tables cell by cell."""
    rows, expected = (list(csv.reader(io.StringIO(table, newline=""))) for table in (text, wanted))
    assert [len(row) for row in rows] == [len(row) for row in expected]
    for row, others in zip(rows, expected, strict=True):
        for column, cell, other in zip(rows[0], row, others, strict=True):
            assert is_same(cell, other), (column, cell, other)


_FRACTIONS = re.compile(r"'?-?\d+\.\d+(e-?\d+)?( -?\d+\.\d+(e-?\d+)?)*")
"""Numbers with a fraction; a quote keeps a cell from being a formula."""


def is_same(cell: str, other: str) -> bool:
    if not (_FRACTIONS.fullmatch(cell) and _FRACTIONS.fullmatch(other)):
        return cell == other
    numbers, others = (list(map(float, one.removeprefix("'").split())) for one in (cell, other))
    return numbers == pytest.approx(others, rel=1e-12, abs=0)
