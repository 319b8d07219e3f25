"""Write Markdown in which the text of others stands as text. Pure.

Names, versions and messages come from models, servers and pull requests. None becomes markup, a
link, HTML, a formula, or a mention or issue number, which GitHub looks for in what Markdown leaves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from xla_sweeps.system.text import displayable

CHARACTERS = 200

_SPECIAL = re.compile(r"[\\`*{}\[\]#!|~$^]|(?<![^\W_])_|_(?![^\W_])")
"""An underscore within a word is no markup."""

_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}

_REFERENCE = re.compile(r"(?i)://|www\.|mailto:|@|#(?=\d)|\bgh-(?=\d)")

_BREAK = "\u2060"
"""An invisible word joiner, which keeps a bare address or a mention from becoming a link."""


def escape(text: object, most: int = CHARACTERS) -> str:
    """One line of untrusted text, cut at `most` characters, that Markdown shows unchanged."""
    line = _line(text, most)
    line = _REFERENCE.sub(lambda match: match[0][0] + _BREAK + match[0][1:], line)
    line = "".join(_HTML.get(character, character) for character in line)
    return _SPECIAL.sub(lambda match: "\\" + match[0], line)


def code(text: object, most: int = 10 * CHARACTERS) -> str:
    """One line of untrusted text as code, which can be copied: not for the cells of a table."""
    line = _line(text, most)
    longest = max(map(len, re.findall("`+", line)), default=0)
    fence, pad = "`" * (longest + 1), " " * bool(longest)
    return f"{fence}{pad}{line}{pad}{fence}" if line else ""


def items(lines: Iterable[object], most: int = CHARACTERS) -> list[str]:
    """The items of a list."""
    return [f"- {escape(line, most)}" for line in lines]


def table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    head, *cells = (f"| {' | '.join(map(escape, line))} |" for line in (columns, *lines))
    return [head, "| --- " * len(columns) + "|", *cells]


def _line(text: object, most: int) -> str:
    line = " ".join(displayable(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
