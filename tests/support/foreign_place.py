"""A folder of somebody else's files, and what a command may neither do nor tell there."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_sweeps.cli.main import run

KEY = "canary5ec7e7" * 4

SLURM = ("sbatch", "squeue", "scancel")

TRIAL = ["model=mobilenet_v2", "resolution=32", "tracker=none"]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def refused(place: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line with which the command line refuses; nothing is run, written or told."""
    before = contents(place)
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert contents(place) == before
    assert KEY not in shown.out + shown.err
    errors = [line for line in shown.err.splitlines() if not line.startswith("warning: ")]
    assert len(errors) == 1, shown.err
    assert "Traceback" not in shown.err
    return errors[0]
