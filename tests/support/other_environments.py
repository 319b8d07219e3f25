"""Environments of the checkout without TensorFlow, each with another backend."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

from xla_sweeps.system.leases import LEASES

sys.path.append(str(ROOT / "scripts"))

import install  # type: ignore[import-not-found]

LEFT_OUT = ("tensorflow", "tf-keras", "wandb")

CPU_BUILDS = {"torch": "+cpu"}
"""Local versions: on Linux the public index has PyTorch with gigabytes of CUDA only."""

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
    return subprocess.run(
        [str(python), "-m", "xla_sweeps", *own, *more, "results_dir=r", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=380,
        env={**os.environ, LEASES: str(folder / "leases"), **(environ or {})},
    )


def python_of(extra: str) -> Path:
    """The Python of an environment with the packages of an extra, made once.

    Raises:
        subprocess.CalledProcessError: a package cannot be installed.
    """
    place = ROOT / f".venv-{extra}"
    stamp, wanted = place / "installed", _requirements(extra)
    with (ROOT / ".venv.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != "\n".join(wanted):
            _make(place, wanted)
            stamp.write_text("\n".join(wanted))
    return place / "bin/python"


def _requirements(extra: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"][extra]]
    named = {re.split(r"[\[<>=]", word)[0]: word for word in needed}
    for name in CPU_BUILDS.keys() & named:
        pinned = re.search(rf"^{name}==\S+", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
        assert pinned is not None
        named[name] = pinned[0] + CPU_BUILDS[name]
    return [word for name, word in named.items() if name not in LEFT_OUT]


def _make(place: Path, wanted: list[str]) -> None:
    uv, told = install.find_uv(), install.uv_variables(install.pip_settings())
    python, limited = str(place / "bin/python"), ("--constraint", str(ROOT / "constraints.txt"))
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
    if uv is None or told is None:
        command, variables = [python, "-m", "pip", "install", "--quiet", "--no-compile"], {}
    else:
        command, variables = [uv, "pip", "install", "--quiet", "--python", python], told
    environ = {**variables, **os.environ}
    subprocess.run([*command, *limited, *wanted], check=True, env=environ, cwd=ROOT)
    site = next((place / "lib").glob("python3*")) / "site-packages"
    (site / "checkout.pth").write_text(f"{ROOT}\n")
