"""Run one measuring process: start it, follow its events, end it.

Each attempt at a replicate is a process in a group of its own, with its output in a log file
and a deadline for every stage. A crash, a hang or a kill of the child becomes a failure in the
result, and nothing that it started outlives it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from io import FileIO
from pathlib import Path

from xla_sweeps.measure import protocol
from xla_sweeps.measure.attempt import Attempt, Watcher
from xla_sweeps.measure.dialogue import LOG_LIMIT_BYTES, Dialogue, limit_of
from xla_sweeps.measure.failures import ProcessEnd, diagnose_end
from xla_sweeps.schema.measurement import ModeOutcome, Phase, Status
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system.faults import fault_point
from xla_sweeps.system.files import tail, trim
from xla_sweeps.system.forking import NOT_FORKED, Child, NotForked, Order, fork
from xla_sweeps.system.leases import Leases
from xla_sweeps.system.process import adopting_orphans, signal_group
from xla_sweeps.system.text import redacted

EXIT_GRACE_S = 0.5

TERM_GRACE_S = 5.0

_LOG_TAIL_BYTES = 8192

WORKER = (sys.executable, "-m", "xla_sweeps.tf.worker")

_MODE_PHASES = {Phase.TRACE, Phase.COMPILE, Phase.VERIFY, Phase.WARMUP}


Watch = Callable[[int, Callable[[], None]], AbstractContextManager[Watcher]]
"""Starts a watcher for a process id.

The callback is to be called once when memory passes its limit.
"""


class Stop:
    """A request to stop the child, from a signal handler or thread, that wakes the waiting parent.

    A context manager: it owns two descriptors.
    """

    def __init__(self) -> None:
        self.requested = False
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()

    def request(self) -> None:
        """Ask for the stop."""
        self.requested = True
        with contextlib.suppress(OSError):
            os.write(self._write, b"!")

    def fileno(self) -> int:
        """Readable once a stop was requested."""
        return self._read

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._read)
        os.close(self._write)


def run_attempt(
    job: ReplicateJob,
    *,
    environment: Mapping[str, str],
    log: Path,
    watch: Watch,
    stop: Stop,
    leases: Leases,
    on_event: Callable[[protocol.Event], None],
    quiet_s: float = 0.0,
    command: Sequence[str] = WORKER,
    parent: socket.socket | None = None,
) -> Attempt:
    """Run one measuring process to its end, whatever that is.

    Args:
        job: what to measure.
        environment: the complete environment of the child.
        log: file that its output is appended to.
        watch: starts the watcher beside it.
        stop: ends it early.
        leases: of the device; taken before the child times anything.
        on_event: called with every event, between blocks.
        quiet_s: how long to wait for a quiet machine before the child times anything.
        command: what to start; gets our process id and the event descriptor as arguments.
        parent: a connection to one that has loaded TensorFlow and forks the process instead, where
            it can.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    read_end, write_end = os.pipe()
    oom_before = _oom_kills()
    attempt = Attempt()
    fault_point("spawn.before")
    with (
        adopting_orphans() as mark,
        log.open("ab", buffering=0) as output,
        os.fdopen(read_end, "rb", buffering=0) as channel,
    ):
        try:
            process = _forked(attempt, parent, environment, output, write_end, job, stop)
            if process is None and not stop.requested:
                process = _fresh(attempt, command, {**environment, **mark}, output, write_end)
        finally:
            os.close(write_end)
        fault_point("spawn.after")
        if process is None:
            _note_end(attempt, job, 0, "interrupt", log, 0)
            return attempt
        talk = partial(
            Dialogue, process, job, channel, log, attempt=attempt, leases=leases, on_event=on_event
        )
        killed_for = _follow(process, attempt, talk, watch=watch, stop=stop, quiet_s=quiet_s)
    trim(log, limit=LOG_LIMIT_BYTES)
    if attempt.finished and not killed_for:
        return attempt
    if attempt.failure is None or killed_for:
        _note_end(attempt, job, process.wait(), killed_for, log, _oom_kills() - oom_before)
    return attempt


