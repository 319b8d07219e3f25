"""Environments of the checkout without TensorFlow, each with another backend."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT
from programs import run_program

from xla_sweeps.system.leases import LEASES

OWN = """
import keras

def build():
    inputs = keras.Input((16, 16, 3))
    values = keras.layers.Conv2D(8, 3, activation="relu")(inputs)
    values = keras.layers.BatchNormalization()(values)
    values = keras.layers.GlobalAveragePooling2D()(values)
    return keras.Model(inputs, keras.layers.Dense(5)(values))
"""

MACS = 14 * 14 * 27 * 8 + 8 * 5
"""Multiply-accumulates of a sample of this model."""


ON_TORCH = [
    pytest.mark.slow,
    pytest.mark.exhaustive,
    pytest.mark.timeout(900),  # the environment is made first
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="torch's wheel is for Python 3.11"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++"),
]
"""Marks of the tests that run in the environment of PyTorch."""


def measured(
    python: Path, folder: Path, *words: str, code: str = OWN, ends: int = 0, environ: Any = None
) -> Any:
    """The record of a trial of the model that `code` builds.

    Raises:
        AssertionError: the exit code is not `ends`.
    """
    ended = run_trial(python, folder, *words, code=code, environ=environ)
    assert ended.returncode == ends, ended.stdout + ended.stderr
    [path] = folder.glob("r/records/*/0.json")
    return json.loads(path.read_text())


def run_trial(
    python: Path, folder: Path, *words: str, code: str = OWN, environ: Any = None
) -> subprocess.CompletedProcess[str]:
    """Run a trial of the model that `code` builds."""
    (folder / "own.py").write_text(code)
    own = ["model=local", "path=own.py:build", "trust_code=true", "batch_size=2", "effort=quick"]
    more = ["effort.always_reference=true", "device=cpu", "tracker=none", "ui=plain"]
    asked = ("-m", "xla_sweeps", *own, *more, "results_dir=r", *words)
    variables = {LEASES: str(folder / "leases"), **(environ or {})}
    return run_program(python, *asked, cwd=folder, more=variables, code=None)


def python_of(extra: str) -> Path:
    """The Python of the environment that `scripts/setup` makes for `jax` or `torch` alone.

    Raises:
        subprocess.CalledProcessError: a package cannot be installed.
    """
    environ = {**os.environ, "PYTHON": sys.executable}
    subprocess.run([ROOT / "scripts/setup", extra], env=environ, check=True)
    return ROOT / f".venv-{extra}/bin/python"
