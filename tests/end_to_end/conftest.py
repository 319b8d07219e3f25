"""Fixtures of several of these tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from foreign_place import KEY, SLURM
from made_files import make_programs


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, with a stand-in for Slurm and a key in the environment."""
    tools = make_programs(tmp_path / "tools", "#!/bin/sh\nexit 1\n", *SLURM)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder
