"""`xla-sweeps guard`: what it refuses, and whole guards by a backend without a framework."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from commands import forked
from composed import complaint_of
from paths import ROOT
from programs import with_code

from xla_sweeps.analysis.guard import LOOK
from xla_sweeps.cli.arguments import conditions_of
from xla_sweeps.cli.guard import FAILS, guard_command
from xla_sweeps.config.values import SECONDS
from xla_sweeps.errors import ConfigError
from xla_sweeps.report.guard import MARKER
from xla_sweeps.version import __version__

PYTHON = sys.executable

MODEL = ("model=mobilenet_v2", "resolution=32", "device=cpu")


def script(path: Path, *lines: str) -> str:
    """An interpreter that only says this."""
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("xla_sweeps.cli.guard.run_guard")


def refusal(*words: str) -> str:
    return complaint_of(guard_command, words)


@pytest.mark.usefixtures("nothing_is_measured")
def test_an_environment_that_cannot_measure_is_refused_in_a_line(tmp_path: Path) -> None:
    facts = json.dumps({"search": [], "packages": {"numpy": "2"}, "python": "3.11", "git": ""})
    lines = {
        f"{tmp_path}": "no interpreter there",
        f"{tmp_path / 'nothing'}": "no interpreter there",
        f"{PYTHON}@{tmp_path / 'nothing'}": "there is no folder",
        f"{PYTHON}@": "there is no folder",
        script(
            tmp_path / "bare", "echo \"ModuleNotFoundError: No module named 'xla_sweeps'\" >&2"
        ): "xla_sweeps is not installed there",
        script(tmp_path / "old", "echo 0.0.1"): f"has xla_sweeps 0.0.1, this is {__version__}",
        script(tmp_path / "broken", "echo oh no >&2", "exit 3"): "cannot load xla_sweeps: oh no",
        **{
            script(tmp_path / f"odd{number}", f"echo {__version__}", f"echo '{odd}'"): says
            for number, (odd, says) in enumerate(
                {
                    **{"{}": "missing required field", "[]": "Expected `object`"},
                    **{"null": "Expected `object`", "nothing": "malformed"},
                    '{"search": [], "packages": [], "python": "", "git": ""}': "Expected `object`",
                    '{"deep": ' + "[" * 100_000 + "]" * 100_000 + "}": "recursion",
                }.items()
            )
        },
        script(
            tmp_path / "endless", f"echo {__version__}", "yes | tr -d '\\n'"
        ): "cannot load xla_sweeps: ",
        script(
            tmp_path / "without", f"echo {__version__}", f"echo '{facts}'"
        ): "TensorFlow is not installed there",
    }
    for text, says in lines.items():
        line = refusal("--before", text, "--after", PYTHON, *MODEL)
        assert says in line, text
        assert line.startswith(f"--before {text}: ")


@pytest.mark.usefixtures("nothing_is_measured")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(
            ("modes=[graph,graph]",),
            "name each once; guard measures it on both sides",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            ("--after-with", "scenario=predict"),
            "scenario: both sides need the same",
            marks=pytest.mark.exhaustive,
        ),
        (("--after-with", "precision=half"), f"--after {PYTHON}: unknown precision 'half'"),
    ],
)
def test_sides_that_cannot_be_compared_are_refused(words: tuple[str, ...], says: str) -> None:
    assert says in refusal("--before", PYTHON, "--after", PYTHON, *MODEL, *words)


@pytest.mark.usefixtures("nothing_is_measured")
@pytest.mark.parametrize("side", ["before", pytest.param("after", marks=pytest.mark.exhaustive)])
def test_a_file_that_one_side_lacks_is_named_with_the_side(folders: Path, side: str) -> None:
    places = {"before": f"{PYTHON}@{folders / 'a'}", "after": f"{PYTHON}@{folders / 'b'}"}
    for name, text in places.items():
        if name != side:
            code = Path(text.rpartition("@")[2]) / "models.py"
            code.write_text("def build():\n    pass\n")
    given = [word for name, text in places.items() for word in (f"--{name}", text)]
    line = refusal(*given, "model=local", "path=models.py:build", "trust_code=true", "device=cpu")
    assert line == f"--{side} {places[side]}: path=models.py:build: no such file: models.py"


TRIAL = (
    *("model=mobilenet_v1", "resolution=32", "device=cpu", "ui=plain"),
    *("effort.block_s=0.002", "effort.warmup_s=0.05"),
)


def guard(
    cwd: Path, *words: str, modes: str = "fake_graph,fake_xla", code: int | None = None
) -> CompletedProcess[str]:
    """A guard of the folders `a` and `b`."""
    sides = ("--before", f"{PYTHON}@a", "--after", f"{PYTHON}@b")
    own = {"PYTHONPATH": str(ROOT), "HOME": str(cwd)}
    words = ("fakes", "guard", *sides, *TRIAL, f"modes=[{modes}]", *words)
    return with_code(forked(*words, cwd=cwd, environment={**os.environ, **own}), code)


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [((), 1), pytest.param(("--fail-on=",), 0, marks=pytest.mark.exhaustive)],
)
def test_a_slower_folder_is_found_and_fails_the_guard(
    folders: Path, fail_on: tuple[str, ...], code: int
) -> None:
    (folders / "b" / "repeat").write_text("30")
    done = guard(folders, *fail_on, "--format", "json", "-o", "out.json")
    assert done.returncode == code, done.stderr
    document: dict[str, Any] = json.loads((folders / "out.json").read_bytes())
    assert document["verdict"] == "slower"
    assert [mode["verdict"] for mode in document["modes"]] == ["slower", "slower"]
    assert all(mode["low"] > 0 for mode in document["modes"])
    orders = [pair["before_first"] for pair in document["pairs"]]
    assert orders == [True, False] * (len(orders) // 2)
    assert document["took_turns"]
    assert "one pair of processes that does not count" in done.stderr
    assert "pair 4 of at most" in done.stderr
    assert not list(folders.glob("*/results"))


def test_a_mode_that_breaks_fails_the_guard_and_the_others_are_judged(folders: Path) -> None:
    (folders / "b" / "fault").write_text("fake_xla:crash")
    done = guard(folders, "--format", "md", "--detect", "100%", code=1)
    assert done.stdout.startswith(MARKER.format(verdict="broke"))
    assert "| fake_xla | broke | — | — |" in done.stdout
    assert "fake_xla: after fails in 1 of 1 pair: " in done.stdout
    assert "| fake_graph | broke" not in done.stdout
    assert "nothing known differs" in done.stdout


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [("unjudged", 1), pytest.param("broke", 3, marks=pytest.mark.exhaustive)],
)
def test_a_side_that_never_ran_leaves_nothing_to_judge(
    folders: Path, fail_on: str, code: int
) -> None:
    (folders / "a" / "fault").write_text("fake_xla:crash")
    done = guard(folders, "--fail-on=slower", f"--fail-on={fail_on}", modes="fake_xla")
    assert done.returncode == code, done.stderr
    assert "Nothing could be judged." in done.stdout
    assert "fake_xla: before fails" in done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize(("side", "code"), [("a", 3), ("b", 1)])
def test_a_mode_that_fails_after_the_first_pair_never_passes_in_silence(
    folders: Path, side: str, code: int
) -> None:
    (folders / side / "fault").write_text("fake_xla:later")
    done = guard(folders, "--fail-on=slower,broke", "--detect", "100%")
    assert done.returncode == code, done.stderr
    name = {"a": "before", "b": "after"}[side]
    says = rf"fake_xla: {name} fails in (\d+) of \d+ pairs: FakeWork has"
    failed = re.search(says, done.stdout)
    assert failed, done.stdout
    assert int(failed[1]) >= LOOK
    assert "Nothing could be judged" not in done.stdout


def test_modes_of_two_frameworks_are_refused(folders: Path) -> None:
    done = guard(folders, modes="graph,fake_graph", code=2)
    assert "guard measures modes of one framework" in done.stderr


def test_two_batch_sizes_are_compared_by_the_sample(folders: Path) -> None:
    """A call of the fake device takes as long at every batch size."""
    words = ("--after-with", "batch_size=8", "--format", "json", "--budget", "4m")
    done = guard(folders, *words, modes="fake_graph", code=0)
    document = json.loads(done.stdout)
    assert document["verdict"] == "faster"
    assert document["modes"][0]["change"] == pytest.approx(math.log(4 / 8), abs=0.3)


@pytest.mark.parametrize(("words", "conditions"), [((), [*FAILS]), (("--fail-on=",), [])])
def test_an_empty_condition_fails_for_nothing_and_none_for_the_usual_ones(
    words: tuple[str, ...], conditions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def show(given: Sequence[str], names: Collection[str]) -> list[str]:
        raise ConfigError(str(conditions_of(given, names)))

    monkeypatch.setattr("xla_sweeps.cli.guard.conditions_of", show)
    assert refusal("--before", PYTHON, "--after", PYTHON, *words, *MODEL) == str(conditions)


@pytest.mark.parametrize(("text", "seconds"), [("120", 120), ("4m", 240), ("1h", 3600)])
def test_a_budget_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert SECONDS(text) == seconds
