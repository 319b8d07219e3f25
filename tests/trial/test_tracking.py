"""Trackers by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from factories import CONFIG, TRIAL_ID, asked, config_of
from wandb_runs import FIRST, SUMMARY, header

from xla_sweeps.schema.options import BY_NAME
from xla_sweeps.trial.tracking import Tracker, TrackerReport, run_header, tracker_named


def test_the_tracker_none_does_nothing(tmp_path: Path) -> None:
    tracker = tracker_named("none")
    assert type(tracker) is Tracker
    tracker.open(header(tmp_path))
    assert tracker.finish([FIRST], SUMMARY, exit_code=0) == TrackerReport(place="", complete=True)
    assert list(tmp_path.iterdir()) == []


def test_every_choice_of_tracker_has_one_that_can_be_made() -> None:
    for name in {*BY_NAME["tracker"].choices} - {"auto"}:  # which settings replace
        assert callable(tracker_named(name).log_rounds)


@pytest.mark.parametrize(
    ("config", "name", "is_xla"),
    [
        (CONFIG, "resnet50 224 px b4 xla CPU", True),
        (config_of("train_step"), "resnet50 224 px b4 train_step xla CPU", True),
        (config_of("predict"), "resnet50 224 px b4 predict_xla CPU", True),
        (config_of("predict", "predict_graph", "predict", "predict_xla"), "b4 predict_xla", True),
        (config_of("predict", "predict_graph", "graph"), "b4 predict graph CPU", False),
    ],
)
def test_a_run_is_named_after_its_scenario_and_candidate(
    config: Mapping[str, Any], name: str, is_xla: bool, tmp_path: Path
) -> None:
    made = asked(config)
    header = run_header(
        made["trial"],
        made["tracker"],
        trial_id=TRIAL_ID,
        device_kind="cpu",
        device_name="CPU",
        environment={},
        results_dir=tmp_path,
    )
    assert name in header.name
    assert header.scalars["xla"] is is_xla
    assert header.scalars["scenario"] == config["scenario"]
