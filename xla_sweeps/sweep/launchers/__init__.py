"""Launchers run the trials of a sweep: on this machine, on Ray, on Slurm, or by W&B agents.

A launcher starts the command that a person would type, and reports how it ended. What was measured
is in the records; the driver decides whether to try again, once for every launcher.
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
    """It ran to its end; its records hold the results."""
    FAILED = "failed"
    """It refused the request (exit code 2)."""
    LOCKED = "locked"
    """Another process measures the same trial, or has just done so (exit code 75)."""
    STOPPED = "stopped"
    """It was asked to stop, and saved what it had."""
    DIED = "died"
    """It was killed or crashed."""
    LOST = "lost"
    """The node or the engine failed: nothing is known of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One command to run.

    Attributes:
        arguments: what follows the command: overrides.
        log: file for its output.
        known_records: records of the trial that the driver knows of.
        accelerator: part of the name of the device that it needs, or None.
        slot: name of the slot that it must run on, for a launcher that `targets` them; or None.
    """

    arguments: tuple[str, ...]
    log: Path
    known_records: int = 0
    accelerator: str | None = None
    slot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a job ended.

    Attributes:
        slot: the slot that it ran on.
        detail: one line on what went wrong, or "".
        records: those that it made, where it had no access to the results folder.
        paths: of the records that it made there, where only the job knows them.
    """

    how: End
    slot: str = ""
    detail: str = ""
    records: tuple[bytes, ...] = ()
    paths: tuple[str, ...] = ()


class Launcher(Protocol):
    """Runs jobs on slots: the devices of this machine, or the nodes of a cluster.

    Attributes:
        name: as on the command line.
        targets: whether a job can be sent to a slot by its name.
    """

    name: str
    targets: bool

    def slots(self) -> list[str]:
        """Names of the slots that are known, for the screen."""

    def free(self, accelerator: str | None, slot: str | None = None) -> int:
        """How many jobs that need such a device, or that slot, may be submitted now."""

    def submit(self, job: Job) -> Future[Ended]:
        """Start a job, or queue it where the engine has its own queue.

        Never raises for what happens to the job.
        """

    def slot_of(self, future: Future[Ended]) -> str:
        """The slot that the job runs on; "" while it waits."""

    def drain(self, slot: str) -> bool:
        """Give a slot no more jobs; False where that cannot be done, or leaves none."""

    def stop(self, *, now: bool) -> None:
        """Ask all running jobs to save what they have and end; `now` ends them at once."""

    def close(self) -> None:
        """End at once what still runs, and give everything back; may be called again."""


def end_of(exit_code: int) -> End:
    """How `python -m xla_sweeps` ended, from its exit code."""
    if exit_code in (130, 143):
        return End.STOPPED
    if exit_code < 0 or exit_code >= 128:
        return End.DIED
    return {0: End.FINISHED, 1: End.FINISHED, 2: End.FAILED, 75: End.LOCKED}.get(
        exit_code, End.DIED
    )


def last_line(log: Path) -> str:
    """The last line of a job's output that is not blank."""
    return last_line_of(tail(log, limit=_TAIL_BYTES))


def last_line_of(text: str) -> str:
    """The last line of a text that is not blank."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
