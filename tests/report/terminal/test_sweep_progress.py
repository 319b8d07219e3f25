"""A sweep's progress in a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console

from xla_sweeps.report.terminal.sweep_progress import SweepProgress


def test_a_name_in_the_progress_cannot_control_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with SweepProgress("evil\x1b]0;x\x07", ["cpu"], ui="plain") as board:
        board.running("cpu", "model=\x1b[31m\u202eevil", tmp_path / "log")
        board.show_end("cpu", "m", "ok", "\x1b[2J")
    assert not re.search("[\x1b\x07\u202e]", capsys.readouterr().err)


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


def test_the_block_fits_80_columns_and_keeps_device_speedup_and_counts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    long = "model=efficientnetv2_large batch_size=128 resolution=480 tracker=wandb_offline"
    log = tmp_path / "log"
    log.write_text("12:00:00 rounds   12/24 rounds  half-width ±1.23% (target ±1.00%)\n")
    with SweepProgress("mine", ["cpu:0"], ui="quiet") as board:
        assert "trials" not in shown(board, capsys), "nothing is known of their number"
        board.progress(0, 6, {"missing": 6}, left_s=None)
        assert "0/6 trials" in shown(board, capsys)
        board.running("cpu:0", long, log)
        board.show_end("cpu:0", long, "contaminated", "", "1.25× (1.24–1.27)")
        board.running("cpu:0", long, log)
        board.progress(0, 6, {"missing": 1, "contaminated": 5}, left_s=(217.0, 433.0), busy=BUSY)
        text = shown(board, capsys)
        board._left_at -= 300
        later = shown(board, capsys)
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


def shown(board: SweepProgress, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    Console(width=80).print(board.block())
    return capsys.readouterr().out


def test_a_sweep_that_waits_says_what_runs_and_in_which_stage(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("12:00:01 compile  xla\n")
    board = SweepProgress("mine", ["cpu"], ui="quiet")
    assert board._still() == ("still", "idle")
    board.running("cpu", "model=resnet50 batch_size=4", log)
    assert board._still() == ("still", "cpu  resnet50 b4  compile xla")


def test_a_waiting_sweep_leaves_out_options_and_the_time_left_of_one_replicate(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    log.write_text("12:00:01 rounds   18/60 rounds  half-width ±8.17% (target ±0.50%)  eta 9 s\n")
    board = SweepProgress("mine", ["cpu"], ui="quiet")
    board.running("cpu", "model=resnet50 resolution=96 modes=[graph,xla] effort=standard", log)
    board.progress(0, 9, {}, left_s=(217.0, 433.0))
    assert board._still()[1] == (
        "cpu  resnet50 96 px  rounds 18/60 rounds half-width ±8.17% (target ±0.50%)"
        "  eta 3 min 37 s to 7 min 13 s"
    )