def _follow(
    process: Child,
    attempt: Attempt,
    talk: Callable[..., Dialogue],
    *,
    watch: Watch,
    stop: Stop,
    quiet_s: float,
) -> str:
    """Watch and follow the child to its end; returns what it was killed for, or ""."""
    with process, Stop() as memory:
        stops = {"memory": memory, "interrupt": stop}
        try:
            with watch(process.pid, memory.request) as watcher:
                dialogue = talk(watcher=watcher, stops=stops, quiet_s=quiet_s)
                killed_for = dialogue.follow()
                attempt.conclude(watcher)
                if quiet_s:
                    attempt.contamination["waited_s"] = round(dialogue.waited_s, 1)
        finally:
            by_itself = _end_group(process)
        if memory.requested:
            return "memory"
        return "" if killed_for == "closed" and by_itself else killed_for


def _forked(
    attempt: Attempt,
    parent: socket.socket | None,
    environment: Mapping[str, str],
    output: FileIO,
    events: int,
    job: ReplicateJob,
    stop: Stop,
) -> Child | None:
    """The measuring process from one that has loaded TensorFlow; None where that cannot be."""
    if parent is None or stop.requested:
        return None
    cores = tuple(sorted(os.sched_getaffinity(0)))
    try:
        process = fork(
            parent,
            Order(environment=dict(environment), cores=cores),
            output=output.fileno(),
            descriptors=[events],
            patience_s=job.trial.timeouts.build_s,
            stops=[stop],
        )
    except NotForked as why:
        attempt.not_forked = str(why)
        output.write(f"{NOT_FORKED}{why}\n".encode())
        return None
    attempt.process = "forked"
    return process


def _fresh(
    attempt: Attempt,
    command: Sequence[str],
    environment: Mapping[str, str],
    output: FileIO,
    events: int,
) -> Child:
    process = subprocess.Popen(
        [*command, str(os.getpid()), str(events)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        env=environment,
        pass_fds=[events],
        start_new_session=True,
    )
    attempt.process = "fresh"
    return process


def _note_end(
    attempt: Attempt, job: ReplicateJob, exit_code: int, killed_for: str, log: Path, oom_kills: int
) -> None:
    """Note why an attempt did not finish, and which mode it was preparing."""
    stage, trial = attempt.stage, job.trial
    limit = f"{limit_of(stage.phase, trial.timeouts):g} s"
    if killed_for == "memory":
        limit = f"{trial.memory_limit_bytes / 2**30:.1f} GiB"
    end = ProcessEnd(
        exit_code=exit_code,
        phase=stage.phase,
        killed_for=killed_for,
        limit=limit,
        oom_kills=oom_kills,
        log_tail=redacted(tail(log, limit=_LOG_TAIL_BYTES)),
    )
    status, failure = diagnose_end(end)
    if stage.mode in job.modes and stage.phase in _MODE_PHASES and status is not Status.INTERRUPTED:
        attempt.dead_mode = stage.mode
        earlier = attempt.modes.get(stage.mode, ModeOutcome(status=status))
        attempt.modes[stage.mode] = replace(earlier, status=status, failure=failure)
    attempt.status, attempt.failure = status, failure


def _end_group(process: Child) -> bool:
    """Let the child end by itself if it is about to; returns whether it did.

    Otherwise SIGTERM, then SIGKILL, to its whole group.
    """
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    for signal_number, grace_s in (
        (None, EXIT_GRACE_S),
        (signal.SIGTERM, TERM_GRACE_S),
        (signal.SIGKILL, None),
    ):
        if signal_number is not None:
            signal_group(process.pid, signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
            break
    signal_group(process.pid, signal.SIGKILL)  # grandchildren that outlived it
    return signal_number is None


def _oom_kills() -> int:
    """The kernel's count of out-of-memory kills: of our control group, else of all."""
    for path, key in (("/sys/fs/cgroup/memory.events", "oom_kill"), ("/proc/vmstat", "oom_kill")):
        with contextlib.suppress(OSError, ValueError):
            for line in Path(path).read_text().splitlines():
                if line.split()[0] == key:
                    return int(line.split()[1])
    return 0
