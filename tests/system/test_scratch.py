"""Temporary folders: removed at the end, after a kill by the next process, and never while used."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from xla_sweeps.errors import StoreError
from xla_sweeps.system.scratch import PREFIX, scratch_folder

HOLD = """
import os, signal
from xla_sweeps.system.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "weights").write_bytes(b"1")
    print(folder, flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
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
                assert sorted(temporary.rglob(f"{PREFIX}*")) == sorted([held, own])
        finally:
            process.kill()
    assert (held / "weights").exists()
    with scratch_folder() as own:
        assert [*temporary.rglob(f"{PREFIX}*")] == [own]
        (own / "code").mkdir()
    assert not [*temporary.rglob("*xla-sweeps-tmp*")]


def test_a_link_in_place_of_a_folder_is_not_followed(temporary: Path) -> None:
    with scratch_folder() as own:
        place = own.parent
    victim = temporary / "victim"
    victim.mkdir()
    (place / f"{PREFIX}link").symlink_to(victim)
    with scratch_folder():
        assert victim.exists()


def test_a_temporary_folder_that_cannot_be_used_is_named(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "absent"))
    with pytest.raises(StoreError, match="set TMPDIR to another"), scratch_folder():
        pass
