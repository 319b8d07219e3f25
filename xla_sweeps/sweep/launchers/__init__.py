"""Launchers run the trials of a sweep: on this machine, on Ray, on Slurm, or by W&B agents.

A launcher starts the command that a person would type, and reports how it ended. What was measured
is in the records; the driver decides whether to try again, once for every launcher.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from xla_sweeps.errors import BUG_CODE, HELD_CODE, USAGE_CODE
from xla_sweeps.measure.failures import signal_name
from xla_sweeps.system.files import folder_in, tail
from xla_sweeps.system.forking import Child
from xla_sweeps.system.process import STOP_SIGNALS, ends_within, kill_tree
from xla_sweeps.system.text import redacted

NAMES = ("local", "ray", "slurm", "wandb")

COMMAND = (sys.executable, "-m", "xla_sweeps")

LOOK_S = 15.0
"""Between two looks at whether a running job has written anything."""

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
    """A signal asked it to stop, and it saved what it had."""
    DIED = "died"
    """It was killed or crashed."""
    BROKEN = "broken"
    """It could not start, stopped answering, or met an error of ours: nothing about the model."""
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
        silent_s: seconds without a line in its log after which it is killed: all its stages time
            out sooner.
        forks: whether its measuring process may be forked from one that has loaded TensorFlow.
        document: the configuration that the arguments come to, where the sweep has composed it.
    """

    arguments: tuple[str, ...]
    log: Path
    silent_s: float = math.inf
    known_records: int = 0
    accelerator: str | None = None
    slot: str | None = None
    forks: bool = False
    document: Mapping[str, Any] | None = None


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
    number = -exit_code if exit_code < 0 else exit_code - 128
    if number in STOP_SIGNALS:
        return End.STOPPED
    return {
        0: End.FINISHED,
        1: End.FINISHED,
        USAGE_CODE: End.FAILED,
        HELD_CODE: End.LOCKED,
        BUG_CODE: End.BROKEN,
    }.get(exit_code, End.DIED)


def reason_of(exit_code: int, said: str) -> str:
    """One line on why a command did not exit with 0, from its last line of output."""
    if not exit_code or (exit_code == USAGE_CODE and said):
        return said if exit_code else ""
    name = signal_name(-(exit_code - 128) if exit_code > 128 else exit_code)
    return f"{name}: {said}" if said else name


class SilenceWatch:
    """Knows whether a job has written nothing to its log for too long."""

    def __init__(self, log: Path, silent_s: float) -> None:
        self._log, self._silent_s = log, silent_s
        self._size, self._since = -1, time.monotonic()

    def is_over(self) -> bool:
        """Whether the time has passed; to be asked more often than that."""
        size = -1
        with contextlib.suppress(OSError):
            size = self._log.stat().st_size
        if size != self._size:
            self._size, self._since = size, time.monotonic()
        return time.monotonic() > self._since + self._silent_s


def make_log_folder(log: Path) -> None:
    """Make the folder of a job's log, `logs/sweeps/NAME` of a results folder.

    Raises:
        OSError: it cannot be made, or a part of it is a link.
    """
    folder_in(log.parents[3], *log.parts[-4:-1])


def wait_for(process: Child, log: Path, silent_s: float) -> int:
    """Wait for a job; its exit code, or `BUG_CODE` where it was killed because it had hung.

    Its measuring process has deadlines; this one is for the command that watches them.

    Args:
        process: the job, leader of its group.
        log: file of its output; the last line then says that it hung.
        silent_s: see `Job`.
    """
    watch = SilenceWatch(log, silent_s)
    while not ends_within(process, min(LOOK_S, silent_s / 2)):
        if watch.is_over():
            return kill_silent(process, log, silent_s)
    return process.wait()


def kill_silent(process: Child, log: Path, silent_s: float) -> int:
    """Kill a job that hangs, and say so in its log; returns `BUG_CODE`."""
    kill_tree(process.pid)
    process.wait()
    with contextlib.suppress(OSError), log.open("a", encoding="utf-8") as output:
        output.write(f"\nhung: not a line for {silent_s:.0f} s; killed\n")
    return BUG_CODE


def last_line(log: Path) -> str:
    """The last line of a job's output that is not blank."""
    return last_line_of(tail(log, limit=_TAIL_BYTES))


def last_line_of(text: str) -> str:
    """The last line of a text that is not blank."""
    lines = reversed(text.splitlines())
    return redacted(next((line.strip() for line in lines if line.strip()), ""))
