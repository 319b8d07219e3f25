"""Read files of other people, replace a file atomically, and have temporary folders removed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from xla_sweeps.errors import StoreError
from xla_sweeps.system.files import (
    READ_LIMIT_BYTES,
    SCRATCH_PREFIX,
    private_folder,
    read_regular,
    replace_whole,
    scratch_folder,
    tail,
)


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
    with pytest.raises(OSError, match="not a regular file"):
        replace_whole(taken, b"x")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "made"], (
        "no temporary file is left"
    )
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "large"])
def test_what_is_not_a_regular_file_of_bounded_size_is_refused_at_once(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as handle:
            handle.truncate(2 * READ_LIMIT_BYTES)
    with pytest.raises(OSError, match=r"\S") as caught:
        read_regular(path)
    assert caught.value.strerror


def test_a_regular_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert read_regular(tmp_path / "file") == b"content"


def test_there_is_no_private_folder_where_no_temporary_one_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    assert private_folder() is None


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x"
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        replace_whole(path, b"new")
    assert [*tmp_path.iterdir()] == [path]
    assert path.is_fifo()


HOLD = """
import os, signal
from xla_sweeps.system.files import scratch_folder
with scratch_folder() as folder:
    (folder / "weights").write_bytes(b"1")
    print(folder, flush=True)
    signal.pause()
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_killed_process_s_folder_is_removed_by_the_next_and_a_used_one_is_not(
    temporary: Path,
) -> None:
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        held = Path(process.stdout.readline().strip())
        try:
            with scratch_folder() as own:
                assert sorted(temporary.rglob(f"{SCRATCH_PREFIX}*")) == sorted([held, own])
        finally:
            process.kill()
    assert (held / "weights").exists()
    with scratch_folder() as own:
        assert [*temporary.rglob(f"{SCRATCH_PREFIX}*")] == [own]
        (own / "code").mkdir()
    assert not [*temporary.rglob("*xla-sweeps-tmp*")]


def test_a_link_in_place_of_a_folder_is_not_followed(temporary: Path) -> None:
    with scratch_folder() as own:
        place = own.parent
    victim = temporary / "victim"
    victim.mkdir()
    (place / f"{SCRATCH_PREFIX}link").symlink_to(victim)
    with scratch_folder():
        assert victim.exists()


def test_a_temporary_folder_that_cannot_be_used_is_named(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "absent"))
    with pytest.raises(StoreError, match="set TMPDIR to another"), scratch_folder():
        pass
