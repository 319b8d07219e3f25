"""Escape untrusted text (model names, error messages, devices) for Markdown, and build tables.

Escaped text contains no markup, link, HTML, formula or table cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from xla_sweeps.system.text import displayable

_SPECIAL = re.compile(r"[\\`*_{}\[\]#!|~$^]")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_LINK_PARTS = re.compile(r"(?i)(://|www\.|mailto:|@)")

_BREAK = "\u2060"
"""An invisible word joiner, which keeps a bare address from becoming a link."""

ELLIPSIS = "…"


def escape(text: object, *, longest: int = 200) -> str:
    """One line of text that Markdown shows unchanged.

    Args:
        text: any object; its `str` is shown.
        longest: maximum number of characters; longer text is cut and ends in an ellipsis.
    """
    line = " ".join(displayable(text).split())
    line = line if len(line) <= longest else line[: longest - 1] + ELLIPSIS
    line = _LINK_PARTS.sub(lambda match: match[0][0] + _BREAK + match[0][1:], line)
    line = "".join(_HTML.get(character, character) for character in line)
    return _SPECIAL.sub(lambda match: "\\" + match[0], line)


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()
) -> str:
    """A table.

    Args:
        headings: one for each column.
        rows: cells in Markdown, as many as headings.
        right: numbers of the columns to align right.
    """
    rule = ["---:" if number in right else "---" for number in range(len(headings))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows))
