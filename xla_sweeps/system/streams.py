"""Standard streams whose errors never stop a measurement."""

from __future__ import annotations

import codecs
import errno
import os
import re
import sys
from collections.abc import Callable
from typing import Any, TextIO, cast

_PLAIN = str.maketrans({"×": "x", "–": "-", "—": "-", "±": "+-", "·": "|", "…": "...", "→": "->"})


def _plain(error: UnicodeError) -> tuple[str, int]:
    """The nearest ASCII characters of what an encoding lacks, else `?`."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(_PLAIN)
    return text.encode("ascii", "replace").decode(), error.end


codecs.register_error("xla_sweeps.plain", _plain)


class Unfailing:
    """A text stream whose writes never raise, and that writes plainly what its encoding lacks.

    Attributes:
        error: the first error of a write, or None; a reader that went away is none.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.error: OSError | ValueError | None = None
        cast(Any, stream).reconfigure(errors="xla_sweeps.plain")

    def write(self, text: str) -> int:
        """Write, or note why it was not possible."""
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Flush, or note why it was not possible."""
        self._try(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _try(self, call: Callable[..., object], *arguments: str) -> None:
        try:
            call(*arguments)
        except (OSError, ValueError) as error:
            if self.error is None and getattr(error, "errno", None) != errno.EPIPE:
                self.error = error


def protect() -> None:
    """Make standard output and error unfailing; a closed one goes to /dev/null.

    A closed descriptor would otherwise be the number of the next file that is opened. A terminal's
    size in the environment that is no number is forgotten.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name) or os.fdopen(number, "w", closefd=False)
        setattr(sys, name, cast(TextIO, Unfailing(stream)))
    for name in ("COLUMNS", "LINES"):
        if not re.fullmatch("[1-9][0-9]{0,3}", os.environ.get(name, "")):
            os.environ.pop(name, None)


def output_error() -> str:
    """Reason why standard output could not be written, or ""."""
    sys.stdout.flush()
    error = sys.stdout.error if isinstance(sys.stdout, Unfailing) else None
    return str(getattr(error, "strerror", None) or error or "")
