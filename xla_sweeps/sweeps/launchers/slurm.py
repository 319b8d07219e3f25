"""Run jobs on a Slurm cluster from a login node: arrays of commands, over a shared file system.

Each task of an array runs `slurm_task`, which writes a file about every job that ended; this side
submits, polls and reads those files. Needs no accounting database and no network; submitted jobs go
on without this process.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from xla_sweeps.errors import ConfigError
from xla_sweeps.store.store import folder_below
from xla_sweeps.sweeps.launchers import (
    AHEAD,
    ONE_OR_MORE,
    QUEUE_LIMIT,
    SLOTS,
    Launcher,
    LauncherRequest,
    Options,
    key_and_value,
)
from xla_sweeps.sweeps.launchers.job import End, Ended, Job
from xla_sweeps.sweeps.launchers.slurm_task import ListedJob
from xla_sweeps.system.process import python_command
from xla_sweeps.system.text import last_line_of

POLL_S = 1.0

MAX_ARRAY = 1000

GONE_POLLS = 5
"""Polls in a row without the task in the queue and without its file before it counts as lost."""

QUIET_POLLS, PATIENCE_POLLS = 5, 60
"""Polls after which a chunk that is not full waits no longer: without a new job, and in all."""

DEFAULTS = {
    **{"signal": "B:USR1@120", "ntasks": "1", "job-name": "xla-sweeps"},
    **{"cpus-per-task": "8", "mem": "16G"},
}
"""Options of sbatch; many sites give a task that asks for nothing one core and little memory.

