"""Errors that the user can fix: one line with what is wrong, where, and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

USAGE_CODE = 2
"""Exit code: the request is refused; nothing was measured."""

LEFT_CODE = 3
"""Exit code: a sweep has trials left to measure, or `compare --fail-on` has nothing to judge."""

BUG_CODE = 70
"""Exit code: an error of xla_sweeps itself (sysexits' EX_SOFTWARE)."""

LOCKED_CODE = 75
"""Exit code: another process measures the same trial; try again later (sysexits' EX_TEMPFAIL)."""

ALREADY_MEASURED = "already measured by another process"
"""Message of a `LockedError` for a trial with more records than the sweep knew of."""

_LISTED = 20
"""The most names to list beside the nearest one."""

_FRAGMENT = 5
"""Letters above which a name that holds what was given is what was meant."""


class XlaSweepsError(Exception):
    """Base of every error that is shown as one line, without a traceback.

    Attributes:
        exit_code: what the command line exits with.
    """

    exit_code = USAGE_CODE

    def _render_traceback_(self) -> list[str]:
        """The line that a notebook shows instead of the traceback; IPython asks by this name."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(XlaSweepsError):
    """A value of the configuration or the command line cannot be used."""


class StoreError(XlaSweepsError):
    """The results folder cannot be read or written."""


class LockedError(StoreError):
    """Another process is measuring the same trial, or has just measured it."""

    exit_code = LOCKED_CODE


class DeviceError(XlaSweepsError):
    """The requested device is absent or lacks a requested feature."""


REMOVED = {
    ("command", "import"): "for the study's figures use results --with-published",
    ("option", "known_records"): "leave it out; a sweep reads its records itself",
    ("option", "source.name"): "write source=NAME",
    ("option", "scenario.name"): "write scenario=NAME",
    ("predict-cost", "--samples"): "multiply 'ms a call' by the number of calls",
    ("command", "make-data"): "docs/training.md draws pictures in a few lines of Python",
    ("column", "process"): "every replicate is measured by a process of its own",
}
"""Words of earlier builds by their kind, and what to use instead."""


MEANT = {"batch": "batch_size", "bs": "batch_size", "jit_compile": "jit", "lr": "learning_rate"}
MEANT |= {"image_size": "resolution", "dtype": "precision", "framework": "backend"}
"""Words of other libraries, and the options that they stand for."""


def did_you_mean(given: str, near: Iterable[str]) -> str:
    """A hint at the first of the names that is another word than the given one; else ""."""
    meant = next((name for name in near if name != given), "")
    return f" Did you mean '{meant}'?" if meant else ""


def unknown_name(
    kind: str, given: str, allowed: Iterable[str], *, listed: int = 12, lister: str = ""
) -> ConfigError:
    """Error for a name that is not among the allowed ones, with the nearest match first.

    Args:
        kind: what the name stands for, as the user would say it ("model", "execution mode").
        given: the unknown name.
        allowed: every known name.
        listed: the most names to list; above it the message holds only their number.
        lister: the command that lists them.
    """
    names, given = list(allowed), " ".join(str(given).split())[:200]
    if instead := REMOVED.get((kind, given)):
        return ConfigError(f"{kind} '{given}' was removed: {instead}")
    folded = {name.lower(): name for name in names}
    cutoff = 0.5 if len(names) <= listed else 0.7  # among many, something is always a bit similar
    near = difflib.get_close_matches(given.lower(), list(folded), n=4, cutoff=cutoff)
    near.sort(key=lambda name: sorted(name) != sorted(given.lower()))  # swapped letters first
    if len(given) > _FRAGMENT and (whole := [name for name in folded if given.lower() in name]):
        near = [min(whole, key=len)]
    if kind == "option" and given.lower() in MEANT:
        near = [MEANT[given.lower()]]
    hint = did_you_mean(given, [folded.get(name, name) for name in near])
    if len(names) <= (listed if not hint else min(listed, _LISTED)):
        return ConfigError(f"unknown {kind} '{given}'.{hint} Allowed: {', '.join(names)}.")
    all_of = f"`{lister}` lists all {len(names)}." if lister else f"There are {len(names)}."
    return ConfigError(f"unknown {kind} '{given}'.{hint} {all_of}")
