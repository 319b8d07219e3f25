"""A replicate waits for its device and for quiet, with no deadline, until it is stopped."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from conducting import Notes, QuietMachine, conduct

from xla_sweeps.schema.measurement import Status
from xla_sweeps.system.leases import Leases
from xla_sweeps.system.process import Stop
from xla_sweeps.trial import monitor

STAGE_S, WAIT_S = 2.0, 3.0
"""A deadline that a busy machine keeps, and a longer wait."""


def test_a_replicate_waits_for_the_device_and_says_for_whom_and_no_deadline_runs(
    tmp_path: Path,
) -> None:
    with Leases(["core-0"], holder="the other trial") as other:
        assert other.take() == ""

        def close_soon(kind: str, value: Any) -> None:
            if kind == "waiting":
                threading.Timer(WAIT_S, other.close).start()

        notes = Notes(close_soon)
        leases = Leases(["core-0"], holder="mine")
        result = conduct(tmp_path, notes=notes, leases=leases, warmup_s=STAGE_S)
    assert result.finished
    assert notes.of("waiting") == [f"for its turn, after the other trial (pid {os.getpid()})"]


def test_a_replicate_waits_for_quiet_and_says_what_contaminates_and_no_deadline_runs(
    tmp_path: Path,
) -> None:
    notes = Notes()
    busy = ["others use 1.4 of 2 cores (python)"] * 7 + ["others use 0.9 of 2 cores"]
    machine = QuietMachine(disturbances=busy)
    result = conduct(tmp_path, notes=notes, machine=machine, quiet_s=60, warmup_s=STAGE_S)
    assert result.finished
    assert notes.of("contaminated") == [
        "for quiet: others use 1.4 of 2 cores (python), at most 60 s"
    ]
    assert not machine.disturbances
    assert WAIT_S <= result.contamination["waited_s"] < 60


def test_a_wait_for_quiet_ends_after_its_limit_and_can_be_stopped(tmp_path: Path) -> None:
    machine = QuietMachine(disturbances=["others use 2 of 2 cores"] * 1000)
    result = conduct(tmp_path, machine=machine, quiet_s=1)
    assert result.finished
    assert result.contamination["waited_s"] == 1.0

    with Stop() as stop:

        def stop_it(kind: str, value: Any) -> None:
            if kind == "contaminated":
                stop.request()

        stopped = conduct(tmp_path, machine=machine, notes=Notes(stop_it), stop=stop, quiet_s=600)
    assert stopped.status is Status.INTERRUPTED
    assert not stopped.rounds


def test_preparing_between_two_waits_is_no_wait_for_quiet(tmp_path: Path) -> None:
    """Of a sweep that prepares ahead: it compiles in its turn, and looks again before it times."""

    def react(kind: str, value: Any) -> None:
        if kind == "stage" and value[:2] == ("compile", "xla"):
            time.sleep(STAGE_S)

    machine = QuietMachine(disturbances=["others use 2 of 2 cores"])
    with Leases(["core-0"], holder="mine", shared=True) as mine:
        assert mine.take() == ""
        notes = Notes(react)
        result = conduct(tmp_path, notes=notes, machine=machine, leases=mine, quiet_s=60)
    assert result.finished
    assert ("compile", "xla", "") in notes.of("stage")
    assert 0 < result.contamination["waited_s"] < STAGE_S


def test_a_replicate_that_waits_for_the_device_can_be_stopped(tmp_path: Path) -> None:
    with Leases(["core-0"], holder="other") as other, Stop() as stop:
        other.take()

        def stop_it(kind: str, value: Any) -> None:
            if kind == "waiting":
                stop.request()

        leases = Leases(["core-0"], holder="mine")
        result = conduct(tmp_path, notes=Notes(stop_it), leases=leases, stop=stop)
    assert result.status is Status.INTERRUPTED


def test_a_trial_prepares_and_compiles_beside_others_and_measures_alone(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    with (
        Leases(["core-0"], holder="other", shared=True) as other,
        Leases(["core-0"], holder="mine", shared=True) as mine,
    ):
        assert other.take() == mine.take() == ""

        def react(kind: str, value: Any) -> None:
            if kind == "waiting" and not seen:
                seen.append([stage for stage, _, _ in notes.of("stage")])
                threading.Timer(WAIT_S, other.close).start()

        notes = Notes(react)
        result = conduct(tmp_path, notes=notes, leases=mine, compile_s=STAGE_S, warmup_s=STAGE_S)
        assert mine.shared, "another one may measure while it ends"
    assert result.finished
    assert seen == [["build", *["compile", "verify"] * 2]]
    assert result.seconds["turns"] > WAIT_S - 0.1
    assert result.seconds["prepare"] + result.seconds["measure"] < result.seconds["turns"]


def test_a_trial_that_waits_for_its_turn_can_be_stopped_and_its_processes_rest(
    tmp_path: Path,
) -> None:
    machine, used_ns = QuietMachine(), list[int]()
    with (
        Leases(["core-0"], holder="other", shared=True) as other,
        Leases(["core-0"], holder="mine", shared=True) as mine,
        Stop() as stop,
    ):
        assert other.take() == mine.take() == ""

        def stop_later() -> None:
            used_ns.append(monitor.cpu_ns(machine.pids))
            stop.request()

        def react(kind: str, value: Any) -> None:
            if kind == "waiting":
                used_ns.append(monitor.cpu_ns(machine.pids))
                threading.Timer(STAGE_S, stop_later).start()

        result = conduct(tmp_path, machine=machine, notes=Notes(react), leases=mine, stop=stop)
    assert result.status is Status.INTERRUPTED
    assert not result.rounds
    assert used_ns[1] - used_ns[0] < 1e-3 * STAGE_S * 1e9
