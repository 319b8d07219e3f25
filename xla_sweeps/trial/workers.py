"""One measuring process, the worker, as its parent has it: started, asked, watched and ended.

It is in a group of its own, with its output in a log file and a deadline for every request. It may
run anybody's code, so nothing that it sends, writes or leaves behind may delay, flood or confuse
the parent. A crash, a hang or a kill of it becomes a failure in the result.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

from xla_sweeps.errors import StoreError
from xla_sweeps.schema.backend import Backend, backend_named
from xla_sweeps.schema.measurement import Failure, Phase, Status
from xla_sweeps.schema.modes import mode_of
from xla_sweeps.schema.trial import Timeouts, Trial
from xla_sweeps.system.devices import Device, read_or_empty
from xla_sweeps.system.environment import child_environment
from xla_sweeps.system.files import drop_lines, own_file, scratch_folder, tail, trim
from xla_sweeps.system.installation import cure
from xla_sweeps.system.process import Stop, end_of, ends_within, signal_group
from xla_sweeps.system.text import redact
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import WorkerLost, diagnose_end, diagnose_exception, timeout_key

EXIT_GRACE_S = 0.5

TERM_GRACE_S = 5.0

KILL_GRACE_S = 30.0

DUMP_GRACE_S = 0.5

CLOCK_TOLERANCE = 0.05

CLOCK_SLACK_S = 1.0
"""Seconds that a reply may be read later than it was sent, on a busy machine."""

LOG_LIMIT_BYTES = 16 * 2**20

LOOK_S = 2.0  # between two looks at the size of the log

_NOISE = re.compile(rb"Delay kernel timed out: measured time has sub-optimal accuracy")
"""XLA's autotuner writes it dozens of times on a GPU."""

_MODE_PHASES = {Phase.TRACE, Phase.COMPILE, Phase.VERIFY, Phase.WARMUP}

Answer = TypeVar("Answer", bound=protocol.Reply)


class RequestFailed(Exception):
    """A Python exception ended a request; the worker goes on, unless it was setting up."""

    def __init__(self, status: Status, failure: Failure) -> None:
        self.status, self.failure = status, failure
        super().__init__(failure.message)


def worker_environment(trial: Trial, device: Device, backend: Backend) -> dict[str, str]:
    """The complete environment of a trial's worker of a backend."""
    variables = child_environment(os.environ, device=device, backend=backend)
    return variables | dict(backend.environment(trial, variables))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCommand:
    """Whose worker is started, and its surroundings.

    Attributes:
        backend: whose `worker` is started, with our process id and the channel's descriptor.
        trial: what it builds; sets the limits of its stages and its memory.
        python: another interpreter than the backend's; "" for that.
        folder: to start it in, where the model's code is looked for; None for the current one.
    """

    backend: Backend
    environment: Mapping[str, str]
    log: Path
    labels: tuple[str, ...]
    trial: Trial
    python: str = ""
    folder: Path | None = None

    @property
    def surroundings(self) -> dict[str, Any]:
        """The backend, the device and the number of workers that share it, for a diagnosis."""
        trial = self.trial
        return {"backend": self.backend, "device": trial.device, "workers": len(trial.workers)}


