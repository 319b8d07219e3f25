"""Modules in the current folder, which may be somebody else's, are not imported by any command."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from paths import ROOT, SUPPORT
from programs import run_program

from xla_sweeps.schema.backend import backends
from xla_sweeps.sweeps.launchers import wandb_agents
from xla_sweeps.sweeps.launchers.job import COMMAND
from xla_sweeps.system.process import python_command

PLANTED = ("glob", "random", "keras", "tempfile", "signal", "msgspec", "numpy")

PLANT = """\
import sys
with open({hit!r}, "a") as file:
    file.write(f"{{__name__}}: {{sys.orig_argv}}\\n")
raise ImportError("planted")
"""

DEFINITION = """\
method: grid
parameters:
  model: {value: mnist_mlp}
  modes: {value: [graph, xla]}
  effort: {value: quick}
  effort.duplicates: {value: 0}
"""


@pytest.fixture
def downloaded(tmp_path: Path) -> Path:
    """A folder with modules that say who imported them, and fail."""
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(PLANT.format(hit=str(tmp_path / "hit")))
    (tmp_path / "s.yaml").write_text(DEFINITION)
    return tmp_path


def started(words: list[str], folder: Path) -> CompletedProcess[str]:
    own = {"PYTHONPATH": str(ROOT), "FAKE_WORKER": ""}
    done = run_program(sys.executable, *words, cwd=folder, more=own, code=None)
    assert not (folder / "hit").exists(), (folder / "hit").read_text()
    assert "planted" not in done.stdout + done.stderr
    return done


@pytest.mark.parametrize(
    "words",
    [
        ["results"],
        pytest.param(["sweep", "s.yaml", "--dry-run"], marks=pytest.mark.exhaustive),
        pytest.param(
            ["doctor", "--seconds", "0.1"], marks=[pytest.mark.tf, pytest.mark.exhaustive]
        ),
    ],
    ids=lambda words: words[0],
)
def test_no_command_imports_a_module_of_the_current_folder(
    words: list[str], downloaded: Path
) -> None:
    started(["-m", "xla_sweeps", *words], downloaded)


def test_a_sweep_and_its_tracker_import_no_module_of_the_current_folder(downloaded: Path) -> None:
    words = ["sweep", "s.yaml", "tracker=wandb_offline"]
    done = started([str(SUPPORT / "fake_sweep.py"), *words], downloaded)
    assert done.returncode == 0, done.stderr
    assert list((downloaded / "results" / "records").glob("*/0.json"))
    assert list((downloaded / "results").rglob("*.wandb"))


def test_every_python_that_is_started_leaves_out_the_current_folder() -> None:
    start = python_command("xla_sweeps")
    assert start == (sys.executable, "-P", "-m", "xla_sweeps") == COMMAND
    for backend in backends():
        for program in backend.programs:
            assert backend.command(program)[:3] == start[:3]
    assert wandb_agents.COMMAND[1:4] == ["${interpreter}", "-P", "-m"]
    assert '{python} -P "$@"' in wandb_agents.SHIM


def test_a_python_is_started_by_one_function_of_the_package() -> None:
    starting = {
        str(path.relative_to(ROOT / "xla_sweeps")): count
        for path in (ROOT / "xla_sweeps").rglob("*.py")
        if (count := path.read_text(encoding="utf-8").count("sys.executable"))
    }
    named = {"system/installation.py": 1, "sweeps/race.py": 1}  # in commands; as a guard's side
    assert starting == {"system/process.py": 1, "sweeps/launchers/wandb_agents.py": 1, **named}


@pytest.mark.parametrize("pattern", ["scripts/run", "scripts/*.sbatch", "sweeps/*.yaml"])
def test_a_script_or_a_sweep_starts_python_without_the_current_folder(pattern: str) -> None:
    for path in ROOT.glob(pattern):
        lines = path.read_text(encoding="utf-8").splitlines()
        starts = [line for line in lines if re.search(r"-m\W+xla_sweeps", line)]
        assert starts, path
        assert all(re.search(r"-P\W+-m\W+xla_sweeps", line) for line in starts), path
