"""Times at which the anchor trial is due."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from quick_sweep import quick_launch, task

from xla_sweeps.sweeps.backlog import ANCHORS_EVERY_S, Backlog
from xla_sweeps.sweeps.compose import Task
from xla_sweeps.sweeps.launchers.local import LocalLauncher


def test_an_anchor_is_measured_as_often_as_a_trial_each_time_on_every_slot(tmp_path: Path) -> None:
    launcher = LocalLauncher(quick_launch(2))
    anchors = [[task(f"{kind}{slot}", "ok", tmp_path) for kind in "ab"] for slot in range(2)]
    backlog = Backlog(anchors, repeats=3)
    backlog.call_anchors(launcher, now=0.0)
    places = [
        (anchor.key, slot) for anchor, slot in backlog.ready(launcher, lambda _: False, now=0.0)
    ]
    assert len({slot for _, slot in places}) == 2
    assert Counter(places) == {
        (anchor.key, slot): 3
        for pair, slot in zip(anchors, launcher.slots(), strict=True)
        for anchor in pair
    }
    assert all(backlog.is_anchor(one) for pair in anchors for one in pair)


def test_no_anchor_is_measured_on_a_slot_that_prepares_ahead(tmp_path: Path) -> None:
    launcher = LocalLauncher(quick_launch(2, ahead=1))
    backlog = Backlog([[task(f"a{slot}", "ok", tmp_path)] for slot in range(2)])
    assert launcher.drain("cpu:0")
    assert launcher.slots() == ["cpu:1", "cpu:1+1"]
    backlog.call_anchors(launcher, now=0.0)
    ready = backlog.ready(launcher, lambda _: False, now=0.0)
    assert [(anchor.key, slot) for anchor, slot in ready] == [("a0", "cpu:1")]


def test_a_search_is_told_nothing_of_an_anchor(tmp_path: Path) -> None:
    """Anchors have no figures of the metric, such as throughput_xla."""
    anchor, proposals = task("anchor", "ok", tmp_path), Proposals()
    backlog = Backlog([[anchor]], source=cast(Any, proposals))
    backlog.finish(anchor)
    assert proposals.pending_count == 0
    backlog.finish(task("trial", "ok", tmp_path))
    assert proposals.pending_count == -1


@pytest.mark.parametrize("late", [False, True])
def test_a_quick_sweep_has_anchors_from_its_first_half_hour_on(tmp_path: Path, late: bool) -> None:
    start, launcher = time.monotonic(), LocalLauncher(quick_launch(1))
    anchor, trial = (task(name, "ok", tmp_path) for name in ("anchor", "trial"))
    trial.wanted = 1
    backlog = Backlog([[anchor]], late_anchors=late)
    backlog.extend([trial])

    def submitted(now: float) -> list[str]:
        """The trials that are started, of which another one is wanted."""
        keys = [task.key for task, _ in backlog.ready(launcher, lambda _: False, now=now)]
        backlog.add(trial)
        backlog.note_measured()
        return keys

    def owed() -> bool:
        """True if anchors close the sweep, were it to end now."""
        return backlog.anchors_owed

    assert submitted(start) == (["trial"] if late else ["anchor", "trial"])
    assert owed() is not late
    assert submitted(start + ANCHORS_EVERY_S - 60) == ["trial"]
    assert submitted(start + ANCHORS_EVERY_S + 60)[0] == "anchor"
    assert owed()
    backlog.call_anchors(launcher, now=start + ANCHORS_EVERY_S + 120)
    assert not owed()
    backlog.note_measured()
    assert owed()


class Proposals:
    """In place of a search: trials without end, and how many of them have no result."""

    pending_count, total, exhausted = 0, 50, False

    def next(self) -> Task:
        self.pending_count += 1
        proposed = task("t", "ok", Path())
        proposed.wanted = 1
        return proposed

    def done(self, task: Task) -> None:
        self.pending_count -= 1


@pytest.mark.parametrize(
    ("asked", "targets", "most"), [(None, False, 4), (2, False, 2), (6, False, 6), (None, True, 8)]
)
def test_a_search_proposes_to_a_queue_only_a_few_trials_before_it_has_results(
    asked: int | None, targets: bool, most: int
) -> None:
    place: Any = SimpleNamespace(targets=targets, free=lambda accelerator: 8, asked_slots=asked)
    proposals: Any = Proposals()
    backlog = Backlog(source=proposals)
    for _ in range(2):
        backlog.refill(place)
        assert len(backlog.tasks) == proposals.pending_count == most
    if not targets:
        backlog.finish(backlog.tasks[0])
        backlog.refill(place)
        assert len(backlog.tasks) == most + 1
