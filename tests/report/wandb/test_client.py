"""The helper process of a W&B run: it delays nothing, and leaves no process."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from ended import freeze, processes, wait_until
from paths import ROOT, SUPPORT
from wandb_runs import FIRST, header, inspected, marked
from wandb_server import WandbServer

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report.wandb.client import MODULE, Helper
from xla_sweeps.report.wandb.tracker import ACK_S, offline_tracker


def waits_for(helper: Helper, patch: pytest.MonkeyPatch) -> list[float]:
    """The longest wait for each answer of a helper, seconds; extended by each request."""
    answer, waits = helper.answer, list[float]()

    def noted(number: int, timeout_s: float) -> dict[str, Any] | None:
        waits.append(timeout_s)
        return answer(number, timeout_s)

    patch.setattr(helper, "answer", noted)
    return waits


def test_logging_waits_once_for_a_helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = offline_tracker()
    monkeypatch.setattr("xla_sweeps.report.wandb.tracker.ACK_S", 0.2)
    tracker._helper, tracker._header = Helper(tmp_path / "log"), header(tmp_path)
    order = tracker._helper.order
    monkeypatch.setattr(tracker._helper, "order", lambda name, **arguments: None)
    waits = waits_for(tracker._helper, monkeypatch)
    for _ in range(20):
        tracker.log_rounds(0, FIRST.rounds, batch_size=4)
    assert waits == [0.2]
    order("finish", summary={}, histograms={}, exit_code=0)
    tracker._helper.end()


def descriptors() -> list[str]:
    """Open descriptors of this process."""
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def test_a_helper_that_cannot_be_started_leaves_no_file_and_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    monkeypatch.setattr(subprocess, "Popen", mock.Mock(side_effect=full))
    before = descriptors()
    with pytest.raises(BlockingIOError):
        Helper(tmp_path / "wandb" / "log")
    assert descriptors() == before
    assert list((tmp_path / "wandb").iterdir()) == [tmp_path / "wandb" / "log"]


PARENT = """
import sys, time
from pathlib import Path
from xla_sweeps.report.wandb.client import Helper
Helper.__init__.__kwdefaults__["module"] = sys.argv[1]
from factories import TRIAL_ID, make_record
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.trial.tracking import run_header, tracker_named
record = make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1})
tracker = tracker_named(sys.argv[2])
device = {"device_kind": "cpu", "device_name": "Some CPU", "environment": {}}
place = {"trial_id": TRIAL_ID, "results_dir": Path(sys.argv[3])}
tracker.open(run_header(record.trial, record.tracker, **place, **device))
tracker.begin()
tracker.log_rounds(0, record.rounds, batch_size=4)
if sys.argv[4] == "finish":
    assert tracker.finish([record], summarize([record]), exit_code=0).complete
else:
    time.sleep(600)
"""


def finding() -> dict[str, str]:
    """This process's variables, and where the support of the tests is imported from."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(SUPPORT)])}


def test_a_stopped_helper_delays_nothing_and_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = offline_tracker()
    tracker.open(header(tmp_path, finish_timeout_s=1.0))
    tracker.begin()
    helper: Any = tracker._helper
    mark = helper._scratch.name
    assert wait_until(lambda: any("wandb-core" in line for line in marked(mark)))
    waits = waits_for(helper, monkeypatch)
    freeze(helper._process.pid)
    for _ in range(40):  # far more than a pipe holds
        tracker.log_rounds(0, FIRST.rounds, batch_size=4)
    report = tracker.finish([FIRST], summarize([FIRST]), exit_code=0)
    assert waits == [ACK_S, 1.0]
    assert not report.complete
    assert report.warnings == (
        "W&B: finishing the run timed out after 1 s; the records are safe, and `xla-sweeps push` "
        "uploads what is missing",
    )
    assert marked(mark) == set()


def test_a_run_leaves_no_process_and_prints_nothing(server: WandbServer, tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", PARENT, MODULE, "wandb", str(tmp_path / "r"), "finish"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": finding()}
    with subprocess.Popen(arguments, **pipes) as process:
        assert process.communicate() == (b"", b"")
    assert process.returncode == 0
    assert marked(f"-{process.pid}-") == set()
    assert server.run.exit_code == 0


@pytest.mark.parametrize(
    "name", ["wandb", pytest.param("wandb_offline", marks=pytest.mark.exhaustive)]
)
def test_when_the_command_is_killed_its_helper_finishes_the_run_and_exits(
    server: WandbServer, tmp_path: Path, name: str
) -> None:
    patient = "patient_client_process"
    arguments = [sys.executable, "-c", PARENT, patient, name, str(tmp_path / "r"), "wait"]
    parent = subprocess.Popen(arguments, env=finding())
    try:
        helpers = f"client_process {parent.pid} "
        assert wait_until(lambda: bool(list((tmp_path / "r" / "wandb").glob("*run-*/*.wandb"))))
        if name == "wandb":
            assert wait_until(
                lambda: bool(server.runs) and len(server.run.rows) == len(FIRST.rounds)
            )
    finally:
        parent.kill()
        parent.wait()
    assert wait_until(lambda: not processes(helpers))
    if name == "wandb":
        assert server.run.exit_code == 137
    else:
        assert sum(entry["type"] == "history" for entry in inspected(tmp_path / "r")) == len(
            FIRST.rounds
        )
