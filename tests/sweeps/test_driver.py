"""The driver with thousands of no-op trials: retries, resuming, giving up, and deaths."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from driving import Notes, counted, drive, gone, start, wait_for_claims
from ended import wait_for
from quick_sweep import quick_launch, task, tasks_of
from quick_trial import record

from xla_sweeps.schema.measurement import Status
from xla_sweeps.store.claim import claim_trial
from xla_sweeps.store.rows import load_runs
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps import backlog as backlog_module
from xla_sweeps.sweeps import outcomes
from xla_sweeps.sweeps.backlog import Backlog
from xla_sweeps.sweeps.driver import Driver
from xla_sweeps.sweeps.launchers.job import Ended, Job
from xla_sweeps.sweeps.launchers.local import STOP_GRACE_S, LocalLauncher
from xla_sweeps.sweeps.plan import assign_records

PLACES = [{"slots": 1, "AHEAD": "1"}, pytest.param({"slots": 2}, marks=pytest.mark.exhaustive)]
"""One device on which a second trial prepares ahead, or two."""


@pytest.mark.parametrize(
    ("how", "word", "detail"),
    [
        ("exit0", "infra", "ended without a record"),
        ("term", "infra", "SIGTERM"),
        ("exit2", "refused", "its last words"),
        ("die", "died", "its process died 2 times; SIGKILL"),
    ],
)
def test_only_a_death_is_called_one_and_every_failure_has_its_reason(
    how: str, word: str, detail: str, tmp_path: Path
) -> None:
    outcome, notes = drive(tmp_path, f"a={how}", "b=ok", slots=2)
    assert outcome.counts == {"ok": 1, word: 1}
    tries = {"infra": 3, "refused": 1, "died": 2}[word]
    assert Counter(notes.ends) == {("a", word): tries, ("b", "ok"): 1}
    assert outcome.gave_up["a"].endswith(detail)


def test_a_trial_whose_process_finds_another_id_for_it_is_measured_as_often_as_wanted(
    tmp_path: Path,
) -> None:
    """The settings of its device may have changed since the sweep was planned."""
    tasks = tasks_of(tmp_path, ["a=ok*2"])
    tasks[0].trial_ids = ("planned",)
    outcome, notes = drive(tmp_path, slots=1, tasks=tasks)
    assert outcome.counts == {"ok": 1}
    assert notes.ends == [("a", "ok")] * 2
    assert counted(tmp_path) == {"a": {"ok": 2}}


def test_a_trial_that_is_always_measured_already_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xla_sweeps.sweeps.outcomes.LOCKED_WAIT_S", 0.1)
    Store(tmp_path).save(record("a", "ok", {}))
    tasks = tasks_of(tmp_path, ["a=ok", "b=ok"])
    tasks[0].trial_ids = ("planned",)
    outcome, notes = drive(tmp_path, slots=1, tasks=tasks)
    assert outcome.counts == {"ok": 1, "infra": 1}
    assert Counter(notes.ends) == {("a", "locked"): 2, ("a", "infra"): 1, ("b", "ok"): 1}
    assert "already measured by another process" in outcome.gave_up["a"]


def test_a_trial_that_hangs_as_a_whole_is_killed_and_the_sweep_goes_on(tmp_path: Path) -> None:
    tasks = tasks_of(tmp_path, ["a=stop", "b=ok"])
    tasks[0].silent_s = 1.0
    outcome, _ = drive(tmp_path, slots=1, tasks=tasks)
    assert outcome.counts == {"ok": 1, "infra": 1}
    assert "hung: not a line for 1 s" in outcome.gave_up["a"]
    assert gone(tmp_path)


@pytest.mark.parametrize("error", [ValueError("embedded null byte"), OSError(28, "No space left")])
def test_a_job_that_cannot_start_is_an_error_of_that_job_and_never_a_wait(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("xla_sweeps.system.process.subprocess.Popen", broken)
    outcome, notes = drive(tmp_path, "a=ok", "b=ok", slots=1)
    words = [word for _, word in notes.ends]
    assert words.count("infra") >= 3, "the breaker stops after three"
    assert set(words) <= {"infra", "stopped"}, "one may have been on its way"
    assert "cannot start" in outcome.broken
    assert counted(tmp_path) == {}


def test_a_trial_that_another_process_measures_is_not_started_beside_it(tmp_path: Path) -> None:
    started = []
    launcher = LocalLauncher(quick_launch(2))
    original = launcher.submit

    def submit(job: Job) -> Future[Ended]:
        started.append(job.arguments[0])
        if job.arguments[0] == "id=b":
            claim.__exit__(None, None, None)
        return original(job)

    launcher.submit = submit  # type: ignore[method-assign]
    claim = claim_trial(tmp_path, "a")
    claim.__enter__()
    outcome, _ = drive(tmp_path, "a=ok", "b=ok", launcher=launcher)
    assert started == ["id=b", "id=a"]
    assert outcome.counts == {"ok": 2}


def test_a_sweep_in_which_every_trial_dies_stops_by_itself(tmp_path: Path) -> None:
    outcome, notes = drive(tmp_path, *(f"t{number}=die" for number in range(40)), slots=1)
    assert outcome.broken.startswith("cpu:0 failed 3 times in a row")
    assert len(notes.ends) == 3
    assert len(outcome.left) == 40


def test_anchors_are_measured_at_the_start_on_schedule_and_at_the_end_on_every_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog_module, "ANCHORS_EVERY_S", 1.5)  # less than a slow trial takes
    anchors = [task(f"anchor{number}", "ok", tmp_path) for number in range(2)]
    trials = ("a=slow", "b=slow", "c=ok", "d=ok", "e=ok", "f=ok")
    outcome, notes = drive(tmp_path, *trials, backlog=Backlog([[one] for one in anchors]))
    assert outcome.counts == {"ok": 6}
    for slot in ("cpu:0", "cpu:1"):
        order = [
            name
            for (name, _), where in zip(notes.ends, notes.where_ended, strict=True)
            if where == slot
        ]
        assert order[0] == order[-1] == "anchor"
    assert all(counted(tmp_path)[name]["ok"] >= 3 for name in ("anchor0", "anchor1")), (
        "start, between, end"
    )


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        signal.SIGTERM,
        *(
            pytest.param(number, marks=pytest.mark.exhaustive)
            for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU)
        ),
    ],
)
@pytest.mark.parametrize("place", PLACES)
def test_a_signal_saves_the_running_trials_and_the_rest_is_measured_on_resume(
    number: signal.Signals, place: dict[str, Any], tmp_path: Path
) -> None:
    sweep = start(tmp_path, "a=ok", "b=sleep", "c=sleep", "d=ok", **place)
    wait_for_claims(tmp_path, "b", "c")
    begun = time.monotonic()
    sweep.send_signal(number)
    output, _ = sweep.communicate(timeout=120)
    assert time.monotonic() - begun < STOP_GRACE_S
    assert sweep.returncode == 128 + number
    assert "stopping: running trials are being saved" in output
    assert counted(tmp_path)["b"] == {"interrupted": 1}
    assert "Traceback" not in output
    assert gone(tmp_path)
    again, _ = drive(tmp_path, "a=ok", "b=sleep+ok", "c=sleep+ok", "d=ok")
    assert again.counts == {"ok": 4}
    assert counted(tmp_path)["a"] == {"ok": 1}


@pytest.mark.parametrize("place", PLACES)
def test_a_second_signal_ends_everything_at_once(place: dict[str, Any], tmp_path: Path) -> None:
    sweep = start(tmp_path, "a=hang", "b=hang", **place)
    wait_for_claims(tmp_path, "a", "b")
    begun = time.monotonic()
    sweep.send_signal(signal.SIGINT)
    assert sweep.stdout is not None
    assert any("press Ctrl-C again to kill them" in line for line in sweep.stdout)
    sweep.send_signal(signal.SIGINT)
    sweep.finish(130, timeout=120)
    assert gone(tmp_path)
    assert time.monotonic() - begun < STOP_GRACE_S, "before the grace has ended"


@pytest.mark.parametrize("place", PLACES)
def test_when_the_driver_is_killed_its_trials_end_and_a_rerun_completes_the_rest(
    place: dict[str, Any], tmp_path: Path
) -> None:
    sweep = start(tmp_path, "x=sleep", IDS="12", **place)
    wait_for(lambda: len(list((tmp_path / "records").glob("*/*.json"))) >= 3)
    sweep.kill()
    sweep.communicate()
    assert gone(tmp_path)
    before = counted(tmp_path)
    names = [f"t{number:06d}=ok" for number in range(12)]
    _, notes = drive(tmp_path, "x=sleep+ok", *names)
    planned = {name.partition("=")[0] for name in names} - set(before)
    assert {name for name, _ in notes.ends} - {"x"} == planned
    assert all(counts == {"ok": 1} for trial, counts in counted(tmp_path).items() if trial != "x")


def test_records_that_others_add_are_counted_once_beside_the_known_ones(tmp_path: Path) -> None:
    store, notes = Store(tmp_path), Notes()
    store.save(record("a", "contaminated", {}))
    store.save(record("a", "ok", {}))
    tasks = tasks_of(tmp_path, ["a=ok*3"])
    assign_records(tasks, load_runs(store), software={}, retry=())
    earlier = replace(record("a", "ok", {}), started_at="2025-01-01T00:00:00+00:00")
    store.save(earlier)  # somebody else's, saved after the plan, whenever it was begun
    driver = Driver(LocalLauncher(quick_launch(1)), store, notes, extra=(), logs=tmp_path / "logs")
    driver.run(tasks)
    assert counted(tmp_path) == {"a": {"contaminated": 1, "ok": 3}}
    assert tasks[0].outcomes == [Status.OK] * 3, (
        "what was weak before the sweep does not count again"
    )
    assert len(tasks[0].seen) == 4
    assert notes.ends == [("a", "ok")]


class Holding(LocalLauncher):
    """A launcher that a signal interrupts while it holds its lock."""

    signalled = False

    def free(self, accelerator: str | None, slot: str | None = None) -> int:
        with self._lock:
            if not self.signalled and self._running:
                self.signalled = True
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.05)  # the handler runs here, in the thread that holds the lock
        return super().free(accelerator, slot)


@pytest.mark.timeout(300)
def test_a_signal_during_a_lock_stops_the_sweep_too(tmp_path: Path) -> None:
    trials = [f"t{number}=ok" for number in range(50)]
    outcome, _ = drive(tmp_path, *trials, launcher=Holding(quick_launch(2)))
    assert outcome.signal_number == signal.SIGTERM
    assert outcome.left


def test_a_full_disk_pauses_the_sweep_rather_than_fail_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "SPACE_WAIT_S", 3600.0)  # between warnings; nothing sleeps so
    real, asked = os.statvfs, [0]

    class Full:
        f_bavail, f_frsize = 0, 4096

    def statvfs(path: object) -> object:
        asked[0] += 1
        return Full() if asked[0] <= 3 else real(path)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "statvfs", statvfs)
    outcome, notes = drive(tmp_path, "a=ok", "b=ok")
    assert outcome.counts == {"ok": 2}
    assert sum("The sweep is paused until then" in line for line in notes.warnings) == 1


def test_several_drivers_share_a_sweep_and_measure_nothing_twice(tmp_path: Path) -> None:
    count = 6
    log = tmp_path / "ack"
    results = tmp_path / "r"
    sweeps = [start(results, slots=1, IDS=str(count), ACK=str(log)) for _ in range(2)]
    for sweep in sweeps:
        output = sweep.finish()
        assert json.loads(output.rpartition("counts ")[2]) == {"ok": count}
    assert counted(results) == {f"t{number:06d}": {"ok": 1} for number in range(count)}
    assert len(log.read_text().splitlines()) == count


def test_records_of_other_processes_are_read_before_a_trial_is_started(tmp_path: Path) -> None:
    store, notes = Store(tmp_path), Notes()
    tasks = tasks_of(tmp_path, ["a=ok", "b=ok"])
    assign_records(tasks, load_runs(store), software={}, retry=())
    store.save(record("b", "ok", {}))
    driver = Driver(LocalLauncher(quick_launch(1)), store, notes, extra=(), logs=tmp_path / "logs")
    driver.run(tasks)
    assert notes.ends == [("a", "ok")]
