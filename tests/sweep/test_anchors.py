"""Times at which the anchor trial is due."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from quick_sweep import task

from xla_sweeps.sweep.anchors import EVERY_S, Anchors


@pytest.mark.parametrize("late", [False, True])
def test_a_quick_sweep_has_anchors_from_its_first_half_hour_on(tmp_path: Path, late: bool) -> None:
    start = time.monotonic()
    anchors = Anchors([task("anchor", "ok", tmp_path)], late=late)
    anchors.note()
    assert anchors.overdue(now=start) is not late
    assert anchors.owed is not late
    assert anchors.overdue(now=start + EVERY_S + 60)
    anchors.call([None], now=start + EVERY_S + 60)
    assert not anchors.owed
    anchors.note()
    assert anchors.owed
