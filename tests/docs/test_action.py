"""The composite action: each of its scripts, run by bash with a command and a `gh` of our own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from paths import ROOT

from xla_sweeps.cli.guard import FAIL_ON
from xla_sweeps.report.guard import MARKER

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())

STEPS = ACTION["runs"]["steps"]

COMMAND = """#!/bin/sh
printf '%s\\n' "$@" > "$HOME/arguments"
while [ "$1" != -o ]; do shift; done
[ -z "$VERDICT" ] || echo "<!-- xla-sweeps-guard verdict=$VERDICT -->" > "$2"
exit "$ENDS"
"""

GH = """#!/bin/sh
echo "$*" >> "$HOME/calls"
case "$*" in *--paginate*) printf '%s' "$FOUND" ;; esac
"""


def run(step: int, home: Path, **values: str) -> subprocess.CompletedProcess[str]:
    """A step's script, with these values of its environment."""
    assert STEPS[step]["shell"] == "bash"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]],
        env={
            **{"PATH": f"{home}/bin:{os.environ['PATH']}", "HOME": str(home)},
            **{"RUNNER_TEMP": str(home), "GITHUB_STEP_SUMMARY": str(home / "summary")},
            **{"GITHUB_OUTPUT": str(home / "output")},
            **dict.fromkeys(STEPS[step]["env"], ""),
            **values,
        },
        cwd=home,
        capture_output=True,
        text=True,
        timeout=50,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name, text in (("env/bin/python", COMMAND), ("bin/gh", GH)):
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
        file.chmod(0o755)
    return tmp_path


INPUTS = {
    **{"BEFORE": "env@a b", "AFTER": "env@c", "BUDGET": "5min", "DETECT": "2%"},
    **{"OPTIONS": "model=resnet50\n\nmodes=[graph, xla]\n", "FAIL_ON": "slower,broke"},
}


@pytest.mark.parametrize(("verdict", "ends"), [("slower", "1"), ("equivalent", "0")])
def test_the_report_becomes_the_summary_and_the_verdict_an_output(
    home: Path, verdict: str, ends: str
) -> None:
    done = run(0, home, **INPUTS, VERDICT=verdict, ENDS=ends)
    assert done.returncode == 0, done.stderr
    assert (home / "summary").read_text() == MARKER.format(verdict=verdict) + "\n"
    report = home / "xla-sweeps-guard.md"
    said = (home / "output").read_text().splitlines()
    assert said == [f"report={report}", f"code={ends}", f"verdict={verdict}"]
    assert (home / "arguments").read_text().splitlines() == [
        *("-P", "-m", "xla_sweeps", "guard", "--before", "env@a b", "--after", "env@c"),
        *("--budget", "5min", "--detect", "2%", "--fail-on=slower,broke"),
        *("--format", "md", "-o", str(report), "model=resnet50", "modes=[graph, xla]"),
    ]


def test_a_refusal_has_no_verdict_and_its_code_is_kept(home: Path) -> None:
    done = run(0, home, **{**INPUTS, "FAIL_ON": ""}, VERDICT="", ENDS="2")
    assert done.returncode == 0, done.stderr
    assert "verdict=" not in (home / "output").read_text()
    assert "exit code 2" in (home / "summary").read_text()
    assert "--fail-on" not in (home / "arguments").read_text()


@pytest.mark.parametrize("found", ["", "7", "7\n9"])
def test_a_pull_request_has_one_comment(home: Path, found: str) -> None:
    places = {"COMMENTS": "repos/o/r/issues/3/comments", "COMMENT": "repos/o/r/issues/comments"}
    done = run(1, home, **places, REPORT="report.md", GH_TOKEN="t", FOUND=found)
    assert done.returncode == 0, done.stderr
    call = (home / "calls").read_text().splitlines()[-1]
    expected = (
        f"api --method PATCH {places['COMMENT']}/7"
        if found
        else f"api --method POST {places['COMMENTS']}"
    )
    assert call == f"{expected} --field body=@report.md --silent"


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_job_ends_with_the_code_of_the_guard(home: Path, code: int) -> None:
    assert run(2, home, CODE=str(code)).returncode == code


def test_scripts_get_values_by_variables_only() -> None:
    assert len(STEPS) == 3
    assert not [step for step in STEPS if "${{" in step["run"]]
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert used == ACTION["inputs"].keys()
    assert set(ACTION["inputs"]["fail-on"]["default"].split(",")) <= {*FAIL_ON}
