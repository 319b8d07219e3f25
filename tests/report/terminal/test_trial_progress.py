"""A trial's progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_sweeps.report.terminal.trial_progress import Progress


def test_plain_progress_is_one_line_per_event_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Progress(ui="plain") as screen:
        screen.trial_started("resnet50 224 px", replicates=3, log=Path("results/logs/x.log"))
        screen.stage(0, "compile", "xla")
        screen.round_done(
            replicate=0,
            round=12,
            rounds_max=24,
            half_width=0.0123,
            target=0.01,
            remaining_s=(4.0, 75.0),
        )
        screen.replicate_done(0, "ok")
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line[9:] for line in err.splitlines()]
    assert lines == [
        "start    resnet50 224 px  processes=3  log=results/logs/x.log",
        "compile  xla",
        "rounds   12/24  half-width ±1.23% (target ±1.00%)  eta 4.0 s to 75 s",
        "saved    process 1  ok",
    ]


def test_quiet_shows_warnings_only(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(ui="quiet") as screen:
        screen.trial_started("t", replicates=1, log=Path("log"))
        screen.stage(0, "build", None)
        screen.warn("mind this")
        screen.replicate_done(0, "ok")
    assert capsys.readouterr() == ("", "warning: mind this\n")
