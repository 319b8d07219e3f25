"""Make text from models, errors and files safe to show on one line, or to name a file."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn"}
"""Unicode categories: control (escape sequences too), format (direction too), no character."""

FILE_NAME_CHARACTERS = 60


def displayable(text: object) -> str:
    """Text without control, format and direction characters; white space becomes spaces."""
    return "".join(
        " " if character.isspace() else character
        for character in str(text)
        if character.isspace() or unicodedata.category(character) not in _INVISIBLE
    )


def file_name(text: str) -> str:
    """A file's name for a text: the text where it is plain, else its plain part and a hash."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")[:FILE_NAME_CHARACTERS]
    if plain == text:
        return plain
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain}-{digest}".lstrip("-")
