"""Trackers by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from wandb_runs import FIRST, SUMMARY, header

from xla_sweeps.errors import ConfigError
from xla_sweeps.measure.tracking import NoTracker, TrackerReport, tracker_named


def test_the_tracker_none_does_nothing(tmp_path: Path) -> None:
    tracker = tracker_named("none")
    assert isinstance(tracker, NoTracker)
    tracker.open(header(tmp_path))
    assert tracker.finish([FIRST], SUMMARY, exit_code=0) == TrackerReport(place="", complete=True)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_tracker_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        tracker_named("wanbd")
    assert (
        str(caught.value)
        == "unknown tracker 'wanbd'. Did you mean 'wandb'? Allowed: none, wandb_offline, wandb."
    )
