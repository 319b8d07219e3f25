"""Text that is safe and fit to show."""

from __future__ import annotations

import pytest

from xla_sweeps.errors import ConfigError
from xla_sweeps.report.terminal.console import complain, displayable, duration, size, ui_mode

HOSTILE = "a\x1b[31mb\x1b]0;title\x07c\u202ed\x9be\ud800f\x00"


def test_control_escape_and_direction_characters_are_removed() -> None:
    assert displayable(HOSTILE) == "a[31mb]0;titlecdef"
    assert displayable("line\nbreak\ttab") == "line break tab"
    assert displayable("größer × 日本") == "größer × 日本"


@pytest.mark.parametrize(
    ("asked", "environ", "mode"),
    [
        ("auto", {"TERM": "xterm"}, "plain"),
        ("live", {}, "live"),
        ("plain", {"TERM": "xterm"}, "plain"),
        ("quiet", {}, "quiet"),
    ],
)
def test_auto_is_plain_where_there_is_no_terminal(
    asked: str, environ: dict[str, str], mode: str
) -> None:
    assert ui_mode(asked, environ) == mode


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.42, "0.4 s"), (12.3, "12 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")],
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_sizes_are_readable() -> None:
    assert (size(None), size(3 * 2**20), size(1.5 * 2**30)) == ("—", "3 MiB", "1.50 GiB")


def test_errors_are_reported_in_one_line_with_their_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert complain(ConfigError("x=1: no\nsecond line")) == 2
    assert capsys.readouterr() == ("", "xla-sweeps: x=1: no second line\n")
