"""Text that is safe to show."""

from __future__ import annotations

from xla_sweeps.system.text import displayable

HOSTILE = "a\x1b[31mb\x1b]0;title\x07c\u202ed\x9be\ud800f\x00\u200b\u2066"


def test_control_escape_and_direction_characters_are_removed() -> None:
    assert displayable(HOSTILE) == "a[31mb]0;titlecdef"


def test_white_space_of_any_kind_becomes_spaces() -> None:
    assert displayable("line\nbreak\ttab\u2028end") == "line break tab end"


def test_other_text_stays() -> None:
    assert displayable("größer × 日本") == "größer × 日本"
