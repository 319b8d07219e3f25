"""Run one measuring process: start it, follow its events, end it.

Each attempt at a replicate is a child in a process group of its own, with its output in a log file
and a deadline for every stage. The parent blocks in one `select`; a crash, a hang or a kill of the
child becomes a failure in the result.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from xla_sweeps.measure import protocol
from xla_sweeps.measure.failures import ProcessEnd, diagnose_end, diagnose_exception
from xla_sweeps.schema.measurement import Failure, ModeOutcome, Phase, Round, Status
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import ReplicateJob, Timeouts
from xla_sweeps.system.faults import fault_point
from xla_sweeps.system.files import tail
from xla_sweeps.system.process import signal_group

TERM_GRACE_S = 5.0

DUMP_GRACE_S = 0.5

_LOG_TAIL_BYTES = 8192

_READ_BYTES = 1 << 16

_MODE_PHASES = {Phase.TRACE, Phase.COMPILE, Phase.VERIFY, Phase.WARMUP}


class Watcher(Protocol):
    """Watches the machine around the measuring process; `monitor` has one."""

    def review(self, rounds: Sequence[Round]) -> Mapping[int, str]:
        """Which of these rounds are contaminated, by number, and by what."""

    def summary(self) -> Mapping[str, Any]:
        """What was seen, for the record."""


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


@dataclass
class Attempt:
    """What one measuring process reported before it ended, and how it ended.

    Attributes:
        dead_mode: the label of the mode whose preparation killed the process, or "".
        status: `ok` where the process finished; otherwise why it did not.
    """

    status: Status = Status.OK
    failure: Failure | None = None
    dead_mode: str = ""
    finished: bool = False
    model: ModelFacts | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    modes: dict[str, ModeOutcome] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    contaminated: bool = False
    sync: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    contamination: dict[str, Any] = field(default_factory=dict)
    stage: protocol.Stage = field(default_factory=lambda: protocol.Stage(phase=Phase.IMPORT))

    def note(self, event: protocol.Event) -> None:
        """Take in one event; squares are kept by `review`."""
        match event:
            case protocol.Stage():
                self.stage = event
            case protocol.Loaded(environment=environment):
                self.environment = dict(environment)
            case protocol.Built(model=model):
                self.model = model
            case protocol.ModeReady(mode=mode, outcome=outcome):
                self.modes[mode] = outcome
            case protocol.Flagged(flag=flag):
                if flag not in self.flags:
                    self.flags.append(flag)
            case protocol.Failed():
                self._note_failure(event)
            case protocol.Finished():
                self.finished = True
                self.contaminated = event.contaminated
                self.sync, self.seconds = dict(event.sync), dict(event.seconds)

    def _note_failure(self, event: protocol.Failed) -> None:
        status, failure = diagnose_exception(event.phase, event.kind, event.text)
        if event.mode:
            earlier = self.modes.get(event.mode, ModeOutcome(status=status))
            self.modes[event.mode] = replace(earlier, status=status, failure=failure)
        else:
            self.status, self.failure = status, failure

    def review(self, square: protocol.Square, watcher: Watcher) -> protocol.Review:
        """Keep a square's rounds, and say which are contaminated."""
        dirty = dict(watcher.review(square.rounds))
        known = {item.round: item for item in self.rounds}
        known.update(
            {item.round: replace(item, dirty=dirty.get(item.round, "")) for item in square.rounds}
        )
        self.rounds = [known[number] for number in sorted(known)]
        return protocol.Review(dirty=dirty)


