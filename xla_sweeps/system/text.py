"""Make text from models, errors and files safe to show, to keep, or to name a file."""

from __future__ import annotations

import hashlib
import os
import re

SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE"
    r"|(?<=_)(?:PW|PWD|PSW|PSWD|PHRASE|CREDS?|JWT|DSN)(?![A-Z0-9])",
    re.I,
)
"""Names of environment variables that hold secrets."""

SECRET_VALUE = re.compile(
    r"-----BEGIN|(?<![A-Za-z0-9/])"
    r"(?:[0-9a-fA-F]{32,}|(?=[A-Za-z]*[0-9])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{20,})(?![A-Za-z0-9/])"
)
"""Text that looks like a token or key, as no path, number or flag of a library does.

It has many letters and digits in a row, with capitals or hexadecimal.
"""

_SHORTEST_SECRET = 8

_CREDENTIALS = re.compile(
    r"(?<=://)[^/\s@'\"]+(?=@)"
    r"|(?<=[?&])[\w-]{0,64}(?:token|key|secret|passw|signature)[\w-]{0,64}=[^&\s'\"]+",
    re.I,
)
"""User and password of an address, or a secret among its parameters."""

CREDENTIALS_RULE = (
    "WANDB_BASE_URL holds a user and a password, which W&B's client writes into its logs; give the "
    "address alone, and the key in WANDB_API_KEY or by `wandb login`"
)


_COMMAND = re.compile(r"##(?=(?:vso)?\[)|^ *:(?=:)")
"""Beginning of what a job's log would obey: `##[`, `##vso[`, and `::` at the start of a line."""


def displayable(text: object) -> str:
    """Text in which nothing commands a terminal or a job's log; white space becomes spaces.

    Control, format and direction characters are left out.
    """
    line = "".join(
        " " if character.isspace() else character
        for character in str(text)
        if character.isspace() or character.isprintable()
    )
    return _COMMAND.sub(lambda match: f"{match[0]} ", line)


def count_noun(number: int, noun: str) -> str:
    """A number of things: `1 trial`, `2,000 trials`, `2 batches`."""
    plural = "es" if noun.endswith(("ch", "s")) else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def a_noun(noun: str) -> str:
    """`a tuple`, `an int`."""
    return f"{'an' if noun[:1].lower() in [*'aeio'] else 'a'} {noun}"


def file_name(text: str) -> str:
    """A file's name for a text: the text where it is plain, else its plain part and a hash."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")[:60]
    if plain == text:
        return plain
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain}-{digest}".lstrip("-")


def has_credentials(text: str) -> bool:
    """True if an address in it holds a password or a token."""
    return _CREDENTIALS.search(text) is not None


def redact(text: str) -> str:
    """Text without the credentials in its addresses and the secrets of this process's variables."""
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST_SECRET and value in text and SECRET_NAME.search(name):
            text = text.replace(value, "***")
    return _CREDENTIALS.sub("***", text)


def last_line_of(text: str) -> str:
    """The last line of a text that is not blank, without credentials; or ""."""
    lines = (line.strip() for line in reversed(text.splitlines()))
    return redact(next(filter(None, lines), ""))