No time: a job that asks for more than its partition allows waits forever, and partitions have a
default.
"""

_OPTION = re.compile(r"[a-z][a-z-]*")

_PASSING = re.compile(r"unable to contact|timed out|did not answer|temporar", re.IGNORECASE)
"""Messages of sbatch after which it is worth trying again."""

_TOO_MANY = re.compile(r"submit limit|MaxSubmit|array spec|array size", re.IGNORECASE)
"""Messages of sbatch where a site takes fewer tasks of an array, or of a user, at once."""

_SUBMITTED = re.compile(r"^(\d+)", re.MULTILINE)


@dataclass(eq=False)
class _Submitted:
    """A job in the queue, the file that says how it ended, and `ARRAY_INDEX` once submitted."""

    future: Future[Ended]
    job: Job
    end: Path
    task: str = ""
    node: str = ""
    missed: int = 0
    waited: int = 0  # polls


class SlurmLauncher(Launcher):
    """Submit jobs with `sbatch`.

    The results folder is on a file system that login node and nodes share: scripts and end files
    are written below it. The option `slurm` holds sbatch's options by long name; `{accelerator}` in
    a value is replaced by the job's, `none` removes an option.
    """

    name = "slurm"
    options: ClassVar[Options] = {
        "slurm": {
            "action": "append",
            "type": key_and_value,
            "metavar": "KEY=VALUE",
            "help": "an option of sbatch, as in partition=gpu (repeatable)",
        },
        "chunk": {"type": ONE_OR_MORE, "help": "trials in one task of the job array (default: 1)"},
        "slots": SLOTS,
        **AHEAD,
    }

    def __init__(self, request: LauncherRequest) -> None:
        self._warn, self._command = request.warn, list(request.command)
        self._options, self._ahead = _check_options(request.options)
        if self._ahead and self._options.get("gres") != "none":
            self._warn(
                f"{self._ahead[0]} is 0 on GPUs: waiting trials keep GPU memory; for CPU nodes add "
                "--slurm gres=none"
            )
        self._chunk: int = request.options.get("chunk", 1)
        self.asked_slots = request.options.get("slots")
        self._queue_limit: int = self.asked_slots or QUEUE_LIMIT
        self._most = self._queue_limit  # tasks that the site takes at once, as far as it is known
        for tool in ("sbatch", "squeue", "scancel"):
            if shutil.which(tool) is None:
                raise ConfigError(
                    f"--launcher slurm: {tool} not found; run this on a login node of the cluster"
                )
        stamp = datetime.datetime.now().strftime("%Y%m%dT%H%M%S")
        parent = folder_below(request.results_dir.resolve(), "slurm")
        self._folder = parent / f"{stamp}-{os.getpid()}"
        self._folder.mkdir()
        self._lock = threading.Lock()
        self._waiting: list[_Submitted] = []
        self._jobs: dict[Future[Ended], _Submitted] = {}
        self._numbers = itertools.count(1)
        self._stopping = False
        self._closed = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="slurm", daemon=True)
        self._poller.start()

    @classmethod
    def preview(cls, options: Mapping[str, Any], *, jobs: int, results_dir: Path) -> str:
        """The batch script of the jobs that do not name an accelerator."""
        chosen, ahead = _check_options(options)
        folder = results_dir.resolve() / "slurm" / "TIME-PID"
        tasks = min(MAX_ARRAY, -(-jobs // int(options.get("chunk", 1))))
        listed = folder / "000001.jobs.json"
        return script_of(
            chosen, accelerator=None, tasks=tasks, jobs=listed, output=folder, ahead=ahead
        )

    def slots(self) -> list[str]:
        """The nodes that jobs run on now."""
        return sorted({submitted.node for submitted in self._items() if submitted.node})

    def free(self, accelerator: str | None, slot: str | None = None) -> int:
        """The number of further jobs that may be queued."""
        return 0 if self._stopping else max(0, self._queue_limit - len(self._jobs))

    def submit(self, job: Job) -> Future[Ended]:
        """Queue a job; jobs that come close together share an array."""
        end = self._folder / f"{next(self._numbers):06d}.end.json"
        submitted = _Submitted(Future(), replace(job, log=job.log.absolute()), end)
        with self._lock:
            self._waiting.append(submitted)
            self._jobs[submitted.future] = submitted
        return submitted.future

    def slot_of(self, future: Future[Ended]) -> str:
        """The node that the job runs on."""
        submitted = self._jobs.get(future)
        return submitted.node if submitted else ""

    def stop(self, *, now: bool) -> None:
        """Cancel all tasks: those that run save what they have within Slurm's KillWait.

        `now` kills them.
        """
        self._stopping = True
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for submitted in waiting:
            self._end(submitted, Ended(how=End.STOPPED))
        signal = f"--signal={'KILL' if now else 'TERM'}"
        self._cancel("--state=PENDING")
        self._cancel("--batch", signal)

    def close(self) -> None:
        """Cancel the jobs that are left, and stop polling."""
        if self._items():
            self.stop(now=True)
            self._cancel()
        self._closed.set()
        self._poller.join(10)

    def _cancel(self, *options: str) -> None:
        """Call `scancel` for the arrays that have not ended."""
        if arrays := _arrays(self._items()):
            _slurm(["scancel", *options, *arrays])

    def _items(self) -> list[_Submitted]:
        """The jobs that have not ended, as they are now: two threads add and remove them."""
        with self._lock:
            return list(self._jobs.values())

    def _take_ready(self) -> dict[str | None, list[_Submitted]]:
        """The waiting jobs to submit now, by accelerator, as many as the site takes.

        A chunk that is not full waits a while where more may come: at once, or, where the queue has
        no place left, as soon as one of its jobs ends.
        """
        queued = self._in_queue()
        room, is_full = self._most - queued, queued > 0 and not self.free(None)
        groups: dict[str | None, list[_Submitted]] = {}
        with self._lock:
            for submitted in self._waiting:
                submitted.waited += 1
                groups.setdefault(submitted.job.accelerator, []).append(submitted)
            for accelerator, jobs in groups.items():
                more = is_full or jobs[-1].waited <= QUIET_POLLS
                more = more and jobs[0].waited <= PATIENCE_POLLS
                chunks = len(jobs) // self._chunk if more else -(-len(jobs) // self._chunk)
                chunks = max(0, min(chunks, room))
                room -= chunks
                groups[accelerator] = jobs[: chunks * self._chunk]
            taken = set(itertools.chain(*groups.values()))
            self._waiting = [each for each in self._waiting if each not in taken]
        return groups

    def _wait_again(self, jobs: Sequence[_Submitted]) -> None:
        with self._lock:
            self._waiting += jobs

    def _in_queue(self) -> int:
        """The number of tasks that were submitted and have not ended."""
        return len({submitted.task for submitted in self._items() if submitted.task})

    def _poll(self) -> None:
        """Submit and poll, until closed; no error ends it: the driver waits for its reports."""
        warned = ""
        while not self._closed.wait(POLL_S):
            try:
                for accelerator, items in self._take_ready().items():
                    for jobs in _split(items, MAX_ARRAY * self._chunk):
                        self._try_to_submit(jobs, accelerator)
                self._review()
            except Exception as error:
                if warned != (warned := f"{type(error).__name__}: {error}"):
                    self._warn(f"cannot follow Slurm's queue at the moment: {warned}")

    def _try_to_submit(self, jobs: Sequence[_Submitted], accelerator: str | None) -> None:
        """Submit an array; if that fails its jobs end, to be tried again unless Slurm refused.

        One that is too large is submitted in halves; what a full queue does not take waits.
        """
        in_queue = self._in_queue()
        if in_queue >= self._most:
            self._wait_again(jobs)
            return
        try:
            why = self._submit_array(jobs, accelerator)
        except Exception as error:  # a full disk, a file system that is away
            how, why = End.LOST, f"cannot submit: {error}"
        else:
            how = End.LOST if _PASSING.search(why) else End.FAILED
        if _TOO_MANY.search(why) and not self._stopping:
            if half := -(-len(jobs) // self._chunk) // 2 * self._chunk:
                for part in (jobs[:half], jobs[half:]):
                    self._try_to_submit(part, accelerator)
                return
            if in_queue:
                self._most = in_queue
                self._wait_again(jobs)
                return
        if not why:
            self._most = min(self._queue_limit, self._most + 1)  # others' jobs may have ended
            return
        for submitted in jobs:
            self._end(submitted, Ended(how=how, detail=why))

    def _submit_array(self, waiting: Sequence[_Submitted], accelerator: str | None) -> str:
        """Write the jobs and the script, and submit it; returns why Slurm rejected it, or ""."""
        chunks = list(_split(waiting, self._chunk))
        listed = self._folder / f"{waiting[0].end.name.partition('.')[0]}.jobs.json"
        jobs = [[ListedJob(self._command, one.job, one.end) for one in chunk] for chunk in chunks]
        listed.write_bytes(msgspec.json.encode(jobs, enc_hook=str))  # a Path as text
        script = listed.with_suffix(".sh")
        text = script_of(
            self._options,
            accelerator=accelerator,
            tasks=len(chunks),
            jobs=listed,
            output=self._folder,
            ahead=self._ahead,
        )
        script.write_text(text, encoding="utf-8")
        done = _slurm(["sbatch", "--parsable", str(script)])
        submitted = _SUBMITTED.search(done.stdout)
        if done.returncode or not submitted:
            message = last_line_of(done.stderr or done.stdout)
            return message or "sbatch rejected the array (no message)"
        for place, queued in enumerate(waiting):
            queued.task = f"{submitted[1]}_{place // self._chunk}"
        if self._stopping:  # too late to have been cancelled with the others
            _slurm(["scancel", submitted[1]])
        return ""

    def _review(self) -> None:
        """Find the jobs that ended, and those that vanished from the queue."""
        jobs = [submitted for submitted in self._items() if submitted.task]
        for submitted in jobs:
            self._has_ended(submitted)
        left = [submitted for submitted in jobs if submitted.future in self._jobs]
        if not left:
            return
        nodes = _queue(_arrays(left))
        if nodes is None:
            return
        for submitted in left:
            submitted.node = nodes.get(submitted.task, "")
            submitted.missed = 0 if submitted.task in nodes else submitted.missed + 1
            if submitted.missed >= GONE_POLLS and not self._has_ended(submitted):
                how = End.STOPPED if self._stopping else End.LOST
                detail = f"task {submitted.task} vanished from the queue without a result file"
                self._end(submitted, Ended(how=how, detail=detail))

    def _has_ended(self, submitted: _Submitted) -> bool:
        """True if the job has ended; its end is then reported."""
        with contextlib.suppress(OSError, msgspec.DecodeError, msgspec.ValidationError):
            self._end(submitted, msgspec.json.decode(submitted.end.read_bytes(), type=Ended))
            return True
        return False

    def _end(self, submitted: _Submitted, ended: Ended) -> None:
        with self._lock:
            pending = self._jobs.pop(submitted.future, None)
        if pending is not None:
            submitted.future.set_result(ended)


def _split(jobs: Sequence[_Submitted], size: int) -> Iterator[Sequence[_Submitted]]:
    return (jobs[first : first + size] for first in range(0, len(jobs), size))


def _check_options(options: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Check the options of sbatch; returns them, and the words of what prepares ahead.

    Raises:
        ConfigError: one is no option of sbatch, or a task has no job that could prepare.
    """
    chosen = dict(options.get("slurm", ()))
    for key, value in chosen.items():
        if not _OPTION.fullmatch(key):
            expected = "expected a long option of sbatch, as in partition=gpu"
            raise ConfigError(f"--slurm {key}=…: {expected}")
        if not value.isprintable():
            raise ConfigError(f"--slurm {key}={value!r}: holds a control character; remove it")
    if not (ahead := options.get("ahead")):
        return chosen, []
    if options.get("chunk", 1) <= ahead:
        raise ConfigError(
            f"--ahead={ahead} needs --chunk {ahead + 1} or more: trials prepare ahead within a task"
        )
    return chosen, [f"--ahead={ahead}"]


