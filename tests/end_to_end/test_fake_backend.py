"""A backend without any framework, declared beside TensorFlow, measured by the real command."""

from __future__ import annotations

import json
import re
import shlex
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from commands import forked

from xla_sweeps.schema.measurement import Status

TRIAL = (
    *("model=mobilenet_v1", "resolution=32", "device=cpu", "tracker=none", "effort=quick"),
    *("effort.block_s=0.002", "effort.rounds_max=10", "effort.warmup_s=0.05"),
)

Done = CompletedProcess[str]


def run(*words: str, cwd: Path, fault: str = "") -> Done:
    own = {"HOME": str(cwd), "COLUMNS": "120", "FAKE_FAULT": fault}
    return forked("fakes", *words, cwd=cwd, more=own)


def measured(
    cwd: Path, modes: str, *words: str, fault: str = "", ui: str = "plain"
) -> tuple[Done, Any]:
    """A trial, and its record as it was written: the test itself does not know its modes."""
    done = run(f"modes=[{modes}]", *TRIAL, f"ui={ui}", *words, cwd=cwd, fault=fault)
    path = max(cwd.rglob("records/*/*.json"), key=lambda path: path.stat().st_mtime_ns)
    return done, json.loads(path.read_bytes())


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done, Any]:
    """Folder, output and record of a trial in modes of both backends."""
    cwd = tmp_path_factory.mktemp("two")
    asked = "fake_eager,fake_graph,fake_xla,other_xla"
    done, record = measured(cwd, asked, "results_dir=my results")
    assert done.returncode == 0, done.stderr
    return cwd, done, record


def test_backends_of_one_trial_take_turns_each_in_a_process_of_its_own(
    of_two: tuple[Path, Done, Any],
) -> None:
    _, done, record = of_two
    assert done.stderr.count("import   FakeWork") == done.stderr.count("import   OtherWork") == 1
    assert record["environment"]["loaded"] == {
        **{"fake": "1.2", "variable": "numpy"},
        **{"other": "1.2", "other.variable": "other"},
    }
    assert set(record["modes"]) == {"fake_eager", "fake_graph", "fake_xla", "other_xla"}
    for outcome in record["modes"].values():
        assert outcome["status"] == "ok"
        assert outcome["agreement"]["ok"]
        assert outcome["effective"]["in_force"]
    assert len(record["rounds"]) >= 10
    assert {len(round_["blocks"]) for round_ in record["rounds"][:6]} == {4}


def test_a_trial_of_other_backends_gives_rows_steps_and_a_command_that_can_be_typed(
    of_two: tuple[Path, Done, Any],
) -> None:
    cwd, done, _ = of_two
    shown = run("results", "my results", "--format", "json", cwd=cwd)
    rows = {row["candidate"]: row for row in json.loads(shown.stdout)}
    assert {"fake_xla", "other_xla"} <= rows.keys()
    for name in ("fake_xla", "other_xla"):
        row = rows[name]
        assert (row["baseline"], row["software"]) == ("fake_graph", "FakeWork 1.2, OtherWork 1.2")
        assert row["speedup"] > 0
    said = " ".join(done.stdout.split())
    assert re.search(r"OtherWork's other xla .* FakeWork's fake graph", said)
    assert re.search(r"steps fake_eager → fake_graph [\d.]+×.* fake_graph → fake_xla", said)
    assert "fake_eager" in next(line for line in done.stderr.splitlines() if "verify" in line)
    (line,) = re.findall(r"(?m)^table +(.*)", done.stdout)
    assert shlex.split(line) == ["xla-sweeps", "results", "my results"]


nightly = partial(pytest.param, marks=pytest.mark.exhaustive)

ONE, TWO = "fake_xla,fake_graph", "fake_xla,other_xla"
"""Modes of one backend, and of two."""


