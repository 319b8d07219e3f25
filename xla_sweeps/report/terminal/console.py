"""The two consoles, and what makes text safe and fit to show."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from xla_sweeps.errors import XlaSweepsError

SYMBOLS = {"faster": "▲", "slower": "▼", "equivalent": "■", "ambiguous": "◆", "failed": "✕"}

WORDS = {
    "faster": "faster",
    "slower": "slower",
    "equivalent": "same",
    "ambiguous": "unsure",
    "failed": "failed",
}

COLOURS = {
    "faster": "green",
    "slower": "red",
    "equivalent": "bright_black",
    "ambiguous": "yellow",
    "failed": "magenta",
}

NARROWEST = 80

PLAIN_WIDTH = 120

_BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def results_console() -> Console:
    """Standard output: results only. Wide enough for a table even where it is no terminal."""
    width = None if sys.stdout.isatty() else int(os.environ.get("COLUMNS") or PLAIN_WIDTH)
    return Console(file=sys.stdout, highlight=False, width=width, emoji=False, markup=False)


def progress_console() -> Console:
    """Standard error: progress and warnings."""
    width = None if sys.stderr.isatty() else int(os.environ.get("COLUMNS") or PLAIN_WIDTH)
    return Console(file=sys.stderr, highlight=False, width=width, emoji=False, markup=False)


def ui_mode(asked: str, environ: Mapping[str, str]) -> str:
    """`live`, `plain` or `quiet`: `auto` is live on a terminal that can redraw, outside CI."""
    if asked != "auto":
        return asked
    able = sys.stderr.isatty() and environ.get("TERM", "dumb") != "dumb" and not environ.get("CI")
    return "live" if able else "plain"


def displayable(text: object) -> str:
    """Text without control, escape and direction characters; newlines become spaces."""
    return "".join(
        " " if character in "\n\r\t" else character
        for character in str(text)
        if character in "\n\r\t"
        or not (
            unicodedata.category(character) in ("Cc", "Cs")
            or unicodedata.bidirectional(character) in _BIDI
        )
    )


def complain(error: XlaSweepsError) -> int:
    """One line on standard error; returns the exit code."""
    progress_console().print(Text(f"xla-sweeps: {displayable(error)}", style="red"), soft_wrap=True)
    return error.exit_code


def warn(message: str) -> None:
    """One line on standard error that a person should know."""
    progress_console().print(
        Text(f"warning: {displayable(message)}", style="yellow"), soft_wrap=True
    )


def duration(seconds: float) -> str:
    """A length of time for a person: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:02.0f} min"


def size(count: float | None) -> str:
    """Bytes for a person."""
    if count is None:
        return "—"
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
