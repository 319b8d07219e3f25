"""`scripts/gpu_check` asks for trials that exist, and ends with a page and records."""

from __future__ import annotations

import os
import shlex
import subprocess
import tarfile
from pathlib import Path

import pytest
from paths import ROOT

from xla_sweeps.config.compose import compose_config

CHECK = ROOT / "scripts" / "gpu_check"

STUB = """#!/bin/sh
case "$1" in
-c) case "$2" in "import torch") exit 1 ;; esac ;;
-P) shift 3; mkdir -p results/records; echo "$@" >> results/records/asked; exit 0 ;;
esac
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter that has JAX, lacks PyTorch and notes what it is asked to measure."""
    stub = tmp_path / "python"
    stub.write_text(STUB)
    stub.chmod(0o755)
    return stub


def checked(python: Path, out: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CHECK, out, "cpu"],
        env={**os.environ, "PYTHON": str(python), **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_each_trial_that_it_asks_for_can_be_composed(python: Path, tmp_path: Path) -> None:
    done = checked(python, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "out" / "results" / "records" / "asked").read_text().splitlines()
    trials = [shlex.split(line) for line in asked if "model=" in line]
    assert len(trials) == 11
    for words in trials:
        assert compose_config(words)["backend"] == "jax"
    page = (tmp_path / "out" / "page.txt").read_text()
    assert "no torch here" in page
    assert page.count("exit code 0") == len(trials)
    with tarfile.open(tmp_path / "out" / "records.tar.xz") as packed:
        assert "results/records/asked" in packed.getnames()


def test_it_ends_where_the_time_is_over(python: Path, tmp_path: Path) -> None:
    done = checked(python, tmp_path / "out", SECONDS_IN_ALL="0")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "page.txt").read_text()
    assert page.count("not run, the time is over") == 11
