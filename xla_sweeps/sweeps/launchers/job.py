"""Run a job: the command that a person would type, its log, and how it ended.

Every launcher starts jobs with `start`, waits with `wait` and reports `ended_with`, here or on a
node of a cluster. `Job` and `Ended` travel there and back.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path

import msgspec

from xla_sweeps.errors import BUG_CODE, LOCKED_CODE, USAGE_CODE
from xla_sweeps.schema.environment_options import WANDB_DIR, WANDB_VARIABLES
from xla_sweeps.system.files import folder_in, own_file, tail
from xla_sweeps.system.leases import Leases
from xla_sweeps.system.process import (
    STOP_SIGNALS,
    Assignment,
    Stop,
    ends_within,
    kill_tree,
    python_command,
    signal_group,
    start_process,
)
from xla_sweeps.system.text import last_line_of
from xla_sweeps.trial.failures import signal_name

COMMAND = python_command("xla_sweeps")

LOOK_S = 15.0
"""Seconds between two checks whether a running job has written anything."""

_VARIABLES = (WANDB_DIR, "WANDB_MODE", "WANDB_PROJECT", "WANDB_TAGS", *WANDB_VARIABLES.values())


def wandb_variables() -> dict[str, str]:
    """W&B's variables that a person has set here, its folder as an absolute path; no key."""
    given = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
    if folder := given.get(WANDB_DIR):
        given[WANDB_DIR] = str(Path(folder).absolute())
    return given


class End(StrEnum):
    """End of a command."""

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
        known_records: number of the trial's records that the driver knows of.
        accelerator: part of the name of the device that it needs.
        slot: the one that it must run on, for a launcher that `targets` them.
        silent_s: seconds without a line in its log after which it is killed.
        folder, variables: where the person is, for relative paths, and W&B's variables there.
    """

    arguments: tuple[str, ...]
    log: Path
    silent_s: float | None = None
    known_records: int = 0
    accelerator: str | None = None
    slot: str | None = None
    folder: Path = field(default_factory=Path.cwd)
    variables: Mapping[str, str] = field(default_factory=wandb_variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """End of a job on a slot.

    Attributes:
        detail: one line on what went wrong, or "".
        records, output: its records and its log, where it had no access to the results folder.
        paths: its records' paths in the results folder, where only the job knows them.
    """

    how: End
    slot: str = ""
    detail: str = ""
    records: tuple[bytes, ...] = ()
    paths: tuple[str, ...] = ()
    output: str = ""


def one_replicate(job: Job) -> Assignment:
    """One, besides the records that this very job made before it was preempted."""
    return Assignment(
        parent=os.getpid(),
        known_records=job.known_records + len(_record_paths(job)),
        recorded=str(job.log.with_suffix(".records")),
    )


def start(
    job: Job,
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    assignment: Assignment,
    cores: Sequence[int] = (),
    turns: Collection[str] = (),
    stop: Stop,
    begin: Callable[[], object] = lambda: None,
) -> subprocess.Popen[bytes] | None:
    """Start a job, with its output appended to its log, once nobody measures alone.

    `turns` are the leases that it shares while it prepares (`leases.to_prepare`), if any; `begin`
    is called once it has them. None where a stop was requested before. Other arguments are as of
    `start_process`.
    """
    make_log_folder(job.log)
    leases = Leases(turns, holder=" ".join(job.arguments[:3]), shared=True)
    if stop.requested or not leases.wait(stop, partial(_note_wait, job)):
        leases.close()
        return None
    begin()
    mine = msgspec.structs.replace(assignment, turns=leases.held)
    try:
        with os.fdopen(own_file(job.log), "ab") as output:
            return start_process(
                [*command, *job.arguments],
                output=output,
                environment={**environment, **job.variables, **mine.environment()},
                cores=cores,
                folder=job.folder if job.folder.is_dir() else None,
                descriptors=mine.turns.values(),
            )
    finally:
        leases.hand_over()


def _note_wait(job: Job, holder: str) -> None:
    """Write to a job's log that it waits to be started, as its own stages are written there."""
    _add_line(job.log, f"{time.strftime('%H:%M:%S')} wait     for its turn, after {holder}")


def wait(
    process: subprocess.Popen[bytes],
    job: Job,
    *,
    every_s: float = LOOK_S,
    look: Callable[[], object] = lambda: None,
) -> int:
    """Wait for a job and kill what it left behind; returns its exit code.

    Its measuring process has deadlines. This one is for the command that watches them: a job that
    hangs is killed, its log says so, and `BUG_CODE` is returned. While the job runs, `look` is
    called every `every_s` seconds, for instance to stop it.
    """
    silent_s = math.inf if job.silent_s is None else job.silent_s
    size, since = -1, time.monotonic()
    while not ends_within(process, min(every_s, silent_s / 2)):
        look()
        before, size = size, _size(job.log)
        if size != before:
            since = time.monotonic()
        if time.monotonic() > since + silent_s:
            kill_tree(process.pid)
            process.wait()
            _add_line(job.log, f"\nhung: not a line for {silent_s:.0f} s; killed")
            return BUG_CODE
    signal_group(process.pid, signal.SIGKILL)
    return process.wait()


def _add_line(log: Path, line: str) -> None:
    with contextlib.suppress(OSError), os.fdopen(own_file(log), "ab") as output:
        output.write(f"{line}\n".encode())


def _size(log: Path) -> int:
    with contextlib.suppress(OSError):
        return log.stat().st_size
    return -1


def ended_with(exit_code: int, job: Job, *, slot: str) -> Ended:
    """The end of a job on a slot, from its exit code, its log and the records that it made."""
    return Ended(
        how=end_of(exit_code),
        slot=slot,
        detail=_reason(exit_code, last_line_of(tail(job.log, limit=4096))),
        paths=_record_paths(job),
    )


def _record_paths(job: Job) -> tuple[str, ...]:
    with contextlib.suppress(OSError):
        paths = job.log.with_suffix(".records").read_text("utf-8")
        return tuple(filter(None, paths.splitlines()))
    return ()


def end_of(exit_code: int) -> End:
    """The end of `python -m xla_sweeps`, from its exit code."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    if number in STOP_SIGNALS:
        return End.STOPPED
    if exit_code in (0, 1):
        return End.FINISHED
    own = {USAGE_CODE: End.FAILED, LOCKED_CODE: End.LOCKED, BUG_CODE: End.BROKEN}
    return own.get(exit_code, End.DIED)


def _reason(exit_code: int, said: str) -> str:
    """One line on why a command did not exit with 0, from its last line of output."""
    if not exit_code or (exit_code == USAGE_CODE and said):
        return said if exit_code else ""
    name = signal_name(-(exit_code - 128) if exit_code > 128 else exit_code)
    return f"{name}: {said}" if said else name


def make_log_folder(log: Path) -> None:
    """Make the folder of a job's log, `logs/sweeps/NAME` of a results folder; no part is a link."""
    folder_in(log.parents[3], *log.parts[-4:-1])
