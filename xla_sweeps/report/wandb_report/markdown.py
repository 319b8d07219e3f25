"""Markdown out of texts that anybody may have written: model names, error messages, devices.

What is escaped shows as it is and is nothing else: no markup, no link, no HTML, no formula, no cell
    of its own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}

_SPECIAL = re.compile(r"[\\`*_{}\[\]#!|~$^]")

_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}

_LINK_PARTS = re.compile(r"(?i)(://|www\.|mailto:|@)")

_BREAK = "\u2060"
"""A word joiner: invisible, and it keeps a bare address from becoming a link."""

ELLIPSIS = "…"


def escape(text: object, *, longest: int = 200) -> str:
    """One line of text that Markdown shows as it is.

    Args:
        text: whatever it is.
        longest: the most characters to show; what is cut ends in an ellipsis.
    """
    line = " ".join(_visible(str(text)).split())
    line = line if len(line) <= longest else line[: longest - 1] + ELLIPSIS
    line = _LINK_PARTS.sub(lambda match: match[0][0] + _BREAK + match[0][1:], line)
    line = "".join(_HTML.get(character, character) for character in line)
    return _SPECIAL.sub(lambda match: "\\" + match[0], line)


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()
) -> str:
    """A table; cells are Markdown already.

    Args:
        headings: of the columns.
        rows: cells, as many as headings.
        right: numbers of the columns that are aligned to the right.
    """
    rule = ["---:" if number in right else "---" for number in range(len(headings))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows))


def _visible(text: str) -> str:
    """Without control, format and direction characters; white space of any kind becomes a space."""
    return "".join(
        " " if character.isspace() else character
        for character in text
        if character.isspace()
        or not (
            unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn")
            or unicodedata.bidirectional(character) in _BIDI
        )
    )
