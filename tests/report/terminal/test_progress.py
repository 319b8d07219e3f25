"""Progress of a trial and of a sweep in a terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from shown import block_text

from xla_sweeps.report.terminal.progress import SweepProgress, TrialProgress
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


def test_the_live_block_fits_80_columns_and_counts_every_measured_round() -> None:
    screen = TrialProgress(ui="quiet")
    screen.trial_started("efficientnetv2_large 384 px", replicates=3, log=Path("results/x.log"))
    assert "waiting for its turn   0.0 s" in block_text(screen)
    screen.stage(0, "measure", None)
    screen.round_done(0, replace(progressed(12, 0), remaining_s=(217.0, 433.0)))
    text = block_text(screen)
    assert "12 measured, 0 clean of 24  eta 3 min 37 s to 7 min 13 s" in text
    assert "half-width ±1.2 % (target ±1 %)" in text
    assert text.count("\n") == 5


def test_a_name_in_the_progress_cannot_control_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with SweepProgress("evil\x1b]0;x\x07", ["cpu"], ui="plain") as board:
        board.running("cpu", "model=\x1b[31m\u202eevil", tmp_path / "log")
        board.show_end("cpu", "m", "ok", "\x1b[2J")
    with TrialProgress(ui="plain") as trial:
        trial.trial_started("m", replicates=1, log=tmp_path / "\x1b]0;x\x07")
        drawn = block_text(trial)
    assert "]0;x" in drawn.replace("\n", "")
    assert not re.search("[\x1b\x07\u202e]", capsys.readouterr().err + drawn)


BUSY = (
    "5 of 6 contaminated: others use 1.4 of 2 cores (python, chromium); measured once more; "
    "--accept-contaminated keeps them"
)


def test_a_busy_machine_is_told_where_that_has_changed(capsys: pytest.CaptureFixture[str]) -> None:
    with SweepProgress("mine", ["cpu"], ui="plain") as board:
        for text in (BUSY, BUSY, "", "", BUSY):
            board.progress(0, 6, {}, left_s=None, busy=text)
    lines = [line[9:] for line in capsys.readouterr().err.splitlines()]
    assert [line for line in lines if not line.startswith("sweep ")] == [
        f"busy     {BUSY}",
        "busy     no longer",
        f"busy     {BUSY}",
    ]


def test_a_finished_line_has_the_speedup_before_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with SweepProgress("mine", ["cpu"], ui="plain") as board:
        board.running("cpu", "model=resnet50", tmp_path / "log")
        board.show_end("cpu", "model=resnet50", "ok", "", "1.25× (1.24–1.27)")
    line = capsys.readouterr().err.splitlines()[1]
    assert re.fullmatch(r".* end +cpu  ok  1\.25× \(1\.24–1\.27\)  0\.\d s  model=resnet50", line)


def test_the_block_fits_80_columns_and_keeps_device_speedup_and_counts(tmp_path: Path) -> None:
    long = "model=efficientnetv2_large batch_size=128 resolution=480 tracker=wandb_offline"
    log = tmp_path / "log"
    log.write_text("12:00:00 rounds   12/24 rounds  half-width ±1.23% (target ±1.00%)\n")
    with SweepProgress("mine", ["cpu:0"], ui="quiet") as board:
        assert "trials" not in block_text(board), "nothing is known of their number"
        board.progress(0, 6, {"missing": 6}, left_s=None)
        assert "0/6 trials" in block_text(board)
        board.running("cpu:0", long, log)
        board.show_end("cpu:0", long, "contaminated", "", "1.25× (1.24–1.27)")
        board.running("cpu:0", long, log)
        board.progress(0, 6, {"missing": 1, "contaminated": 5}, left_s=(217.0, 433.0), busy=BUSY)
        text = block_text(board)
        board._left_at -= 300
        later = block_text(board)
    lines = text.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].endswith("0/6 trials  eta 3 min 37 s to 7 min 13 s")
    assert " ".join(map(str.strip, lines[3:5])) == BUSY
    assert lines[5].startswith("cpu:0  efficientnetv2_large 480 px b128")
    assert "rounds 12/24 rou" in lines[5]
    assert lines[6].startswith(
        "contaminated  1.25× (1.24–1.27)  0.0 s  efficientnetv2_large 480 px"
    )
    assert len(lines) == 7
    assert "eta 0.0 s to 2 min 13 s" in later, "it counts down between two reports"


def test_a_sweep_that_waits_says_what_runs_and_in_which_stage(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("12:00:01 compile  xla\n")
    board = SweepProgress("mine", ["cpu"], ui="quiet")
    assert board._still() == ("still", "idle")
    board.running("cpu", "model=resnet50 batch_size=4", log)
    assert board._still() == ("still", "cpu  resnet50 b4  compile xla")


def test_a_waiting_sweep_leaves_out_options_and_one_replicates_time_left(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("12:00:01 rounds   18/60 rounds  half-width ±8.17% (target ±0.50%)  eta 9 s\n")
    board = SweepProgress("mine", ["cpu"], ui="quiet")
    board.running("cpu", "model=resnet50 resolution=96 modes=[graph,xla] effort=standard", log)
    board.progress(0, 9, {}, left_s=(217.0, 433.0))
    assert board._still()[1] == (
        "cpu  resnet50 96 px  rounds 18/60 rounds half-width ±8.17% (target ±0.50%)"
        "  eta 3 min 37 s to 7 min 13 s"
    )
