"""A sweep's progress in a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xla_sweeps.report.terminal.sweep_progress import Board


def test_a_name_in_the_progress_cannot_control_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with Board("evil\x1b]0;x\x07", ["cpu"], ui="plain") as board:
        board.running("cpu", "model=\x1b[31m\u202eevil", tmp_path / "log")
        board.ended("cpu", "m", "ok", "\x1b[2J")
    assert not re.search("[\x1b\x07\u202e]", capsys.readouterr().err)