def run_attempt(
    job: ReplicateJob,
    *,
    environment: Mapping[str, str],
    log: Path,
    watch: Watch,
    stop: Stop,
    on_event: Callable[[protocol.Event], None],
    command: Sequence[str] = (sys.executable, "-m", "xla_sweeps.tf.worker"),
) -> Attempt:
    """Run one measuring process to its end, whatever that is.

    Args:
        job: what to measure.
        environment: the complete environment of the child.
        log: file that its output is appended to.
        watch: starts the watcher beside it.
        stop: ends it early.
        on_event: called with every event, between blocks.
        command: what to start; gets our process id and the event descriptor as arguments.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    read_end, write_end = os.pipe()
    oom_before = _oom_kills()
    fault_point("spawn.before")
    with log.open("ab") as output, os.fdopen(read_end, "rb", buffering=0) as channel:
        try:
            process = subprocess.Popen(
                [*command, str(os.getpid()), str(write_end)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=dict(environment),
                pass_fds=[write_end],
                start_new_session=True,
            )
        finally:
            os.close(write_end)
        fault_point("spawn.after")
        attempt = Attempt()
        with Stop() as memory:
            stops = {"memory": memory, "interrupt": stop}
            try:
                with watch(process.pid, memory.request) as watcher:
                    killed_for = _supervise(
                        process, job, channel, attempt, watcher, stops, on_event
                    )
                    attempt.contamination = dict(watcher.summary())
            finally:
                _end_group(process)
            if memory.requested:
                killed_for = "memory"
    if attempt.finished and not killed_for:
        return attempt
    if attempt.failure is None or killed_for:
        _note_end(attempt, job, process.returncode, killed_for, log, _oom_kills() - oom_before)
    return attempt


def _supervise(
    process: subprocess.Popen[bytes],
    job: ReplicateJob,
    channel: Any,
    attempt: Attempt,
    watcher: Watcher,
    stops: Mapping[str, Stop],
    on_event: Callable[[protocol.Event], None],
) -> str:
    """Follow events until the child closes its channel, a deadline passes, or a stop is requested.

    Returns why the child must be ended, or "".
    """
    assert process.stdin is not None
    _tell(process, msgspec.json.encode(job) + b"\n")
    deadline = time.monotonic() + job.trial.timeouts.build_s
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        for stop in stops.values():
            selector.register(stop, selectors.EVENT_READ)
        while True:
            ready = {
                key.fileobj for key, _ in selector.select(max(0.0, deadline - time.monotonic()))
            }
            for reason, stop in stops.items():
                if stop in ready:
                    return reason
            if channel not in ready:
                if time.monotonic() < deadline:
                    continue
                _dump_stacks(process)
                return "timeout"
            chunk = channel.read(_READ_BYTES)
            if not chunk:
                return ""
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                event = _decoded(line)
                if event is None:
                    continue
                attempt.note(event)
                if isinstance(event, protocol.Square):
                    review = attempt.review(event, watcher)
                    numbers = {item.round for item in event.rounds}
                    on_event(
                        protocol.Square(
                            rounds=tuple(item for item in attempt.rounds if item.round in numbers)
                        )
                    )
                    _tell(process, protocol.encode(review))
                    continue
                if isinstance(event, protocol.Stage):
                    deadline = time.monotonic() + _limit_s(event.phase, job.trial.timeouts)
                on_event(event)


def _decoded(line: bytes) -> protocol.Event | None:
    """The event, or None: a native library may have written the line."""
    try:
        return protocol.decode(line)
    except msgspec.DecodeError:
        return None


def _tell(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.write(line)
        process.stdin.flush()


def _limit_s(phase: Phase, timeouts: Timeouts) -> float:
    return {
        Phase.TRACE: timeouts.trace_s,
        Phase.COMPILE: timeouts.compile_s,
        Phase.VERIFY: timeouts.compile_s,
        Phase.WARMUP: timeouts.warmup_s,
        Phase.MEASURE: timeouts.measure_s,
    }.get(phase, timeouts.build_s)


def _note_end(
    attempt: Attempt, job: ReplicateJob, exit_code: int, killed_for: str, log: Path, oom_kills: int
) -> None:
    """Note why an attempt did not finish, and which mode it was preparing."""
    stage, trial = attempt.stage, job.trial
    limit = f"{_limit_s(stage.phase, trial.timeouts):g} s"
    if killed_for == "memory":
        limit = f"{trial.memory_limit_bytes / 2**30:.1f} GiB"
    end = ProcessEnd(
        exit_code=exit_code,
        phase=stage.phase,
        killed_for=killed_for,
        limit=limit,
        oom_kills=oom_kills,
        log_tail=tail(log, limit=_LOG_TAIL_BYTES),
    )
    status, failure = diagnose_end(end)
    if stage.mode in job.modes and stage.phase in _MODE_PHASES and status is not Status.INTERRUPTED:
        attempt.dead_mode = stage.mode
        earlier = attempt.modes.get(stage.mode, ModeOutcome(status=status))
        attempt.modes[stage.mode] = replace(earlier, status=status, failure=failure)
    attempt.status, attempt.failure = status, failure


def _dump_stacks(process: subprocess.Popen[bytes]) -> None:
    """Have the child write all its stacks to the log.

    Works while native code holds the interpreter.
    """
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGUSR1)
    time.sleep(DUMP_GRACE_S)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Let the child end by itself if it is about to.

    Otherwise SIGTERM, then SIGKILL, to its whole group.
    """
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    for signal_number, grace_s in (
        (None, 0.5),
        (signal.SIGTERM, TERM_GRACE_S),
        (signal.SIGKILL, None),
    ):
        if signal_number is not None:
            signal_group(process.pid, signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
            break
    signal_group(process.pid, signal.SIGKILL)  # grandchildren that outlived it


def _oom_kills() -> int:
    """The kernel's count of out-of-memory kills: of our control group, else of all."""
    for path, key in (("/sys/fs/cgroup/memory.events", "oom_kill"), ("/proc/vmstat", "oom_kill")):
        with contextlib.suppress(OSError, ValueError):
            for line in Path(path).read_text().splitlines():
                if line.split()[0] == key:
                    return int(line.split()[1])
    return 0