class Worker(AbstractContextManager["Worker"]):
    """A started worker; a context manager that ends it.

    Attributes:
        memory: to be requested once its memory passes the limit.
        clock_differs: whether its clock, which the model's code may have replaced, is not this
            process's.
    """

    def __init__(
        self,
        command: WorkerCommand,
        process: subprocess.Popen[bytes],
        channel: FileIO,
        opened: ExitStack,
        *,
        stop: Stop,
        on_event: Callable[[protocol.Event], None],
    ) -> None:
        self.labels, self.memory = command.labels, Stop()
        self.stage = protocol.Stage(phase=Phase.IMPORT)
        self._command, self._process, self._channel = command, process, channel
        self._opened = opened
        self._stops: Mapping[str, Stop] = {"memory": self.memory, "interrupt": stop}
        self._on_event, self._reader = on_event, protocol.Reader()
        self._looked, self._oom_kills = time.monotonic(), oom_kills()
        self._ended, self._unsent, self._deadline = False, b"", 0.0
        self._timed_first: tuple[float, float] | None = None
        self.clock_differs = False
        assert process.stdin is not None
        self._requests = process.stdin.fileno()
        os.set_blocking(self._requests, False)

    def __exit__(self, *ended: object) -> None:
        self.close()
        self.memory.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def request(
        self, message: protocol.Request, expected: type[Answer], *, deadline_s: float
    ) -> Answer:
        """Send a request and wait for its reply, as `receive` does."""
        self.send(message, deadline_s=deadline_s)
        return self.receive(expected)

    def send(self, message: protocol.Request, *, deadline_s: float) -> None:
        """Send a request, or what fits now; its reply must be received before the next one."""
        mode = getattr(message, "mode", "")
        self.stage = protocol.Stage(phase=message.phase, mode=mode)
        self._deadline, content = time.monotonic() + deadline_s, protocol.encode(message)
        self._unsent = content[self._write(content) :]

    def receive(self, expected: type[Answer]) -> Answer:
        """Wait for the reply to what was sent; events that come meanwhile are passed on.

        A stage that begins meanwhile has the trial's own deadline.

        Raises:
            RequestFailed: an exception ended the request.
            WorkerLost: the worker ended, or had to be ended: it missed the deadline, passed its
                memory limit, misused its channel, or a stop was requested.
        """
        reply, reason = self._answer()
        if isinstance(reply, expected):
            return reply
        if isinstance(reply, protocol.Failed):
            command = self._command
            status, failure = diagnose_exception(
                reply.phase, reply.kind, reply.text, line=reply.line, **command.surroundings
            )
            if reply.phase is Phase.IMPORT or reply.kind in ("ImportError", "ModuleNotFoundError"):
                failure = replace(failure, hint=cure(*command.backend.packages) or failure.hint)
            raise RequestFailed(status, failure)
        raise self._diagnose_loss(reason or "flood")

    def request_or_end(
        self, message: protocol.Request, expected: type[Answer], *, deadline_s: float
    ) -> Answer:
        """Like `request`; an exception ends the worker too, as a `WorkerLost`."""
        self.send(message, deadline_s=deadline_s)
        return self.receive_or_end(expected)

    def receive_or_end(self, expected: type[Answer]) -> Answer:
        """Like `receive`; an exception ends the worker too, as a `WorkerLost`."""
        try:
            return self.receive(expected)
        except RequestFailed as failed:
            self.close()
            lost = WorkerLost(self.labels, status=failed.status, failure=failed.failure)
            raise lost from failed

    def require_alive(self) -> None:
        """Raise a `WorkerLost`, of which no mode is the cause, if it ended while it waited."""
        if self._process.poll() is not None:
            self.stage = protocol.Stage(phase=Phase.BUILD)
            raise self._diagnose_loss("died")

    def close(self) -> bool:
        """End it; returns whether it had ended by itself. What it started ends with it."""
        if self._ended:
            return True
        self._ended = True
        try:
            return end_group(self._process)
        finally:
            self._process.__exit__(None, None, None)
            trim(self._command.log, limit=LOG_LIMIT_BYTES)
            drop_lines(self._command.log, _NOISE)  # reads all of it
            self._opened.close()

    def _answer(self) -> tuple[protocol.Reply | None, str]:
        """The reply, or why there is none: a key of `_stops`, or as `killed_for` of a diagnosis."""
        with selectors.DefaultSelector() as selector, end_of(self._process) as end:
            selector.register(self._requests, selectors.EVENT_WRITE)
            sources: list[FileIO | Stop | int] = [self._channel, *self._stops.values()]
            for source in sources if end is None else [*sources, end]:
                selector.register(source, selectors.EVENT_READ)
            while True:
                left_s = max(0.0, self._deadline - time.monotonic())
                ready = {key.fileobj for key, _ in selector.select(min(LOOK_S, left_s))}
                for reason, stop in self._stops.items():
                    if stop in ready:
                        return None, reason
                if self._requests in ready:
                    self._unsent = self._unsent[self._write(self._unsent) :]
                    if not self._unsent:
                        selector.unregister(self._requests)
                if self._channel in ready:
                    chunk = self._channel.read(1 << 16)
                    if not chunk:
                        return None, "closed"
                    reply = self._take(chunk)
                    if reply is not None:
                        return reply, ""
                    if self._reader.flooded:
                        return None, "flood"
                elif end in ready:
                    return None, "died"
                if time.monotonic() >= self._deadline:
                    # It writes all its stacks to the log, even while native code runs.
                    self._process.send_signal(signal.SIGUSR1)
                    time.sleep(DUMP_GRACE_S)
                    return None, "timeout"
                if time.monotonic() >= self._looked + LOOK_S:
                    self._looked = time.monotonic()
                    trim(self._command.log, limit=LOG_LIMIT_BYTES)

    def _take(self, chunk: bytes) -> protocol.Reply | None:
        """Pass on the events in a chunk; returns the reply, if it is there."""
        reply = None
        for message in self._reader.feed(chunk):
            if isinstance(message, protocol.Stage):
                self.stage = message
                limit_s = limit_of(message.phase, self._command.trial.timeouts)
                self._deadline = time.monotonic() + limit_s
            if isinstance(message, protocol.Timed):
                self._check_clock(message.clock_ns / 1e9)
            if isinstance(message, protocol.Event):
                self._on_event(message)
            else:
                reply = message
        return reply

    def _check_clock(self, there_s: float) -> None:
        here_s = time.monotonic()
        self._timed_first = self._timed_first or (here_s, there_s)
        here, there = here_s - self._timed_first[0], there_s - self._timed_first[1]
        self.clock_differs = abs(here - there) > CLOCK_TOLERANCE * here + CLOCK_SLACK_S

    def _write(self, content: bytes) -> int:
        """Number of bytes that the worker's input took; all if nobody reads it any more."""
        try:
            return os.write(self._requests, content)
        except BlockingIOError:
            return 0
        except OSError:
            return len(content)

    def _diagnose_loss(self, reason: str) -> WorkerLost:
        """End what is left of it, and say why it ended and which mode it was preparing."""
        by_itself, stage, command = self.close(), self.stage, self._command
        if reason == "died" or (reason == "closed" and by_itself):
            reason = ""
        limit = f"{limit_of(stage.phase, command.trial.timeouts):g} s"
        if reason == "memory":
            limit = f"{command.trial.memory_limit_bytes / 2**30:.1f} GiB"
        status, failure = diagnose_end(
            stage.phase,
            -signal.SIGKILL if (code := self._process.poll()) is None else code,
            killed_for=reason,
            limit=limit,
            oom_kills=oom_kills() - self._oom_kills,
            log_tail=redact(tail(command.log, limit=8192)),
            **command.surroundings,
        )
        interrupted = status is Status.INTERRUPTED
        blamed = stage.mode in self.labels and stage.phase in _MODE_PHASES and not interrupted
        mode = stage.mode if blamed else ""
        return WorkerLost(self.labels, status=status, failure=failure, mode=mode)


