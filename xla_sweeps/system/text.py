"""Make text from models, errors and files safe to show on one line."""

from __future__ import annotations

import unicodedata

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn"}
"""Unicode categories: control (escape sequences too), format (direction too), no character."""


def displayable(text: object) -> str:
    """Text without control, format and direction characters; white space becomes spaces."""
    return "".join(
        " " if character.isspace() else character
        for character in str(text)
        if character.isspace() or unicodedata.category(character) not in _INVISIBLE
    )
