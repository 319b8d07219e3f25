"""Times at which the anchor trial is due."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from quick_sweep import quick_launch, task

from xla_sweeps.sweep.backlog import ANCHORS_EVERY_S, Backlog
from xla_sweeps.sweep.launchers.local import LocalLauncher


@pytest.mark.parametrize("late", [False, True])
def test_a_quick_sweep_has_anchors_from_its_first_half_hour_on(tmp_path: Path, late: bool) -> None:
    start, launcher = time.monotonic(), LocalLauncher(quick_launch(1))
    anchor, trial = (task(name, "ok", tmp_path) for name in ("anchor", "trial"))
    trial.wanted = 1
    backlog = Backlog([anchor], late_anchors=late)
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
