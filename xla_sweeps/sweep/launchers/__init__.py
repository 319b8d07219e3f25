"""Where the trials of a sweep run.

A launcher starts the command a person would type, and says how it ended.

What was measured is in the records; whether to try again is the driver's to decide, once, for every
launcher.
"""

from __future__ import annotations

import sys
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from xla_sweeps.system.files import tail

NAMES = ("local", "ray", "slurm", "wandb")

COMMAND = (sys.executable, "-m", "xla_sweeps")

_TAIL_BYTES = 4096


class End(StrEnum):
    """How a command ended."""

    FINISHED = "finished"
    """It ran to its end; what it recorded says the rest."""
    FAILED = "failed"
    """It refused the request (exit code 2)."""
    HELD = "held"
    """Another process measures the same trial, or has just done so."""
    STOPPED = "stopped"
    """It was asked to stop, and saved what it had."""
    DIED = "died"
    """It went away without a word."""
    LOST = "lost"
    """The machine or the engine under it went away: nothing is known of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One command to run.

    Attributes:
        arguments: what follows the command: overrides.
        log: where its output goes.
        accelerator: part of the name of the device it needs, or None.
        lane: the very device it must run on, of a launcher that `targets` them; or None.
    """

    arguments: tuple[str, ...]
    log: Path
    accelerator: str | None = None
    lane: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a job ended.

    Attributes:
        where: the device or node it ran on.
        detail: one line on what went wrong, or "".
        records: those it made, where it had no access to the results folder.
        paths: of the records it made there, where only the job knows them.
    """

    how: End
    where: str = ""
    detail: str = ""
    records: tuple[bytes, ...] = ()
    paths: tuple[str, ...] = ()


class Launcher(Protocol):
    """Runs jobs somewhere.

    Attributes:
        name: as on the command line.
        targets: whether a job can be sent to a lane by its name.
    """

    name: str
    targets: bool

    def lanes(self) -> list[str]:
        """The devices or nodes that are known, for the screen."""

    def free(self, accelerator: str | None, lane: str | None = None) -> int:
        """How many jobs that need such a device, or that very one, may be submitted now."""

    def submit(self, job: Job) -> Future[Ended]:
        """Start a job, or queue it where the engine has its own queue.

        Never raises for what happens to the job.
        """

    def where(self, future: Future[Ended]) -> str:
        """Where the job runs now, as in `lanes`; "" while it waits."""

    def drain(self, where: str) -> bool:
        """Give a device or node no more jobs; False where that cannot be done, or leaves none."""

    def stop(self, *, now: bool) -> None:
        """Ask all running jobs to save what they have and end; `now` ends them at once."""

    def close(self) -> None:
        """End at once what still runs, and give everything back; may be called again."""


def end_of(exit_code: int) -> End:
    """What the exit code of `python -m xla_sweeps` says."""
    if exit_code in (130, 143):
        return End.STOPPED
    if exit_code < 0 or exit_code >= 128:
        return End.DIED
    return {0: End.FINISHED, 1: End.FINISHED, 2: End.FAILED, 75: End.HELD}.get(exit_code, End.DIED)


def last_line(log: Path) -> str:
    """The last line of a job's output that says something."""
    return last_word(tail(log, limit=_TAIL_BYTES))


def last_word(text: str) -> str:
    """The last line of a text that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
