"""A backend without any framework, declared beside TensorFlow, measured by the real command."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT, SUPPORT

from xla_sweeps.schema.measurement import Status

TRIAL = (
    *("model=mobilenet_v1", "resolution=32", "device=cpu", "tracker=none", "effort=quick"),
    *("effort.block_s=0.002", "effort.rounds_max=10", "effort.warmup_s=0.05"),
)


def run(*words: str, cwd: Path, fault: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SUPPORT / "fake_backend.py"), *words],
        cwd=cwd,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HOME": str(cwd),
            "COLUMNS": "120",
            "FAKE_FAULT": fault,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )


def measured_in(scenario: str, *modes: str, cwd: Path) -> tuple[str, str]:
    """Standard error and output of a trial in these modes."""
    asked = f"modes=[{','.join(modes)}]"
    done = run(f"scenario={scenario}", asked, *TRIAL, "ui=plain", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stderr, " ".join(done.stdout.split())


def measured(cwd: Path, *, fault: str = "") -> tuple[subprocess.CompletedProcess[str], Any]:
    """A trial, and its record as it was written: the test itself does not know its modes."""
    done = run("modes=[fake_xla,fake_graph]", *TRIAL, "ui=plain", cwd=cwd, fault=fault)
    (path,) = (cwd / "results" / "records").glob("*/*.json")
    return done, json.loads(path.read_bytes())


def test_a_trial_of_another_backend_gives_a_record_and_a_row(tmp_path: Path) -> None:
    done, record = measured(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "import   FakeWork" in done.stderr
    assert record["status"] == "ok"
    assert record["environment"]["loaded"] == {"fake": "1.2", "variable": "numpy"}
    assert len(record["rounds"]) >= 10
    for outcome in record["modes"].values():
        assert outcome["status"] == "ok"
        assert outcome["agreement"]["ok"]
        assert outcome["effective"]["in_force"]
    shown = run("results", "results", "--format", "json", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    (row,) = json.loads(shown.stdout)
    assert (row["baseline"], row["candidate"]) == ("fake_graph", "fake_xla")
    assert row["software"] == "FakeWork 1.2"
    assert row["speedup"] > 0


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [
        ("fake_xla:wrong", Status.WRONG_RESULT, "differ"),
        ("fake_xla:absent", Status.MODE_NOT_EFFECTIVE, "nothing was compiled"),
        ("fake_xla:crash", Status.CRASHED, "SIGSEGV"),
        ("fake_xla:unknown", Status.UNSUPPORTED_OP, "FakeWork has no MatMul"),
    ],
)
def test_what_goes_wrong_in_a_mode_of_another_backend_is_its_outcome(
    fault: str, status: Status, says: str, tmp_path: Path
) -> None:
    done, record = measured(tmp_path, fault=fault)
    assert done.returncode == 1, done.stderr
    outcome = record["modes"]["fake_xla"]
    assert outcome["status"] == status
    assert says in outcome["failure"]["message"]
    assert record["modes"]["fake_graph"]["status"] == Status.OK


def test_the_commands_of_a_trial_can_be_typed_whatever_its_folder_is_called(tmp_path: Path) -> None:
    done = run("modes=[fake_graph]", *TRIAL, "ui=plain", "results_dir=my results", cwd=tmp_path)
    (line,) = re.findall(r"(?m)^table +(.*)", done.stdout)
    assert shlex.split(line) == ["xla-sweeps", "results", "my results"]


def test_a_mode_that_goes_wrong_while_it_is_measured_is_found_at_the_end(tmp_path: Path) -> None:
    done, record = measured(tmp_path, fault="fake_xla:wrong_late")
    assert done.returncode == 1, done.stderr
    outcome = record["modes"]["fake_xla"]
    assert outcome["status"] == Status.WRONG_RESULT
    assert outcome["agreement"]["ok"], "its first calls were right"
    assert outcome["failure"]["message"].startswith("after it was measured, on input 1: outputs")
    assert " NO " in done.stdout


def test_a_mode_that_was_still_warming_up_is_measured_again(tmp_path: Path) -> None:
    done, record = measured(tmp_path, fault="fake_xla:slow_start")
    assert done.returncode == 0, done.stderr
    outcome = record["modes"]["fake_xla"]
    assert sum(span > 19e6 for span in outcome["warmup_block_ns"]) > 12
    slow_ns = [
        block["elapsed_ns"] / block["calls"]
        for round_ in record["rounds"]
        for block in round_["blocks"]
        if block["mode"] == "fake_xla"
    ]
    assert max(slow_ns) < 10e6, "no round holds a call of the slow start"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("modes=[fake_graph]", "onednn=true"),
            "onednn: FakeWork has no such option; leave it out",
        ),
        (
            ("modes=[fake_graph]", "xla_flags.xla_a=1"),
            "xla_flags: FakeWork has no such option; leave it out",
        ),
        (
            ("modes=[graph,fake_xla]", "threads.intra=1"),
            "threads.intra: FakeWork has no such option; leave it out",
        ),
    ],
)
def test_what_a_backend_does_not_have_is_refused_in_a_line(
    words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    done = run(*TRIAL, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert not (tmp_path / "results").exists()


def test_backends_of_one_trial_take_turns_each_in_a_process_of_its_own(tmp_path: Path) -> None:
    stages, said = measured_in("call", "fake_graph", "fake_xla", "other_xla", cwd=tmp_path)
    assert re.search(r"OtherWork's other xla .* FakeWork's fake graph", said)
    assert stages.count("import   FakeWork") == stages.count("import   OtherWork") == 1
    (path,) = (tmp_path / "results" / "records").glob("*/*.json")
    record = json.loads(path.read_bytes())
    assert {name: outcome["status"] for name, outcome in record["modes"].items()} == dict.fromkeys(
        ("fake_graph", "fake_xla", "other_xla"), "ok"
    )
    assert record["environment"]["loaded"] == {
        **{"fake": "1.2", "variable": "numpy"},
        **{"other": "1.2", "other.variable": "other"},
    }
    rounds = record["rounds"]
    assert len(rounds) >= 10
    assert all(len(round_["blocks"]) == 3 for round_ in rounds)
    shown = run("results", "results", "--format", "json", cwd=tmp_path)
    rows = {row["candidate"]: row for row in json.loads(shown.stdout)}
    assert rows.keys() == {"fake_xla", "other_xla"}
    assert {row["baseline"] for row in rows.values()} == {"fake_graph"}
    assert {row["software"] for row in rows.values()} == {"FakeWork 1.2, OtherWork 1.2"}


@pytest.mark.parametrize(
    ("fault", "failed", "status", "says"),
    [
        ("other_xla:crash", "other", Status.CRASHED, "SIGSEGV"),
        ("adopt", "other", Status.WRONG_RESULT, "outputs differ from eager's"),
        ("fake:build", "fake", Status.UNSUPPORTED_OP, "FakeWork has no Conv2D"),
    ],
)
def test_what_ends_a_backend_of_a_trial_ends_its_own_modes_only(
    fault: str, failed: str, status: Status, says: str, tmp_path: Path
) -> None:
    asked = "modes=[fake_xla,other_xla]"
    done = run(asked, *TRIAL, "ui=plain", cwd=tmp_path, fault=fault)
    assert done.returncode == 1, done.stderr
    (path,) = (tmp_path / "results" / "records").glob("*/*.json")
    record = json.loads(path.read_bytes())
    other = {"fake": "other", "other": "fake"}[failed]
    assert record["modes"][f"{other}_xla"]["status"] == Status.OK
    assert record["modes"][f"{failed}_xla"]["status"] == status
    assert says in record["modes"][f"{failed}_xla"]["failure"]["message"]
    assert (says in done.stderr) is (status is not Status.WRONG_RESULT)


def test_the_roles_of_its_modes_tell_steps_and_caveats_of_another_backend(tmp_path: Path) -> None:
    stages, shown = measured_in("call", "fake_eager", "fake_graph", "fake_xla", cwd=tmp_path)
    assert "fake_eager" in next(line for line in stages.splitlines() if "verify" in line)
    assert re.search(
        r"steps fake_eager → fake_graph [\d.]+×.* fake_graph → fake_xla [\d.]+×", shown
    )
    _, shown = measured_in("call", "fake_eager", "fake_xla", cwd=tmp_path)
    assert "Eager calls of a saved model run its graph." in shown


def test_the_input_pipeline_of_another_backend_has_its_share(tmp_path: Path) -> None:
    modes = ("fake_input", "fake_graph", "fake_xla", "fake_fit_graph", "fake_fit_xla")
    _, shown = measured_in("fit", *modes, cwd=tmp_path)
    assert "Its input pipeline alone gives" in shown
    assert "This pipeline only hands over batches of drawn values from memory" in shown


def test_ui_json_writes_an_object_a_line_and_ends_with_the_result(tmp_path: Path) -> None:
    done = run("modes=[fake_xla,fake_graph]", *TRIAL, "ui=json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    names = [event["event"] for event in events]
    assert (names[0], names[-1]) == ("start", "end")
    assert {"stage", "rounds", "saved"} <= set(names)
    end = events[-1]
    assert end["exit_code"] == 0
    assert [Path(path).is_file() for path in end["records"]] == [True]
    assert "replicate" in end["text"]
    assert [mode["label"] for mode in end["summary"]["modes"]]


@pytest.mark.parametrize(
    ("modes", "line"),
    [
        ("fake_graph,fake_xla", "explain: FakeWork explains no model"),
        (
            "fake_xla,graph,xla",
            "explain: modes of tensorflow and fake: a model is explained on one backend; "
            "give backend=tensorflow or backend=fake in place of modes",
        ),
    ],
)
def test_what_no_single_backend_explains_is_refused_in_one_line(
    modes: str, line: str, tmp_path: Path
) -> None:
    done = run("explain", "model=mobilenet_v1", "device=cpu", f"modes=[{modes}]", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"xla-sweeps: {line}\n"
