"""The display of a running sweep: progress, the time left, and a busy machine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from driving import Notes, drive, judge_of
from factories import failed_outcome, make_outcome, make_record
from quick_sweep import quick_launch, tasks_of
from quick_trial import record

from xla_sweeps.schema.measurement import Round, Status
from xla_sweeps.sweeps.backlog import Backlog
from xla_sweeps.sweeps.launchers.job import Job
from xla_sweeps.sweeps.launchers.local import LocalLauncher
from xla_sweeps.sweeps.outcomes import Run
from xla_sweeps.sweeps.progress import Progress, figure_of


def test_the_number_of_trials_is_shown_before_the_first_ends(tmp_path: Path) -> None:
    _, notes = drive(tmp_path, "a=ok", slots=1)
    assert notes.reports == [(0, 1), (1, 1)]


STEAL = "the hypervisor took 15% of the CPU"

AGAIN = "; open ones are measured once more; --accept-contaminated keeps them"


@pytest.mark.parametrize(
    ("cause", "accepted", "said"),
    [
        ("", (Status.OK,), f"1 of 1 contaminated{AGAIN}"),
        (STEAL, (Status.OK,), f"1 of 1 contaminated: {STEAL}{AGAIN}"),
        (STEAL, (Status.OK, Status.CONTAMINATED), f"1 of 1 contaminated: {STEAL}"),
    ],
    ids=["no cause", "a cause", "accepted"],
)
def test_contaminated_trials_are_told_with_their_cause_and_what_follows(
    tmp_path: Path, cause: str, accepted: tuple[Status, ...], said: str
) -> None:
    launcher, backlog, notes = LocalLauncher(quick_launch(1)), Backlog(), Notes()
    judge = judge_of(launcher, backlog)
    progress = Progress(notes, launcher, backlog, judge, {})
    (task,) = tasks_of(tmp_path, ["a=contaminated"])
    task.accepted = accepted
    task.outcomes = [Status.CONTAMINATED]
    backlog.extend([task])
    rounds = (Round(round=0, order=(), blocks=(), dirty=cause),)
    measured = replace(record("a", "contaminated", {}), rounds=rounds)
    run = Run(task, Job(arguments=task.words, log=tmp_path / "log"), known=frozenset(), started=0.0)
    progress.show_end(run, "contaminated", [measured])
    progress.report({})
    assert notes.busy_with == [said]


def test_a_trial_that_has_some_of_its_replicates_is_told_as_begun(tmp_path: Path) -> None:
    launcher, backlog, notes = LocalLauncher(quick_launch(1)), Backlog(), Notes()
    progress = Progress(notes, launcher, backlog, judge_of(launcher, backlog), {})
    begun, fresh, done = tasks_of(tmp_path, ["a=ok", "b=ok", "c=ok"])
    begun.wanted, fresh.wanted, done.wanted = 2, 3, 0
    begun.outcomes, done.outcomes = [Status.OK], [Status.OK] * 3
    backlog.extend([begun, fresh, done])
    progress.report({})
    assert notes.reports == [(1, 3)]
    assert notes.counts == [{"missing": 2, "ok": 1, "begun": 1}]


def test_the_time_that_an_anchor_took_says_nothing_of_the_trials(tmp_path: Path) -> None:
    anchor, trial = tasks_of(tmp_path, ["a=ok", "b=ok"])
    launcher, backlog = LocalLauncher(quick_launch(1)), Backlog([[anchor]])
    backlog.extend([trial])
    progress = Progress(Notes(), launcher, backlog, judge_of(launcher, backlog), {})
    for task, is_known in ((anchor, False), (trial, True)):
        job = Job(arguments=task.words, log=tmp_path / "log")
        run = Run(task, job, known=frozenset(), started=0.0)
        progress.show_end(run, "ok", [record("a", "ok", {})])
        assert (progress.left_s({}) is not None) == is_known


def test_the_time_left_counts_repetitions_of_a_busy_machine(tmp_path: Path) -> None:
    launcher, backlog = LocalLauncher(quick_launch(1)), Backlog()
    judge = judge_of(launcher, backlog)
    progress = Progress(Notes(), launcher, backlog, judge, {"m": 10.0})
    fresh, tried, kept = tasks_of(tmp_path, ["a=ok", "b=ok", "c=ok"])
    for task in (fresh, tried, kept):
        task.wanted = 1
    tried.outcomes = [Status.CONTAMINATED]
    kept.accepted = (Status.OK, Status.CONTAMINATED)
    backlog.extend([fresh, tried, kept])
    assert progress.left_s({}) == pytest.approx((27.0, 33.0))
    progress._measured, progress._contaminated = 6, 3
    assert progress.left_s({}) == pytest.approx((9 * 3.5, 11 * 3.5))
    progress._contaminated = 6
    assert progress.left_s({}) == pytest.approx((36.0, 44.0)), "two attempts, one and one"


def test_trials_that_prepare_ahead_are_not_expected_to_take_half_the_time(tmp_path: Path) -> None:
    """What a trial took before has no waits in it, and each measures alone."""
    left = []
    for ahead in (0, 1):
        launcher, backlog = LocalLauncher(quick_launch(2, ahead=ahead)), Backlog()
        progress = Progress(Notes(), launcher, backlog, judge_of(launcher, backlog), {"m": 10.0})
        tasks = tasks_of(tmp_path, [f"t{number}=ok" for number in range(4)])
        for task in tasks:
            task.wanted, task.accepted = 1, (Status.OK, Status.CONTAMINATED)
        backlog.extend(tasks)
        left.append(progress.left_s({}))
    assert left[0] == left[1] == pytest.approx((18.0, 22.0))


def test_a_finished_job_has_its_speedup_and_a_failed_one_none() -> None:
    assert re.fullmatch(r"2\.\d\d× \([12]\.\d\d–2\.\d\d\)", figure_of([make_record(noise=0.01)]))
    assert figure_of([make_record({"xla": 0.1})]) == "40/s"
    failed = {"graph": make_outcome(), "xla": failed_outcome(Status.COMPILE_ERROR)}
    assert figure_of([make_record({"graph": 0.1}, modes=failed)]) == ""
    assert figure_of([]) == ""
