"""Death at every fault point of trial and driver: no acknowledged record is lost or duplicated."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from driving import Notes, alive_in, counted, gone, start
from paths import SUPPORT
from programs import run_program
from quick_sweep import quick_launch
from wandb_server import wandb_server

from xla_sweeps.cli.check import examine
from xla_sweeps.schema.measurement import Status
from xla_sweeps.store.rows import load_runs
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.compose import Composer
from xla_sweeps.sweeps.driver import Driver
from xla_sweeps.sweeps.launchers.local import LocalLauncher
from xla_sweeps.sweeps.launchers.slots import Slot
from xla_sweeps.sweeps.plan import assign_records
from xla_sweeps.system.devices import devices

REPETITIONS = int(os.environ.get("FAULT_REPETITIONS", "1"))

PUSH = "import faults; from xla_sweeps.__main__ import main; main()"

FAKE = (sys.executable, str(SUPPORT / "fake_trial.py"))

IN_DRIVER = ("plan.loaded", "driver.submit", "driver.ended")

IN_QUICK_TRIAL = (
    "worker.import",
    "claim.before",
    "claim.after",
    "claim.release",
    "supervisor.result",
    "store.opened",
    "store.written",
    "store.synced",
    "store.linked",
    "store.folder_synced",
)

STAGES = ("import", "build", "trace", "compile", "verify", "warmup", "block", "finished")

IN_REAL_TRIAL = ("spawn.before", "spawn.after", *(f"worker.{stage}" for stage in STAGES))

IN_PUSH = ("push.before", "push.after", "push.marked")

RAISED = ("store.written",)
"""Points whose exceptions are tried daily."""

KILLED = ("driver.ended", "claim.after", "store.written", "store.linked")
"""Points at which a death is tried daily; the others, nightly."""


def nightly_unless(daily: bool, *values: str) -> Any:
    """A case that is only tried nightly, unless it is one of every day."""
    return pytest.param(*values, marks=() if daily else pytest.mark.exhaustive)


TRIALS = [f"t{number:06d}" for number in range(3)]


def acknowledged(log: Path) -> set[tuple[str, int]]:
    lines = log.read_text().splitlines() if log.exists() else []
    return {(line.split()[0], int(line.split()[1])) for line in lines}


@pytest.mark.parametrize(
    ("point", "action"),
    [
        nightly_unless(point in (KILLED if action == "kill" else RAISED), point, action)
        for point in (*IN_DRIVER, *IN_QUICK_TRIAL)
        for action in ("kill", "raise")
    ],
)
def test_death_at_a_point_neither_loses_nor_duplicates_a_record(
    point: str, action: str, tmp_path: Path
) -> None:
    for repetition in range(REPETITIONS):
        results, log = tmp_path / f"r{repetition}", tmp_path / f"ack{repetition}"
        fault = {
            "XLA_SWEEPS_FP": f"{point}:{action}:1:{tmp_path / f'once{repetition}'}",
            "ACK": str(log),
            "IDS": "3",
        }
        sweep = start(results, slots=2, **fault)
        output, _ = sweep.communicate(timeout=300)
        assert gone(results), alive_in(results)
        assert (tmp_path / f"once{repetition}").exists(), "the fault was injected"
        final = set(counted(results))
        assert acknowledged(log) <= {(trial, number) for trial in final for number in range(9)}, (
            output
        )
        if sweep.returncode:
            output = start(results, ACK=str(log), IDS="3").finish()
            measured = {
                line.split("id=")[1].split()[0] for line in output.splitlines() if " end " in line
            }
            assert measured == set(TRIALS) - final, "exactly what was missing"
        kept = {trial: counts["ok"] for trial, counts in counted(results).items()}
        assert kept == dict.fromkeys(TRIALS, 1)
        assert examine(results).problems == []


def real_sweep(
    results: Path, monkeypatch: pytest.MonkeyPatch, *given: str, **environ: str
) -> list[str]:
    """One trial of the real command with a scripted measuring process, under the real driver."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    words = ("model=mobilenet_v2", "modes=[graph,xla]", "tracker=none", f"results_dir={results}")
    composer = Composer([*words, *given], slots=[Slot(name="cpu", device=devices()[-1])])
    task = composer.task({})
    store, notes = Store(results), Notes()
    store.check_writable()
    assign_records([task], load_runs(store), software=composer.software, retry=())
    launcher = LocalLauncher(quick_launch(1, command=FAKE))
    Driver(launcher, store, notes, extra=["ui=plain"], logs=results / "logs").run([task])
    return [outcome for _, outcome in notes.ends]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "action"),
    [(point, action) for point in IN_REAL_TRIAL for action in ("kill", "raise")],
)
@pytest.mark.exhaustive
def test_death_in_or_around_the_measuring_process_is_one_record_and_is_retried(
    point: str, action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = real_sweep(
        tmp_path / "r", monkeypatch, XLA_SWEEPS_FP=f"{point}:{action}:1:{tmp_path / 'once'}"
    )
    assert (tmp_path / "once").exists(), "the fault was injected"
    outcomes = [run.outcome for run in load_runs(Store(tmp_path / "r")).all()]
    if (point, action) == ("worker.build", "raise"):  # the model's own error, which is a result
        assert outcomes == [Status.BUILD_ERROR]
        assert ends == ["build_error"]
    else:
        assert outcomes.count(Status.OK) == 1
        assert len(outcomes) <= 2
        assert ends[-1] == "ok"
    assert examine(tmp_path / "r").problems == []


@pytest.mark.slow
@pytest.mark.exhaustive
def test_every_fault_point_is_reached_by_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "passed"
    with wandb_server() as server:
        for name, value in server.environment(HOME=str(tmp_path / "home")).items():
            monkeypatch.setenv(name, value)
        real_sweep(tmp_path / "r", monkeypatch, XLA_SWEEPS_FP_LOG=str(log))
        run_program(sys.executable, "-c", PUSH, "push", tmp_path / "r", cwd=SUPPORT)
    assert set(log.read_text().split()) == {*IN_DRIVER, *IN_QUICK_TRIAL, *IN_REAL_TRIAL, *IN_PUSH}


@pytest.mark.exhaustive
def test_a_hang_is_stopped_by_its_timeout_and_the_sweep_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = real_sweep(
        tmp_path / "r",
        monkeypatch,
        "timeouts.measure=8",  # which the next attempt must not need on a busy machine
        XLA_SWEEPS_FP=f"worker.block:hang:1:{tmp_path / 'once'}",
    )
    assert ends == ["timeout", "ok"]
    (counts,) = counted(tmp_path / "r").values()
    assert counts == {"timeout": 1, "ok": 1}
