"""The action and its workflows: each script, run by bash with a command and a `gh` of our own."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from made_files import make_files, make_programs
from paths import ROOT
from programs import run_program

from xla_sweeps.cli.guard import FAILS
from xla_sweeps.report.guard import MARKER

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())

STEPS = ACTION["runs"]["steps"]

WORKFLOWS = ROOT / "docs" / "workflows"

GUARD = yaml.safe_load((WORKFLOWS / "guard.yml").read_text())

COMMENT = yaml.safe_load((WORKFLOWS / "guard-comment.yml").read_text())["jobs"]["comment"]

COMMAND = """#!/bin/sh
printf '%s\\n' "$@" > "$HOME/arguments"
while [ "$1" != -o ]; do shift; done
[ -z "$VERDICT" ] || echo "<!-- xla-sweeps-guard verdict=$VERDICT -->" > "$2"
exit "$ENDS"
"""

GH = """#!/bin/sh
echo "$*" >> "$HOME/calls"
case "$*" in
*/pulls*) printf '%s' "$NUMBER" ;;
*--paginate*) printf '%s' "$FOUND" ;;
*download*) mkdir "$HOME/guard"; cp "$ARTIFACT" "$HOME/guard" ;;
esac
"""


def run(step: Any, home: Path, code: int = 0, /, **values: str) -> None:
    """A script of the action or of another job, with these values of its environment."""
    step = STEPS[step] if isinstance(step, int) else step
    assert step["shell"] == "bash"
    own = {
        **{"PATH": f"{home}/bin:{os.environ['PATH']}", "HOME": str(home)},
        **{"RUNNER_TEMP": str(home), "GITHUB_STEP_SUMMARY": str(home / "summary")},
        **{"GITHUB_OUTPUT": str(home / "output")},
        **dict.fromkeys(step.get("env", ()), ""),
        **values,
    }
    words = ("--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"])
    run_program("bash", *words, cwd=home, env=own, code=code, limit_s=50)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make_programs(tmp_path, COMMAND, "env/bin/python")
    return make_programs(tmp_path, GH, "bin/gh")


INPUTS = {
    **{"BEFORE": "env@a b", "AFTER": "env@c", "BUDGET": "5min", "DETECT": "2%"},
    **{"OPTIONS": "model=resnet50\n\nmodes=[graph, xla]\n", "FAIL_ON": "slower,broke"},
}


@pytest.mark.parametrize(("verdict", "ends"), [("slower", "1"), ("equivalent", "0")])
def test_the_report_becomes_the_summary_and_the_verdict_an_output(
    home: Path, verdict: str, ends: str
) -> None:
    run(0, home, **INPUTS, VERDICT=verdict, ENDS=ends)
    assert (home / "summary").read_text() == MARKER.format(verdict=verdict) + "\n"
    report = home / "xla-sweeps-guard.md"
    said = (home / "output").read_text().splitlines()
    assert said == [f"report={report}", f"code={ends}", f"verdict={verdict}"]
    assert (home / "arguments").read_text().splitlines() == [
        *("-P", "-m", "xla_sweeps", "guard", "--before", "env@a b", "--after", "env@c"),
        *("--budget", "5min", "--detect", "2%", "--fail-on=slower,broke"),
        *("--format", "md", "-o", str(report), "model=resnet50", "modes=[graph, xla]"),
    ]


def test_options_are_trimmed_and_an_environment_may_have_an_at_in_its_path(home: Path) -> None:
    (home / "env").rename(home / "env@2")
    own = {"AFTER": "env@2", "OPTIONS": "  model=resnet50 \r\n\r\n\tbatch_size=2\r\n"}
    run(0, home, **{**INPUTS, **own}, VERDICT="equivalent", ENDS="0")
    words = (home / "arguments").read_text().splitlines()
    assert words[-2:] == ["model=resnet50", "batch_size=2"]


def test_a_refusal_has_no_verdict_and_its_code_is_kept(home: Path) -> None:
    run(0, home, **{**INPUTS, "FAIL_ON": ""}, VERDICT="", ENDS="2")
    assert "verdict=" not in (home / "output").read_text()
    assert "exit code 2" in (home / "summary").read_text()
    assert "--fail-on=\n" in (home / "arguments").read_text(), "never, and not the default"


@pytest.mark.parametrize("found", ["", "7", "7\n9"])
def test_a_pull_request_has_one_comment(home: Path, found: str) -> None:
    places = {"COMMENTS": "repos/o/r/issues/3/comments", "COMMENT": "repos/o/r/issues/comments"}
    run(1, home, **places, REPORT="report.md", GH_TOKEN="t", FOUND=found)
    call = (home / "calls").read_text().splitlines()[-1]
    expected = (
        f"api --method PATCH {places['COMMENT']}/7"
        if found
        else f"api --method POST {places['COMMENTS']}"
    )
    assert call == f"{expected} --field body=@report.md --silent"


PYTHON = """#!/bin/sh
mkdir -p "$3/bin"
printf '#!/bin/sh\\necho "$0 $*" >> "$HOME/calls"\\n' > "$3/bin/pip"
chmod +x "$3/bin/pip"
"""


@pytest.mark.parametrize("sides", [("after",), ("after", "before")])
def test_the_example_makes_an_environment_of_each_side_unless_they_need_the_same(
    home: Path, sides: tuple[str, ...]
) -> None:
    for side in ("after", "before"):
        make_files(home, {f"{side}/requirements.txt": f"keras {len(sides) == 1 or side}"})
    make_programs(home, PYTHON, "bin/python")
    (setup,) = [step for step in GUARD["jobs"]["guard"]["steps"] if "run" in step]
    (cache,) = [one for one in GUARD["jobs"]["guard"]["steps"] if "/cache@" in one.get("uses", "")]
    assert cache["with"]["path"].split() == ["after/.venv", "before/.venv"]
    run(setup, home)
    assert (home / "calls").read_text().splitlines() == [
        f"{side}/.venv/bin/pip install ./xla_sweeps -r {side}/requirements.txt" for side in sides
    ]
    assert (home / "before" / ".venv" / "bin" / "pip").is_file()


FORK = {"PLACE": "o/r", "RUN": "5", "HEAD": "c0ffee", "FORK": "you/r", "GH_TOKEN": "t"}


def commented(home: Path, report: str | None, **values: str) -> tuple[list[str], str]:
    """The calls of `gh` by the workflow on a fork's report, and the comment."""
    artifact = home / "xla-sweeps-guard.md"
    if report is not None:
        artifact.write_text(report)
    run(COMMENT["steps"][0], home, **{**FORK, "ARTIFACT": str(artifact), **values})
    comment = home / "comment.md"
    calls = (home / "calls").read_text().splitlines()
    return calls, comment.read_text() if comment.exists() else ""


