"""Imported figures on disk: replaced as a whole, and read although some are damaged."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from published_figures import SAMPLE, line, text

from xla_sweeps.errors import StoreError
from xla_sweeps.results import imported, rows


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes(b"\xef\xbb\xbf" + text(line("vgg16")).encode())
    assert imported.add(tmp_path / "f.csv", tmp_path / "r").figures == 1


def test_a_reader_of_an_import_that_is_being_replaced_sees_all_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = imported.add(SAMPLE, tmp_path).path
    old = path.read_text(encoding="utf-8")
    (tmp_path / "published_sample.csv").write_text(text(line("vgg16")))
    with path.open(encoding="utf-8") as handle:
        assert imported.add(tmp_path / "published_sample.csv", tmp_path).replaced
        assert handle.read() == old
    new = path.read_text(encoding="utf-8")

    def full(source: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreError, match="No space left on device"):
        imported.add(SAMPLE, tmp_path)
    assert path.read_text(encoding="utf-8") == new
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"schema_version": 99}',
        b'{"schema_version": 0}',
        b'{"schema_version": 1, "figures": 3}',
        b"\xff",
        b"[" * 100_000,
        b'{"schema_version": 1, "figures": ' + b"[" * 100_000,
    ],
)
def test_a_damaged_import_is_reported_and_the_others_are_shown(
    content: bytes, tmp_path: Path
) -> None:
    imported.add(SAMPLE, tmp_path)
    (tmp_path / "imported" / "bad.json").write_bytes(content)
    figures, problems = imported.load(tmp_path)
    assert len(figures) == 36
    assert len(problems) == 1
    assert "bad.json" in problems[0]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("resolution_px", 2**70),
        ("resolution_px", -1),
        ("gmacs", 1e300),
        ("params_million", -5.0),
        ("throughput_samples_per_s", 0.0),
    ],
)
def test_an_import_with_an_impossible_figure_is_reported(
    member: str, value: float, tmp_path: Path
) -> None:
    path = imported.add(SAMPLE, tmp_path).path
    document = json.loads(path.read_bytes())
    document["figures"][0][member] = value
    path.write_text(json.dumps(document))
    assert rows.load(tmp_path).table.num_rows == 0
    assert member in imported.load(tmp_path)[1][0]


def test_a_pipe_among_the_imports_is_not_waited_for(tmp_path: Path) -> None:
    imported.add(SAMPLE, tmp_path)
    os.mkfifo(tmp_path / "imported" / "pipe.json")
    figures, problems = imported.load(tmp_path)
    assert len(figures) == 36
    assert "pipe.json: not a regular file" in problems[0]