@pytest.mark.parametrize(
    ("modes", "fault", "failed", "status", "says"),
    [
        (ONE, "fake_xla:wrong", "fake_xla", Status.WRONG_RESULT, "differ"),
        (ONE, "fake_xla:absent", "fake_xla", Status.MODE_NOT_EFFECTIVE, "nothing was compiled"),
        nightly(ONE, "fake_xla:crash", "fake_xla", Status.CRASHED, "SIGSEGV"),
        (TWO, "adopt", "other_xla", Status.WRONG_RESULT, "outputs differ from eager's"),
        nightly(
            ONE, "fake_xla:unknown", "fake_xla", Status.UNSUPPORTED_OP, "FakeWork has no MatMul"
        ),
        nightly(
            *(ONE, "fake_xla:wrong_late", "fake_xla", Status.WRONG_RESULT),
            "after it was measured, on input 1: outputs",
        ),
        nightly(TWO, "other_xla:crash", "other_xla", Status.CRASHED, "SIGSEGV"),
        nightly(TWO, "fake:build", "fake_xla", Status.UNSUPPORTED_OP, "FakeWork has no Conv2D"),
    ],
)
def test_what_goes_wrong_in_a_mode_or_a_backend_is_its_outcome_and_ends_no_other(
    modes: str, fault: str, failed: str, status: Status, says: str, tmp_path: Path
) -> None:
    done, record = measured(tmp_path, modes, fault=fault)
    assert done.returncode == 1, done.stderr
    outcomes = record["modes"]
    (other,) = outcomes.keys() - {failed}
    assert (outcomes[failed]["status"], outcomes[other]["status"]) == (status, Status.OK)
    assert says in outcomes[failed]["failure"]["message"]
    if status is Status.WRONG_RESULT:
        assert " NO " in done.stdout
    if fault.endswith("late"):
        assert outcomes[failed]["agreement"]["ok"], "its first calls were right"
    if status is Status.CRASHED:
        logs = "".join(path.read_text() for path in tmp_path.glob("results/logs/*/*.log"))
        assert "Fatal Python error: Segmentation fault" in logs


@pytest.fixture(scope="module")
def of_a_slow_start(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Any]:
    """Events and record of a trial whose first calls are slow."""
    cwd = tmp_path_factory.mktemp("slow")
    done, record = measured(cwd, ONE, fault="fake_xla:slow_start", ui="json")
    assert done.returncode == 0, done.stderr
    return done, record


def test_a_mode_that_was_still_warming_up_is_measured_again(
    of_a_slow_start: tuple[Done, Any],
) -> None:
    outcome = of_a_slow_start[1]["modes"]["fake_xla"]
    assert sum(span > 19e6 for span in outcome["warmup_block_ns"]) > 12
    assert min(outcome["warmup_block_ns"]) < 20e6, (
        "a slow call sleeps for 20 ms: they were over before the rounds, however busy a core is"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("modes=[fake_graph] onednn=true", "onednn: FakeWork has no such option; leave it out"),
        (
            "modes=[fake_graph] xla_flags.xla_a=1",
            "xla_flags: FakeWork has no such option; leave it out",
        ),
        (
            "modes=[graph,fake_xla] threads.intra=1",
            "threads.intra: FakeWork has no such option; leave it out",
        ),
        ("explain modes=[fake_graph,fake_xla]", "explain: FakeWork explains no model"),
        (
            "explain modes=[fake_xla,graph,xla]",
            "explain: modes of tensorflow and fake: a model is explained on one backend; "
            "give backend=tensorflow or backend=fake in place of modes",
        ),
    ],
)
def test_what_a_backend_does_not_have_is_refused_in_a_line(
    words: str, says: str, tmp_path: Path
) -> None:
    done = run(*words.split(), *TRIAL, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"xla-sweeps: {says}\n"
    assert not (tmp_path / "results").exists()


def test_the_roles_of_its_modes_tell_caveats_and_the_share_of_its_input(tmp_path: Path) -> None:
    modes = "fake_input,fake_graph,fake_xla,fake_fit_graph,fake_fit_xla"
    done, _ = measured(tmp_path, modes, "scenario=fit")
    shown = " ".join(done.stdout.split())
    assert "Its input pipeline alone gives" in shown
    assert "This pipeline only hands over batches of drawn values from memory" in shown
    done, _ = measured(tmp_path, "fake_eager,fake_xla", "results_dir=saved/results")
    assert "Eager calls of a saved model run its graph." in " ".join(done.stdout.split())


def test_ui_json_writes_an_object_a_line_and_ends_with_the_result(
    of_a_slow_start: tuple[Done, Any],
) -> None:
    events = [json.loads(line) for line in of_a_slow_start[0].stdout.splitlines()]
    names = [event["event"] for event in events]
    assert (names[0], names[-1]) == ("start", "end")
    assert {"stage", "rounds", "saved"} <= set(names)
    end = events[-1]
    assert end["exit_code"] == 0
    assert [Path(path).is_file() for path in end["records"]] == [True]
    assert "replicate" in end["text"]
    assert [mode["label"] for mode in end["summary"]["modes"]]
