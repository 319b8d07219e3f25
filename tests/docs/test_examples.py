"""Commands and files of the documents work as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from commands import forked
from paths import ROOT

from xla_sweeps.cli import COMMANDS
from xla_sweeps.config import catalog
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.sweep.definition import load_sweep


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/models.md"])
def test_the_example_of_a_catalog_entry_is_one(document: str, tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(name: .*?)```", (ROOT / document).read_text(), flags=re.S)
    name = yaml.safe_load(text)["name"]
    path = tmp_path / "model" / f"{name}.yaml"
    path.parent.mkdir()
    path.write_text(text)
    assert catalog.load_catalog(tmp_path)[name].name == name
    composed = compose_config([f"model={name}", "device=cpu"], config_dir=tmp_path)
    spec = settings_of(composed).trial.model
    assert (spec.name, spec.source, spec.resolution_px) == (name, "applications", 224)


def test_the_shell_completes_as_described(tmp_path: Path) -> None:
    (line,) = re.findall(r"(?m)^eval .*?\)\"", (ROOT / "docs" / "options.md").read_text())
    command = tmp_path / "xla-sweeps"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m xla_sweeps "$@"\n')
    command.chmod(0o755)
    typed = "xla-sweeps model=resnet5"
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"{line}\nCOMP_LINE='{typed}' COMP_POINT={len(typed)} COMP_WORDS=({typed}) "
            "COMP_CWORD=1\nhydra_bash_completion\nprintf '%s\\n' \"${COMPREPLY[@]}\"",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        },
        timeout=300,
    )
    assert "resnet50v2" in done.stdout, done.stderr


def test_every_definition_that_comes_along_is_listed() -> None:
    listed = (ROOT / "docs" / "sweeps.md").read_text("utf-8").partition("| definition | what |")[2]
    table = listed.partition("\n\n")[0]
    missing = [path.stem for path in (ROOT / "sweeps").iterdir() if f"`{path.stem}`" not in table]
    assert missing == []


def test_the_recipe_for_ci_passes_and_fails_as_described(tmp_path: Path) -> None:
    recipe = (ROOT / "docs" / "results.md").read_text("utf-8").partition("## In CI")[2]
    definition, script = re.findall(r"```(?:yaml|sh)\n(.*?)```", recipe, flags=re.S)[:2]
    (tmp_path / "ci.yaml").write_text(definition)
    lines = [shlex.split(line, comments=True) for line in script.splitlines()]
    assert lines.pop(0) == ["pip", "install", "--constraint", "constraints.txt", "."]
    assert {name for name, *_ in lines} == {"xla-sweeps"}

    def ended(words: list[str], worker: str = "") -> tuple[int, str]:
        environment = {**os.environ, "WANDB_MODE": "disabled", "FAKE_WORKER": worker}
        done = forked("sweep", *words, cwd=tmp_path, environment=environment)
        return done.returncode, done.stderr

    for _, *words in lines:
        code, said = ended(words)
        assert code == 0, said
    *_, (_, *sweep), (_, *compare) = lines
    assert ended([word.replace("=new", "=broken") for word in sweep], "raise:xla")[0] == 0
    code, said = ended([word.replace("new", "broken") for word in compare])
    assert code == 1
    assert "--fail-on broke: 2, as " in said


def test_every_command_of_the_tutorial_can_be_typed(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    commands = [shlex.split(line) for line in re.findall(r"(?m)^(?:\$ )?xla-sweeps (.*)$", text)]
    assert len(commands) >= 7
    definition = re.findall(r"```yaml\n(.*?)```", text, flags=re.S)
    (tmp_path / "three.yaml").write_text(definition[0])
    for first, *words in commands:
        if "=" not in first:
            assert first in COMMANDS
        if first == "sweep":
            assert list(load_sweep(tmp_path / words[0]).parameters)
        elif first.startswith("model=") and first != "model=local":
            settings_of(compose_config([first, *words, "device=cpu"]))


def test_the_glossary_has_every_verdict_and_status() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    assert [str(word) for word in (*Verdict, *Status) if str(word) not in text] == []