@pytest.mark.parametrize("found", ["", "7"])
def test_a_forks_report_becomes_a_comment_as_plain_text(home: Path, found: str) -> None:
    report = f"{MARKER.format(verdict='slower')}\n### `n` — 5 %\n</pre>@you & \x1b[1m\n"
    calls, comment = commented(home, report, NUMBER="3\n4", FOUND=found)
    assert comment.splitlines()[0] == MARKER.format(verdict="slower")
    text = comment[comment.index("<pre>") :]
    assert text == "<pre>\n### `n` — 5 %\n&lt;/pre&gt;@you &amp; [1m\n\n</pre>\n"
    assert "select(.head.sha == env.HEAD and .head.repo.full_name == env.FORK)" in "".join(calls)
    where = "PATCH repos/o/r/issues/comments/7" if found else "POST repos/o/r/issues/3/comments"
    assert calls[-1] == f"api --method {where} --field body=@{home / 'comment.md'} --silent"


@pytest.mark.parametrize(
    ("report", "number"),
    [(None, "3"), ("guard ended with exit code 2\n", "3"), (MARKER.format(verdict="slower"), "")],
    ids=["no report", "no verdict", "no pull request"],
)
def test_without_report_verdict_or_pull_request_there_is_no_comment(
    home: Path, report: str | None, number: str
) -> None:
    calls, comment = commented(home, report, NUMBER=number)
    assert comment == ""
    assert "--method" not in "".join(calls)


@pytest.mark.parametrize("text", ["x", "&", "é<", "\n"])
def test_a_long_report_is_cut_after_it_is_escaped(home: Path, text: str) -> None:
    report = MARKER.format(verdict="faster") + "\n" + text * 200_000
    _, comment = commented(home, report, NUMBER="3")
    assert 29_000 < len(comment.encode()) < 31_000
    assert comment.endswith("</pre>\n")


def test_a_verdict_of_many_letters_is_none(home: Path) -> None:
    _, comment = commented(home, MARKER.format(verdict="a" * 70_000), NUMBER="3")
    assert comment == ""


def test_workflows_fit_together_and_run_nothing_of_a_fork_with_rights() -> None:
    (*_, action, upload) = GUARD["jobs"]["guard"]["steps"]
    assert action["with"].keys() <= ACTION["inputs"].keys()
    assert upload["with"]["path"].endswith("/xla-sweeps-guard.md")
    assert f"--name {upload['with']['name']} " in COMMENT["steps"][0]["run"]
    comment = (WORKFLOWS / "guard-comment.yml").read_text()
    assert f"workflows: [{GUARD['name']}]" in comment
    assert "uses:" not in comment
    assert "${{" not in COMMENT["steps"][0]["run"]


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_job_ends_with_the_code_of_the_guard(home: Path, code: int) -> None:
    run(2, home, code, CODE=str(code))


def test_scripts_get_values_by_variables_only() -> None:
    assert len(STEPS) == 3
    assert not [step for step in STEPS if "${{" in step["run"]]
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert used == ACTION["inputs"].keys()
    assert tuple(ACTION["inputs"]["fail-on"]["default"].split(",")) == FAILS
