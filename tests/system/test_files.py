"""Read the end of a file, and replace a file atomically."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_sweeps.system.files import replace_whole, tail


def test_the_tail_of_a_file_is_text_whatever_it_contains_and_empty_without_a_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    assert tail(path, limit=4) == ""
    path.write_bytes(b"one\ntwo\xff")
    assert tail(path, limit=4) == "two\ufffd"
    assert tail(path, limit=999) == "one\ntwo\ufffd"


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "made" / "file"
    replace_whole(path, b"old")
    replace_whole(path, b"new")
    assert path.read_bytes() == b"new"
    taken = tmp_path / "folder"
    (taken / "inner").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        replace_whole(taken, b"x")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["folder", "made"], (
        "no temporary file is left"
    )
    assert [item.name for item in path.parent.iterdir()] == ["file"]
