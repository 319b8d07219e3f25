"""Ends of jobs: their records are collected, and their trials retried or given up.

On a cluster, which chooses devices itself and copies records back; this one ends jobs as told.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import driving
import pytest
from driving import Notes, counted, judge_of
from factories import make_contaminated
from quick_sweep import quick_launch, tasks_of
from quick_trial import record

from xla_sweeps.errors import StoreError
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.store.claim import claim_trial
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps import outcomes
from xla_sweeps.sweeps.launchers import Launcher
from xla_sweeps.sweeps.launchers.job import End, Ended, Job
from xla_sweeps.sweeps.launchers.local import LocalLauncher
from xla_sweeps.sweeps.outcomes import Outcome


class Cluster(Launcher):
    """Runs nothing.

    Args:
        answer: how the job of a trial ends, at its n-th attempt; None: not before it is stopped.
        slots: jobs that it takes at once.
    """

    name = "cluster"

    def __init__(self, answer: Callable[[str, int], Ended | None], *, slots: int = 100) -> None:
        self._answer, self._slots = answer, slots
        self._running: list[Future[Ended]] = []
        self.attempts: Counter[str] = Counter()
        self.jobs: dict[str, Future[Ended]] = {}

    def slots(self) -> list[str]:
        return ["n0", "n1"]

    def free(self, accelerator: str | None, slot: str | None = None) -> int:
        return self._slots - sum(not future.done() for future in self._running)

    def submit(self, job: Job) -> Future[Ended]:
        trial = job.arguments[0].removeprefix("id=")
        self.attempts[trial] += 1
        ended = self._answer(trial, self.attempts[trial])
        future: Future[Ended] = Future()
        if ended is not None:
            future.set_result(ended)
        self._running.append(future)
        self.jobs[trial] = future
        return future

    def slot_of(self, future: Future[Ended]) -> str:
        return "" if future.done() else "n0"

    def stop(self, *, now: bool) -> None:
        for future in self._running:
            if not future.done():
                future.set_result(Ended(how=End.STOPPED, slot="n0"))

    def close(self) -> None:
        self.stop(now=True)


def drive(
    cluster: Cluster,
    store: Store,
    *arguments: str,
    notes: Notes | None = None,
    retry: Sequence[Status] = (),
) -> tuple[Outcome, Notes]:
    tasks = tasks_of(store.results_dir, list(arguments))
    options: dict[str, Any] = {"launcher": cluster, "store": store, "notes": notes}
    return driving.drive(store.results_dir, tasks=tasks, retry=retry, **options)


def measured(trial: str, count: int = 1, slot: str = "n0", status: str = "ok") -> Ended:
    return Ended(
        how=End.FINISHED, slot=slot, records=(record(trial, status, {}).to_json(),) * count
    )


def in_turn(**statuses: str) -> Cluster:
    """A cluster whose trials have these statuses, joined by `+`, one after the other."""

    def answer(trial: str, attempt: int) -> Ended:
        words = statuses[trial].split("+")
        return measured(trial, status=words[min(attempt, len(words)) - 1])

    return Cluster(answer, slots=1)


@pytest.mark.parametrize(
    ("how", "tried"),
    [
        ("ok", {"ok": 1}),
        ("unsupported_op", {"unsupported_op": 1}),
        ("wrong_result", {"wrong_result": 1}),
        ("build_error", {"build_error": 1}),
        ("oom_gpu", {"oom_gpu": 1}),
        ("compile_error", {"compile_error": 2}),
        ("crashed", {"crashed": 2}),
        ("killed", {"killed": 2}),
        ("timeout", {"timeout": 2}),
        ("oom_host", {"oom_host": 2}),
        ("contaminated", {"contaminated": 2}),
        ("crashed+ok", {"crashed": 1, "ok": 1}),
        ("contaminated+ok", {"contaminated": 1, "ok": 1}),
        ("infra+infra+ok", {"infra": 2, "ok": 1}),
    ],
)
def test_each_status_is_retried_as_often_as_the_policy_allows(
    how: str, tried: dict[str, int], tmp_path: Path
) -> None:
    outcome, _ = drive(in_turn(a=how), Store(tmp_path), "a=ok")
    assert counted(tmp_path) == {"a": tried}
    assert not outcome.left


def test_replicates_are_spread_over_the_sweep_rather_than_back_to_back(tmp_path: Path) -> None:
    _, notes = drive(in_turn(a="ok", b="ok"), Store(tmp_path), "a=ok*3", "b=ok*3")
    assert [name for name, _ in notes.ends] == ["a", "b", "a", "b", "a", "b"]


def test_the_same_sweep_again_only_retries_inconclusive_trials_unless_told_otherwise(
    tmp_path: Path,
) -> None:
    statuses = {"a": "ok", "b": "contaminated", "c": "build_error"}
    again = []
    for retry in ((), (), [Status.BUILD_ERROR]):
        trials = [f"{trial}=ok" for trial in "abc"]
        outcome, notes = drive(in_turn(**statuses), Store(tmp_path), *trials, retry=retry)
        assert outcome.counts == {"ok": 1, "contaminated": 1, "build_error": 1}
        again.append([name for name, _ in notes.ends])
    assert again == [["a", "b", "c", "b"], ["b", "b"], ["b", "c", "b"]]


def building(params_of: Callable[[int], int]) -> Cluster:
    """A cluster whose trials build a model of so many parameters at the n-th attempt."""

    def answer(trial: str, attempt: int) -> Ended:
        assert attempt < 20, "measured for ever"
        made = record(trial, "ok", {})
        made = replace(made, model=replace(made.model, params=params_of(attempt)))
        return Ended(how=End.FINISHED, slot="n0", records=(made.to_json(),))

    return Cluster(answer)


def test_a_model_that_changes_while_a_sweep_runs_is_measured_again(tmp_path: Path) -> None:
    cluster = building(lambda attempt: 1 if attempt < 3 else 2)
    drive(cluster, Store(tmp_path), "a=ok*3")
    assert cluster.attempts == {"a": 5}


def test_a_model_that_each_process_builds_otherwise_is_given_up(tmp_path: Path) -> None:
    cluster = building(lambda attempt: attempt)
    outcome, _ = drive(cluster, Store(tmp_path), "a=ok*2", "b=ok")
    assert cluster.attempts == {"a": 1 + outcomes.MAX_CHANGES, "b": 1}
    assert list(outcome.gave_up.values()) == [
        "its model changed 3 times: each process builds another, so its replicates cannot be pooled"
    ]


class Full(Store):
    """A store whose disk is full at some of the saves.

    Args:
        failing: the numbers of those saves, from 1.
    """

    def __init__(self, results_dir: Path, failing: range) -> None:
        super().__init__(results_dir)
        self.failing, self.saves = failing, 0

    def save(self, record: Record) -> tuple[Record, Path]:
        self.saves += 1
        if self.saves in self.failing:
            raise StoreError("cannot save the record: No space left on device")
        return super().save(record)


def test_records_that_do_not_fit_on_a_full_disk_are_kept_until_they_do(tmp_path: Path) -> None:
    store = Full(tmp_path, range(2, 5))
    cluster = Cluster(lambda trial, attempt: measured(trial, 2), slots=1)
    outcome, notes = drive(cluster, store, "a=ok*2", "b=ok*2")
    assert outcome.counts == {"ok": 2}
    assert counted(tmp_path) == {"a": {"ok": 2}, "b": {"ok": 2}}
    assert cluster.attempts == {"a": 1, "b": 1}
    assert notes.warnings
    assert all("The sweep is paused until then" in line for line in notes.warnings)


@pytest.mark.parametrize(("failing", "left"), [(range(1, 2), []), (range(1, 99), ["a"])])
def test_a_record_that_cannot_be_saved_before_a_stop_is_reported_and_measured_again(
    failing: range, left: list[str], tmp_path: Path
) -> None:
    class Stopped(Full):
        def save(self, record: Record) -> tuple[Record, Path]:
            if not self.saves:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().save(record)

    store = Stopped(tmp_path, failing)
    outcome, notes = drive(Cluster(lambda trial, attempt: measured(trial)), store, "a=ok")
    assert outcome.signal_number == signal.SIGTERM
    assert [task.key for task in outcome.left] == left
    said = "could not save results from n0; rerun the sweep" in notes.warnings
    assert said == bool(left)


def test_other_jobs_end_while_the_disk_is_full(tmp_path: Path) -> None:
    class FullUntilAnotherEnd(Full):
        def save(self, record: Record) -> tuple[Record, Path]:
            self.failing = range(1, 1 if notes.ends else 20)
            return super().save(record)

    notes = Notes()
    refused = Ended(how=End.FAILED, slot="n1", detail="no")
    store = FullUntilAnotherEnd(tmp_path, range(0))
    cluster = Cluster(lambda trial, attempt: measured(trial) if trial == "a" else refused)
    drive(cluster, store, "a=ok", "b=ok", notes=notes)
    assert notes.ends == [("b", "refused"), ("a", "ok")]
    assert store.saves == 2


def test_a_trial_that_a_broken_sweep_stops_counts_as_stopped_and_not_as_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "TOGETHER_S", 0.0)
    lost = Ended(how=End.LOST, detail="gone")
    cluster = Cluster(lambda trial, attempt: None if trial == "a" else lost)
    outcome, notes = drive(cluster, Store(tmp_path), "a=ok", "b=ok")
    assert "cluster failed 3 times in a row, last error: gone" in outcome.broken
    assert Counter(notes.ends) == {("b", "lost"): 3, ("a", "stopped"): 1}
    assert {task.key for task in outcome.left} == {"a", "b"}


def test_a_node_that_dies_with_all_its_trials_does_not_stop_the_sweep(tmp_path: Path) -> None:
    lost = Ended(how=End.LOST, detail="node died")
    cluster = Cluster(lambda trial, attempt: measured(trial) if attempt > 1 else lost)
    outcome, notes = drive(cluster, Store(tmp_path), *(f"{trial}=ok" for trial in "abcde"))
    assert not outcome.broken
    assert outcome.counts == {"ok": 5}
    assert Counter(end for _, end in notes.ends) == {"lost": 5, "ok": 5}


def test_replicates_that_are_clear_together_are_not_measured_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (task,) = tasks_of(tmp_path, ["a=contaminated"])
    judge = judge_of(Cluster(lambda trial, attempt: None), store=store)
    for made, wanted in zip(make_contaminated(3.0, 2), (1, 0), strict=True):
        stored, _ = store.save(made)
        judge.judge(task, Ended(how=End.FINISHED), [stored])
        assert (task.wanted, task.clear) == (wanted, not wanted)


def losses(judge: outcomes.Judge, moments: Sequence[float]) -> list[bool]:
    """True where the sweep is broken after a job that was lost at each of these moments."""
    broken = []
    for now in moments:
        judge.watch(Ended(how=End.LOST, slot="n0"), [], now=now)
        broken.append(bool(judge.broken))
    return broken


def test_losses_close_together_are_one_event_and_a_chain_of_them_is_not() -> None:
    judge = judge_of(Cluster(lambda trial, attempt: None))
    assert not any(losses(judge, [second / 10 for second in range(100)]))
    assert losses(judge, [10, 15, 19, 20]) == [False, False, False, True]


def test_a_job_that_ran_to_its_end_clears_the_losses_of_its_slot() -> None:
    launcher = LocalLauncher(quick_launch(2))
    judge = judge_of(launcher)
    for slot in ("cpu:0", "cpu:1", "cpu:0", "cpu:1"):
        judge.watch(Ended(how=End.DIED, slot=slot), [], now=0.0)
    judge.watch(measured("a", slot="cpu:0"), [], now=0.0)
    judge.watch(Ended(how=End.DIED, slot="cpu:0"), [], now=0.0)
    assert launcher.slots() == ["cpu:0", "cpu:1"]
    judge.watch(Ended(how=End.DIED, slot="cpu:1"), [], now=0.0)
    assert launcher.slots() == ["cpu:0"]


def test_one_bad_node_among_good_ones_does_not_stop_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "TOGETHER_S", 0.0)
    died = Ended(how=End.DIED, slot="n0", detail="exit code -9")

    def answer(trial: str, attempt: int) -> Ended:
        return died if trial.startswith("d") and attempt == 1 else measured(trial, slot="n1")

    outcome, _ = drive(
        Cluster(answer, slots=1), Store(tmp_path), *(f"{x}{n}=ok" for n in range(4) for x in "dk")
    )
    assert not outcome.broken
    assert outcome.counts == {"ok": 8}


def test_the_remaining_time_counts_concurrent_jobs_and_not_nodes(tmp_path: Path) -> None:
    class Watching(Notes):
        left: tuple[float, float] | None = None

        def running(self, slot: str, what: str, log: Path) -> None:
            super().running(slot, what, log)
            if len(self.where) == 4:  # all of them: one ends
                cluster.jobs["a"].set_result(measured("a"))

        def progress(
            self,
            done: int,
            total: int,
            counts: Mapping[str, int],
            *,
            left_s: tuple[float, float] | None,
            busy: str,
        ) -> None:
            if done == 1:
                self.left = left_s
                for trial in "bcd":
                    cluster.jobs[trial].set_result(measured(trial))

    cluster, notes = Cluster(lambda trial, attempt: None), Watching()
    trials = [f"{trial}=ok" for trial in "abcd"]
    driving.drive(tmp_path, *trials, launcher=cluster, notes=notes, costs={"m": 10.0})
    assert notes.left == pytest.approx((27 / 4, 33 / 4)), (
        "three of 10 s each, four at a time, though on two nodes"
    )


def test_to_ask_whether_a_trial_is_held_writes_nothing_and_disturbs_nobody(tmp_path: Path) -> None:
    (task,) = tasks_of(tmp_path / "r", ["id=a"])
    task.trial_ids = ("a",)
    collector = outcomes.Collector(Store(tmp_path / "r"), pytest.fail)
    assert not collector.is_held(task)
    assert not (tmp_path / "r").exists()
    with claim_trial(tmp_path / "r", "a"):
        assert collector.is_held(task)
