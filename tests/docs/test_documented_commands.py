"""Each command and each line of Python in a document is taken as it is written there.

What only reads results runs; sweeps are planned; the others are parsed by their own parser. Trials
are composed in `test_examples.py`. A line that no test knows fails here.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import textwrap
import tomllib
import webbrowser
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from documents import DOCUMENTS, PLACEHOLDER, make_own
from factories import make_record
from in_process import command
from paths import ROOT

import xla_sweeps as xs
from xla_sweeps.api import functions
from xla_sweeps.cli import COMMANDS
from xla_sweeps.config.catalog import load_catalog, shipped_sweeps
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.definition import load_sweep
from xla_sweeps.system import environment

pytestmark = pytest.mark.usefixtures("composed_once")

EVERY = [*DOCUMENTS, "CONTRIBUTING.md", "benchmarks/README.md"]

STARTS = re.compile(
    r"(?:python -m xla_sweeps|xla-sweeps|python -m benchmarks\.|python benchmarks/|pip install"
    r"|scripts/)\S* ?"
)

OTHER = (
    *("pip install --constraint constraints.txt .", "pip install '.[report]'", "wandb login"),
    *("tar xJf benchmarks/results/findings.tar.xz", "FOLDER/gpu_check OUT"),
    *("python3 -m venv .venv && . .venv/bin/activate", 'eval "$(xla-sweeps -sc install=bash)"'),
)
"""Lines of scripts that are no command of this package."""

UNTYPED = (
    *("python -m xla_sweeps", "python -m xla_sweeps ARGUMENTS", "python -m xla_sweeps key=value …"),
    *(
        "python -m xla_sweeps model=… ui=json",
        "xla-sweeps re<TAB>",
        "xla-sweeps model=resnet5<TAB>",
    ),
)
"""Trials that stand for others, so that nobody types them."""

READ = ("results", "plot", "compare", "dashboard", "models", "check")
"""Commands that only read, and are run."""

STANDS_FOR = {
    **{"FILE": "smoke", "NAME": "resnet50", "ENV": ".", "SWEEP": "e/p/1", "[PATTERN]": "regnet"},
    **{"[DIR]": "results", "[DIR": "results", "data=PATH": "data=pictures", "…]": "", "…": ""},
}
"""Words of commands that stand for others, and one of these."""

FEW = 8
"""Most trials of a sweep that is planned here; of others the options are composed."""


def lines_of(document: str) -> Iterator[str]:
    """Lines of scripts, of terminals after `$ `, and commands within sentences, as typed."""
    text = (ROOT / document).read_text("utf-8").replace("\\\n", " ")
    for kind, block in re.findall(r"```(\w*)\n(.*?)```", text, flags=re.S):
        lines = [line.strip() for line in block.splitlines()]
        if kind == "text":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        if kind in ("sh", "bash", "text", ""):
            yield from (re.sub(r"\s+# .*", "", line) for line in lines if line)
    without = re.sub(r"```.*?```", "", text, flags=re.S)
    yield from (found for found in re.findall(r"`([^`\n]+)`", without) if STARTS.match(found))


def commands_of(document: str) -> list[list[str]]:
    """The words of commands that say more than their name, without those of trials."""
    typed = (line.replace("--show NAME", "--show podium") for line in lines_of(document))
    lines = [shlex.split(line) for line in typed if line.startswith("xla-sweeps ")]
    words = [[STANDS_FOR.get(word, word) for word in own[1:]] for own in lines]
    each = [[word for word in own if word] for own in words if own[0] in COMMANDS]
    return [own for own in each if own[1:] and own != ["sweep", "ui=json"]]


@pytest.mark.parametrize("document", EVERY)
def test_every_line_of_a_script_is_known(document: str) -> None:
    for line in lines_of(document):
        first, *more = line.split()
        if line in OTHER or line in UNTYPED or first == line == "xla-sweeps":
            continue
        if first == "python":
            name = more[1] if more[0] == "-m" else more[0].replace("/", ".").removesuffix(".py")
            path = ROOT / "benchmarks" / f"{name.partition('.')[2]}.py"
            assert path.exists() or more[1] == "xla_sweeps", line
        elif line.startswith("pip install"):
            is_of_pip(line)
        elif first.startswith("scripts/"):
            assert (ROOT / first).exists(), line
        elif first == "xla-sweeps":
            trial = "=" in more[0] or more[0].startswith("-")
            assert more[0] in COMMANDS or trial, line
        else:
            pytest.fail(f"{document}: say in this test what runs {line!r}")


@pytest.mark.parametrize("document", EVERY)
def test_trials_that_are_not_composed_stand_for_others(document: str) -> None:
    for line in lines_of(document):
        first, *more = line.replace("python -m xla_sweeps", "xla-sweeps").split()
        is_trial = first == "xla-sweeps" and not (more and more[0] in COMMANDS)
        assert not is_trial or not PLACEHOLDER.search(line) or line in UNTYPED, line


def is_of_pip(line: str) -> None:
    """The folders of a command of pip are there, with their extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for word in shlex.split(line)[2:]:
        place, _, asked = word.partition("[")
        if place.startswith("."):
            assert (ROOT / place / "pyproject.toml").is_file(), line
            assert {*filter(None, asked.rstrip("]").split(","))} <= {*extras}, line


