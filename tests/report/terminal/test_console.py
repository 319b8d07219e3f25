"""Text that is safe and fit to show."""

from __future__ import annotations

import errno
import io
import queue
import tempfile
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from xla_sweeps.errors import BUG_CODE, USAGE_CODE, ConfigError
from xla_sweeps.report.terminal import console
from xla_sweeps.report.terminal.console import Heartbeat, complain, progress_bar, ui_mode


@pytest.mark.parametrize(
    ("asked", "mode"), [("auto", "plain"), ("live", "live"), ("plain", "plain"), ("quiet", "quiet")]
)
def test_auto_is_plain_where_there_is_no_terminal(
    asked: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert ui_mode(asked) == mode


def test_a_bar_is_not_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("making") as advance:
        advance(1, 2)
    assert capsys.readouterr() == ("", "")


def test_no_line_commands_a_terminal_or_the_log_of_a_job(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console.say("in /tmp/\x1b]0;owned\x07\x9b\n::error::boo")
    console.paragraph(f"{'x' * 118} ::error::boo")
    assert capsys.readouterr().out == (
        f"in /tmp/]0;owned\n: :error::boo\n{'x' * 118}\n  : :error::boo\n"
    )


def test_the_title_of_a_bar_is_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, color_system=None)
    monkeypatch.setattr(console, "ui_mode", lambda asked: "live")
    monkeypatch.setattr(console, "progress_console", lambda: screen)
    with console.progress_bar("reading [red]a[/b] \x1b]0;owned\x07"):
        pass
    assert "reading [red]a[/b] ]0;owned" in screen.file.getvalue()  # type: ignore[attr-defined]


def test_errors_are_reported_in_one_line_with_their_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert complain(ConfigError("x=1: no\nsecond line")) == 2
    assert capsys.readouterr() == ("", "xla-sweeps: x=1: no second line\n")


@pytest.mark.parametrize("logs", [True, False])
def test_an_error_of_our_own_is_one_line_that_names_the_file_with_its_traceback(
    logs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    results = tmp_path / "r"
    if logs:
        (results / "logs").mkdir(parents=True)
    with pytest.raises(KeyError) as caught:
        dict[str, int]()["two\nlines"]
    assert complain(caught.value, results_dir=results) == BUG_CODE
    (kept,) = (results / "logs" if logs else tmp_path).glob("xla-sweeps-*.txt")
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert line.endswith(f"KeyError: 'two\\nlines'; please report it, with {kept}\n")
    assert "Traceback" in kept.read_text()
    assert results.exists() is logs


def test_a_traceback_that_the_results_folder_does_not_take_goes_to_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r" / "logs").mkdir(parents=True)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    mkstemp = tempfile.mkstemp

    def full(**arguments: Any) -> tuple[int, str]:
        if arguments["dir"]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return mkstemp(**arguments)

    monkeypatch.setattr(tempfile, "mkstemp", full)
    assert complain(KeyError("x"), results_dir=tmp_path / "r") == BUG_CODE
    (kept,) = (tmp_path / "temporary").iterdir()
    assert capsys.readouterr().err.endswith(f"'x'; please report it, with {kept}\n")
    assert "KeyError" in kept.read_text()


def test_an_error_of_our_own_is_one_line_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    assert complain(KeyError("x")) == BUG_CODE
    assert capsys.readouterr().err.endswith("'x'; its traceback could not be written\n")


def test_a_machine_without_temporary_files_is_no_defect(capsys: pytest.CaptureFixture[str]) -> None:
    text = "No usable temporary directory found in ['/tmp']"
    assert complain(FileNotFoundError(errno.ENOENT, text)) == 2
    assert capsys.readouterr().err == (
        f"xla-sweeps: {text}: set TMPDIR to a writable folder, or see `ulimit -f`\n"
    )


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/r"), "'/r': Permission denied"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
        (
            RuntimeError("can't start new thread"),
            "can't start new thread: too many processes; end some, or see `ulimit -u`",
        ),
    ],
)
def test_a_limit_of_the_machine_is_no_defect(
    error: Exception, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complain(error) == USAGE_CODE
    assert capsys.readouterr().err == f"xla-sweeps: {line}\n"


def test_a_heartbeat_tells_when_nothing_was_told_for_ten_seconds() -> None:
    now, told = [0.0], []
    heart = Heartbeat(lambda: told.append(now[0]), clock=lambda: now[0])
    for now[0], left in ((9.0, 1.0), (10.0, 10.0), (12.0, 8.0)):
        assert heart.left_s() == left
    heart.note_line()
    for now[0] in (20.0, 22.0, 40.0):
        heart.left_s()
    assert told == [10.0, 22.0, 40.0]


@pytest.mark.parametrize(
    ("steps", "line"),
    [([(2000, 3000)], "2,000 of 3,000"), ([], "s so far"), ([(3, 3)], "s so far")],
)
def test_slow_work_says_how_far_it_is_where_there_is_no_bar(
    steps: list[tuple[int, int]], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr(console, "say", lambda text, **_: lines.put(text))
    monkeypatch.setattr(console, "SILENT_S", 0.01)
    with progress_bar("reading") as advance:
        for step in steps:
            advance(*step)
        heard = [lines.get(timeout=50), lines.get(timeout=50)]
    assert heard[-1].startswith("reading: ")
    assert heard[-1].endswith(line)
