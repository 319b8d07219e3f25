"""A trial's progress."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from xla_sweeps.report.terminal.trial_progress import TrialProgress
from xla_sweeps.trial.rounds import Progress


def progressed(measured: int, clean: int) -> Progress:
    return Progress(
        measured=measured,
        rounds=clean,
        rounds_max=24,
        half_width=0.0123,
        target=0.01,
        remaining_s=(4.0, 75.0),
    )


def test_plain_progress_is_one_line_per_event_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with TrialProgress(ui="plain") as screen:
        screen.trial_started("resnet50 224 px", replicates=3, log=Path("results/logs/x.log"))
        screen.stage(0, "compile", "xla")
        for measured, clean in ((12, 12), (24, 3)):
            screen.round_done(0, progressed(measured, clean))
        screen.replicate_done(0, "ok")
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line[9:] for line in err.splitlines()]
    assert lines == [
        "start    resnet50 224 px  replicates=3  log=results/logs/x.log",
        "compile  xla",
        "rounds   12/24 rounds  half-width ±1.2 % (target ±1 %)  eta 4.0 s to 75 s",
        "rounds   24 measured, 3 clean of 24  half-width ±1.2 % (target ±1 %)  eta 4.0 s to 75 s",
        "saved    replicate 1  ok",
    ]


def test_a_long_stage_says_how_long_it_takes_but_not_while_calls_are_timed() -> None:
    screen = TrialProgress(ui="quiet")
    screen.stage(0, "compile", "xla")
    event, text = screen._still() or ("", "")
    assert event == "compile"
    assert re.fullmatch(r"xla  .* s so far", text)
    screen.stage(0, "measure", None)
    assert screen._still() is None


def test_a_live_block_is_drawn_by_itself_but_not_while_calls_are_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen, drawn = TrialProgress(ui="live"), list[str]()
    for stage in ("compile", "measure", "record"):
        screen.stage(0, stage, "xla")
        with monkeypatch.context() as patched:
            patched.setattr(screen, "redraw", lambda stage=stage: drawn.append(stage))
            screen._beat()
    assert drawn == ["compile", "record"]


def test_quiet_shows_warnings_only(capsys: pytest.CaptureFixture[str]) -> None:
    with TrialProgress(ui="quiet") as screen:
        screen.trial_started("t", replicates=1, log=Path("log"))
        screen.stage(0, "build", None)
        screen.warn("mind this")
        screen.replicate_done(0, "ok")
    assert capsys.readouterr() == ("", "warning: mind this\n")


def test_the_live_block_fits_80_columns_and_counts_every_measured_round(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = TrialProgress(ui="quiet")
    screen.trial_started("efficientnetv2_large 384 px", replicates=3, log=Path("results/x.log"))
    Console(width=80).print(screen.block())
    assert "waiting for its turn   0.0 s" in capsys.readouterr().out
    screen.stage(0, "measure", None)
    progress = progressed(12, 0)
    screen.round_done(0, replace(progress, remaining_s=(217.0, 433.0)))
    Console(width=80).print(screen.block())
    lines = capsys.readouterr().out.splitlines()
    assert "12 measured, 0 clean of 24  eta 3 min 37 s to 7 min 13 s" in "\n".join(lines)
    assert "half-width ±1.2 % (target ±1 %)" in "\n".join(lines)
    assert len(lines) == 5
