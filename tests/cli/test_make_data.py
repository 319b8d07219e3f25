"""The command `make-data`, in its own process and with the real one that draws."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import command

from xla_sweeps.system import pictures


@pytest.mark.tf
def test_it_makes_what_a_training_finds_and_overwrites_nothing(tmp_path: Path) -> None:
    arguments = ("make-data", "pics", "--images", "5", "--classes", "2", "--width-px", "40")
    done = command(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "5 pictures of 2 classes: data=pics\n")
    assert pictures.find(str(tmp_path / "pics")).count == 5
    again = command(*arguments, cwd=tmp_path, code=2)
    assert again.stderr == "xla-sweeps: make-data: pics is not empty; name a new folder\n"