def commands_of(trial: Trial, device: Device, log: Path) -> tuple[WorkerCommand, ...]:
    """Commands of a trial's workers on a device, in the order of `Trial.workers`."""
    backends = [backend_named(mode_of(labels[0]).backend) for labels in trial.workers]
    return tuple(
        WorkerCommand(
            backend=backend,
            environment=worker_environment(trial, device, backend),
            log=log,
            labels=labels,
            trial=trial,
        )
        for backend, labels in zip(backends, trial.workers, strict=True)
    )


def start(
    command: WorkerCommand,
    *,
    mark: Mapping[str, str],
    stop: Stop,
    on_event: Callable[[protocol.Event], None],
) -> Worker | None:
    """Start a worker with a temporary folder of its own; None if a stop was requested meanwhile.

    Raises:
        StoreError: it cannot be started with its log, or the temporary folder cannot be used.
    """
    if stop.requested:
        return None
    with ExitStack() as opened:
        folder = opened.enter_context(scratch_folder())
        try:
            process, channel = _open_process(command, {**mark, "TMPDIR": str(folder)})
        except OSError as error:
            raise StoreError(
                f"cannot start the measuring process with its log {command.log}: "
                f"{error.strerror or error}"
            ) from error
        opened.enter_context(channel)
        return Worker(command, process, channel, opened.pop_all(), stop=stop, on_event=on_event)


def _open_process(
    command: WorkerCommand, variables: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], FileIO]:
    """A process with its log and further variables, and the channel on which it answers."""
    command.log.parent.mkdir(parents=True, exist_ok=True)
    python, *program = command.backend.command("worker")
    read_end, write_end = os.pipe()
    channel = FileIO(read_end)
    try:
        with FileIO(own_file(command.log), "ab") as output:
            process = subprocess.Popen(
                [command.python or python, *program, str(os.getpid()), str(write_end)],
                cwd=command.folder,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**command.environment, **variables},
                pass_fds=[write_end],
                start_new_session=True,
            )
    except OSError:
        channel.close()
        raise
    finally:
        os.close(write_end)
    return process, channel


def limit_of(phase: Phase, timeouts: Timeouts) -> float:
    """The deadline of a stage, seconds."""
    limit_s: float = getattr(timeouts, f"{timeout_key(phase)}_s")
    return limit_s


def end_group(process: subprocess.Popen[bytes]) -> bool:
    """Let a process end by itself if it is about to; returns whether it did.

    Otherwise SIGTERM, then SIGKILL, to its whole group. One that the kernel cannot end, as with a
    lost GPU, is left to it.
    """
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    by_itself = ends_within(process, EXIT_GRACE_S)
    if not by_itself:
        signal_group(process.pid, signal.SIGTERM)
        ends_within(process, TERM_GRACE_S)
    signal_group(process.pid, signal.SIGKILL)  # it, or grandchildren that outlived it
    ends_within(process, KILL_GRACE_S)
    return by_itself


def oom_kills() -> int:
    """The kernel's count of out-of-memory kills: of our control group, else of all."""
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        if kills := re.search(r"^oom_kill (\d+)", read_or_empty(Path(path)), re.M):
            return int(kills[1])
    return 0
