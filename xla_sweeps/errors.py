"""Errors that are the user's to mend: one line that says what, where, what is allowed and the nearest match."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class XlaSweepsError(Exception):
    """Base of every error that is shown as one line, without a traceback.

    Attributes:
        exit_code: what the command line exits with.
    """

    exit_code = 2


class ConfigError(XlaSweepsError):
    """A value of the configuration or the command line cannot be used."""


class StoreError(XlaSweepsError):
    """The results folder cannot be read or written."""


class HeldError(StoreError):
    """Another process is measuring the same trial, or has measured it meanwhile."""

    exit_code = 75  # sysexits' EX_TEMPFAIL: try again later


class DeviceError(XlaSweepsError):
    """The device that was asked for is absent or lacks what was asked of it."""


class InterruptedRunError(XlaSweepsError):
    """The run was stopped from outside; what was measured is saved.

    Attributes:
        exit_code: 130 after Ctrl-C, 143 after SIGTERM.
    """

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def unknown_name(kind: str, given: str, allowed: Iterable[str], *, listed: int = 12) -> ConfigError:
    """Error for a name that is not among the allowed ones, with the nearest match first.

    Args:
        kind: what the name stands for, as the user would say it ("model", "execution mode").
        given: what was given.
        allowed: every name that would have done.
        listed: the most names to list; past it only their number is said.
    """
    names = list(allowed)
    folded = {name.lower(): name for name in names}
    near = difflib.get_close_matches(given.lower(), list(folded), n=1, cutoff=0.5)
    hint = f" Did you mean '{folded[near[0]]}'?" if near else ""
    if len(names) <= listed:
        return ConfigError(f"unknown {kind} '{given}'.{hint} Allowed: {', '.join(names)}.")
    return ConfigError(f"unknown {kind} '{given}'.{hint} There are {len(names)} to choose from.")