class Parsed(BaseException):
    """The words were taken by the command's parser."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that commands name."""
    folder: Path = tmp_path_factory.mktemp("documents")
    make_own(folder)
    record = make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}, noise=0.01)
    other = make_record({"eager": 0.5, "graph": 0.3, "xla": 0.2}, noise=0.01)
    on_gpu = replace(other, trial_id="f" * 16, device={"kind": "gpu", "name": "NVIDIA A100"})
    for own in (record, on_gpu):
        Store(folder / "results").save(own)
    names = ("runs/cpu", "other/results", "tf-2.20", "tf-2.21", "main", "pull-request", "new")
    for name in (*names, "old", "before", "after", "findings", "A", "B"):
        shutil.copytree(folder / "results", folder / name)
    return folder


@pytest.fixture
def folder(places: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the current folder; all extras are installed."""
    monkeypatch.chdir(places)
    monkeypatch.setattr(environment, "is_installed", lambda module: True)
    monkeypatch.setattr(webbrowser, "open", lambda *ignored: True)
    return places


def parse_alone(words: list[str], folder: Path) -> None:
    """Have the command's parser take the words, and nothing after it."""

    def ending(name: str) -> Any:
        parse = getattr(argparse.ArgumentParser, name)

        def parsed(self: argparse.ArgumentParser, *words: Any) -> Any:
            parse(self, *words)
            raise Parsed

        return mock.patch.object(argparse.ArgumentParser, name, parsed)

    with ending("parse_args"), ending("parse_intermixed_args"):
        done = command(*words, cwd=folder)
    raise AssertionError(f"{shlex.join(words)}: {done.stderr}")


def test_an_unknown_option_is_not_taken(folder: Path) -> None:
    for words in (["guard", "--before", "a", "--after", "b", "--no-such"], ["push", "--no-such"]):
        with pytest.raises(AssertionError, match="--no-such"):
            parse_alone(words, folder)


@pytest.mark.parametrize("document", EVERY)
def test_every_command_is_taken_as_written(document: str, folder: Path) -> None:
    text = (ROOT / document).read_text("utf-8")
    definitions = re.findall(r"```yaml\n(method:.*?)```", text, flags=re.S)
    for name in ("three.yaml", "ci.yaml"):
        (folder / name).write_text(definitions[0] if definitions else "")
    for words in commands_of(document):
        if words[0] == "sweep" and words[1] != "--list":
            plan(words, folder)
        elif "--watch" in words:  # runs until it is interrupted
            with pytest.raises(Parsed):
                parse_alone(words, folder)
        elif words[0] in READ or words == ["sweep", "--list"]:
            done = command(*words, cwd=folder)
            allowed = (0, 1, 3) if "--fail-on" in words else (0,)
            assert done.returncode in allowed, (words, done.stderr)
            assert "xla-sweeps: " not in done.stderr, words
        else:
            with pytest.raises(Parsed):
                parse_alone(words, folder)


def plan(words: list[str], folder: Path) -> None:
    """Plan a sweep, or check the options that are given to one of many trials."""
    definition = load_sweep(shipped_sweeps().get(words[1], Path(words[1])))
    options = [word for word in words[2:] if "=" in word and "--slurm" not in words]
    if definition.trials > FEW:
        settings_of(compose_config(["model=mobilenet_v2", "device=cpu", *options]))
        with pytest.raises(Parsed):
            parse_alone(words, folder)
        return
    asked = dict.fromkeys([*words, "--dry-run"])
    done = command(*asked, *([] if "--launcher" in asked else ["device=cpu"]), cwd=folder)
    assert done.returncode == 0, (words, done.stderr)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(name, marks=[pytest.mark.tf] * (name == "docs/training.md"))
        for name in DOCUMENTS
    ],
)
def test_python_of_a_document_runs_with_these_signatures(
    document: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / document).read_text("utf-8")
    trial: Any = mock.create_autospec(xs.Trial, instance=True)

    def measured(model: Any, *ignored: Any, **options: Any) -> Any:
        functions._options_of({name: options[name] for name in options if name != "results_dir"})
        assert not isinstance(model, str) or Path(model).exists() or model in load_catalog()
        return trial

    for name in ("measure", "sweep", "explain"):  # the others run
        called = mock.create_autospec(getattr(xs, name), side_effect=measured)
        monkeypatch.setattr(xs, name, called, raising=False)
    frames = mock.create_autospec(xs.Table.to_pandas)
    monkeypatch.setattr(xs.Table, "to_pandas", frames)
    own = {name: mock.MagicMock() for name in ("model", "batch", "module", "MyModel")}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.S):
        exec(compile(textwrap.dedent(block), document, "exec"), {**own})
