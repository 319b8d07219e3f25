"""The command `import`: published figures become rows beside the measured ones."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet
import pytest
from factories import make_record
from in_process import command
from published_figures import SAMPLE, line, text

from xla_sweeps.store.store import Store


def test_the_studys_tables_can_be_imported_shown_and_exported_without_a_record(
    tmp_path: Path,
) -> None:
    done = command("import", str(SAMPLE), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "197 figures of 54 models: 116 rows, 45 of them with a speedup over eager; wrote "
        "results/imported/"
    )
    again = command("import", str(SAMPLE), "--name", "published", cwd=tmp_path)
    assert "replaced results/imported/published.csv" in again.stdout
    (left,) = (tmp_path / "results").rglob("*.*")
    assert left == tmp_path / "results" / "imported" / "published.csv"
    table = command("results", cwd=tmp_path)
    assert (table.returncode, table.stderr) == (0, "")
    assert table.stdout.count("○ imported") == 117
    shown = json.loads(command("results", "--format", "json", cwd=tmp_path).stdout)
    assert {row["origin"] for row in shown} == {"imported"}
    regnets = [row for row in shown if row["family"] == "RegNetX"]
    assert {row["model"] for row in regnets} == {"regnetx_002"}
    assert all("called regnetx_016" in row["note"] for row in regnets)
    command("results", "--format", "parquet", "-o", "rows.parquet", cwd=tmp_path)
    assert pyarrow.parquet.read_table(tmp_path / "rows.parquet").to_pylist() == shown


def test_imported_and_measured_rows_are_shown_together(tmp_path: Path) -> None:
    Store(tmp_path / "results").save(make_record())
    command("import", str(SAMPLE), cwd=tmp_path)
    out = command("results", cwd=tmp_path).stdout
    assert "▲ faster" in out
    assert out.count("○ imported") == 117


FIGURE = text(line("vgg16")).encode()


@pytest.mark.parametrize(
    ("content", "words", "complaint"),
    [
        (None, "", "f.csv: No such file or directory"),
        (b"\xff\xfe\x00m", "", "f.csv, line 1: not UTF-8; save it as UTF-8"),
        (b"", "", "f.csv: expected a header, and a line for each figure below it"),
        (text(line("vgg16", rate=-1)).encode(), "", "f.csv, line 2, column 'throughput (samples"),
        (FIGURE, "--name ../up", "--name ../up: up to 64 letters"),
        (b"x" * (16 * 2**20 + 1), "", "f.csv: larger than 16 MiB"),
        (b'"' + b"x" * 200_000, "", "f.csv, line 1: not CSV: field larger than field limit"),
        (FIGURE, "--into /proc/nope", "cannot write /proc/nope/imported/f.csv: No such"),
    ],
)
def test_an_import_that_fails_is_reported_in_one_line_and_writes_nothing(
    content: bytes | None, words: str, complaint: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "f.csv").write_bytes(content)
    done = command("import", "f.csv", *words.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"xla-sweeps: {complaint}")
    assert not (tmp_path / "results").exists()