def script_of(
    options: Mapping[str, str],
    *,
    accelerator: str | None,
    tasks: int,
    jobs: Path,
    output: Path,
    ahead: Sequence[str] = (),
) -> str:
    """The batch script of an array of tasks; it holds no secret.

    The options are those of sbatch by long name; of `array` only `%N` counts, the most tasks at
    once. The accelerator replaces `{accelerator}` in their values; without one, such options are
    left out. `jobs` is the file that lists them, `ahead` the words by which they prepare ahead. A
    value that would leave its line is a ValueError.
    """
    if not accelerator:
        options = {key: text for key, text in options.items() if "{accelerator}" not in text}
    gres = "gpu:{accelerator}:1" if accelerator else "gpu:1"
    chosen = {
        "gres": gres,
        **DEFAULTS,
        **options,
        "array": "".join([f"0-{tasks - 1}", *options.get("array", "").partition("%")[1:]]),
        "output": str(output / "%A_%a.out"),
        "open-mode": "append",
    }
    kind = (accelerator or "").lower()
    for value in (kind, *chosen.values()):
        if not value.isprintable():
            raise ValueError(f"{value!r} holds a control character")
    lines = [
        f"#SBATCH --{key}={shlex.quote(value.replace('{accelerator}', kind))}"
        for key, value in chosen.items()
        if value != "none"
    ]
    command = python_command("xla_sweeps.sweeps.launchers.slurm_task", str(jobs), *ahead)
    lines += ["#SBATCH --requeue", f"exec {shlex.join(command)}"]
    return "\n".join(["#!/bin/bash", *lines, ""])


def _arrays(jobs: Sequence[_Submitted]) -> list[str]:
    """The ids of the arrays of the jobs that were submitted."""
    return sorted({job.task.partition("_")[0] for job in jobs if job.task})


def _queue(arrays: Sequence[str]) -> dict[str, str] | None:
    """Node by task, for the queued tasks of these arrays; None where Slurm does not answer."""
    words = ["--noheader", "--array", "--format=%i %N", f"--jobs={','.join(arrays)}"]
    done = _slurm(["squeue", *words])
    if done.returncode:
        return {} if "Invalid job id" in done.stderr else None
    pairs = (line.strip().partition(" ") for line in done.stdout.splitlines() if line.strip())
    return {task: node.strip() for task, _, node in pairs}


def _slurm(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The answer of one of Slurm's commands; where there is none, its error says why."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        reason = f"{command[0]} did not answer within 60 s"
    except OSError as error:
        reason = f"cannot start {command[0]}: {error.strerror}"
    return subprocess.CompletedProcess(command, 1, "", reason)
