"""Border to the caller's own objects: whatever they raise there becomes one line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from xla_sweeps.config.values import folder_of
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.system.text import displayable
from xla_sweeps.trial.failures import first_line

FOREIGN = (Exception, SystemExit)
"""All that code of the caller's may raise, beside an interrupt."""


@contextlib.contextmanager
def refusing(what: str, hint: str = "") -> Iterator[None]:
    """Turn what is raised in a `with` block into a `ConfigError` that names the reason."""
    try:
        yield
    except XlaSweepsError:
        raise
    except FOREIGN as error:
        raise ConfigError(f"{what} ({_reason_of(error)}){hint and f'; {hint}'}") from error


def _reason_of(error: BaseException) -> str:
    """The kind of an error and what its text says first, where it has one."""
    try:
        text = str(error)
        line = first_line(text)[:300] if text.strip() else ""
    except FOREIGN:
        line = ""
    kind = type(error).__name__
    return displayable(f"{kind}: {line}" if line else kind)


def folder_given(name: str, given: object) -> Path:
    """A folder that an argument names, there or not; an error where it names something else."""
    with refusing(f"{name}: not a path"):
        return folder_of(_path(name, given))


def file_word(name: str, given: object) -> str:
    """A path as a word of a command, which reads one that begins with `-` as an option."""
    with refusing(f"{name}: not a path"):
        word = _path(name, given)
    return f"./{word}" if word.startswith("-") else word


def _path(name: str, given: object) -> str:
    if not isinstance(given, (str, os.PathLike)):
        raise ConfigError(f"{name}: expected a path, not {type(given).__name__}")
    return str(os.fspath(given))
