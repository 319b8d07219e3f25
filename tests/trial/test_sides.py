"""The sides of a guard: an environment and a folder each, read before anything is measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ended import alive

from xla_sweeps.errors import ConfigError
from xla_sweeps.trial import sides
from xla_sweeps.trial.sides import side_of
from xla_sweeps.version import __version__

WORDS = ("model=local", "path=pkg.models:build", "trust_code=true", "device=cpu", "resolution=32")


def install(site: Path, depth: int) -> None:
    (site / "pkg").mkdir(parents=True)
    (site / "pkg" / "__init__.py").touch()
    (site / "pkg" / "models.py").write_text(f"def build():\n    return {depth}\n")


def test_a_module_that_both_environments_have_is_read_in_the_sides_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "here", 1)
    install(tmp_path / "there", 2)
    monkeypatch.syspath_prepend(tmp_path / "here")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "here"))
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/there exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    before, after = (
        side_of("before", str(tmp_path / "env"), WORDS),
        side_of("after", sys.executable, WORDS),
    )
    models = [side.settings.trial.model.recipe for side in (before, after)]
    assert models[0]["fingerprint"] != models[1]["fingerprint"]
    before.require_same_files()
    (tmp_path / "there" / "pkg" / "models.py").write_text("def build():\n    return 3\n")
    after.require_same_files()
    with pytest.raises(ConfigError, match="--before: "):
        before.require_same_files()


def test_an_environment_that_may_not_be_read_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(ConfigError, match=rf"--before {tmp_path}/env: .*: Permission denied"):
        side_of("before", f"{tmp_path}/env", WORDS)


def answering(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


def test_a_folder_that_no_system_can_look_in_is_told_in_one_line(tmp_path: Path) -> None:
    facts = {"search": ["x" * 5000], "packages": {"tensorflow": "2"}, "python": "3", "git": ""}
    python = answering(tmp_path / "env", f"echo {__version__}", f"echo '{json.dumps(facts)}'")
    with pytest.raises(ConfigError, match=f"^--before {python}: .*File name too long"):
        side_of("before", python, WORDS)


@pytest.mark.parametrize("end", ["wait", "exit 0"])
def test_an_interpreter_that_never_answers_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(sides, "PROBE_S", 3.0 if end == "wait" else 60.0)
    kept = ("setsid sleep 600 &", "echo $! >> pids", "sleep 600 &", "echo $! >> pids")
    python = answering(tmp_path / "env", *kept, end)
    monkeypatch.chdir(tmp_path)
    says = "gave no answer in 3 s$" if end == "wait" else "cannot load xla_sweeps: exit code 0$"
    with pytest.raises(ConfigError, match=says):
        side_of("before", python, WORDS)
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    assert not [pid for pid in pids if alive(int(pid))]
