"""Follow one measuring process: its events, deadlines, the device's lease and the size of its log.

The parent blocks in one `select`. The process may run anybody's code, so nothing that it sends,
writes or leaves behind may hold up, flood or confuse the parent.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from xla_sweeps.measure import protocol
from xla_sweeps.measure.attempt import Attempt, Watcher
from xla_sweeps.measure.quiet import QuietWait
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.schema.trial import ReplicateJob, Timeouts
from xla_sweeps.system import leases as leasing
from xla_sweeps.system.files import trim
from xla_sweeps.system.forking import Child
from xla_sweeps.system.leases import Leases, Readable

DUMP_GRACE_S = 0.5

LOG_LIMIT_BYTES = 16 * 2**20

LOOK_S = 2.0
"""Between two looks at the size of the log."""

_READ_BYTES = 1 << 16


class Dialogue:
    """The parent's side of the conversation with one measuring process.

    Args:
        process: the measuring process.
        job: what it measures.
        channel: its events.
        log: its output.
        attempt: takes in the events.
        watcher: of the machine.
        stops: what ends the process early, by reason.
        leases: to be held while it measures.
        quiet_s: how long to wait for a quiet machine before it measures.
        on_event: called with every event, between blocks.
    """

    def __init__(
        self,
        process: Child,
        job: ReplicateJob,
        channel: Any,
        log: Path,
        *,
        attempt: Attempt,
        watcher: Watcher,
        stops: Mapping[str, Readable],
        leases: Leases,
        quiet_s: float,
        on_event: Callable[[protocol.Event], None],
    ) -> None:
        self._process, self._job, self._channel, self._log = process, job, channel, log
        self._attempt, self._watcher, self._stops = attempt, watcher, stops
        self._leases, self._on_event = leases, on_event
        self._quiet = QuietWait(watcher.disturbance, quiet_s, self._say_disturbed)
        self._reader = protocol.Reader()
        self._deadline = time.monotonic() + job.trial.timeouts.build_s
        self._looked = time.monotonic()
        self._waiting = self._deaf = False
        self._unsent = msgspec.json.encode(job) + b"\n"
        self._said = -math.inf

    def follow(self) -> str:
        """Follow the process to its last event or its end; returns why it must be ended, or "".

        `closed`: it closed its channel; `flood`: it sent too much that is no event, or does not
        read the answers; `timeout`: a stage took too long; or a key of `stops`.
        """
        orders = self._process.stdin
        assert orders is not None
        os.set_blocking(orders.fileno(), False)
        with selectors.DefaultSelector() as selector, _end_of(self._process) as end:
            selector.register(orders, selectors.EVENT_WRITE)
            for source in (self._channel, *self._stops.values(), *([end] if end else [])):
                selector.register(source, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select(self._patience_s())}
                for reason, stop in self._stops.items():
                    if stop in ready:
                        return reason
                if orders in ready:
                    self._unsent = self._unsent[self._write(self._unsent) :]
                    if not self._unsent:
                        selector.unregister(orders)
                if self._channel in ready:
                    chunk = self._channel.read(_READ_BYTES)
                    if not chunk:
                        return "closed"
                    self._take(chunk)
                    if self._attempt.finished:
                        return ""
                    if self._reader.flooded or self._deaf:
                        return "flood"
                elif end in ready:
                    return ""
                if time.monotonic() >= self._deadline:
                    self._dump_stacks()
                    return "timeout"
                self._look()

    @property
    def waited_s(self) -> float:
        """How long the process waited for a quiet machine, seconds."""
        return self._quiet.waited_s

    def _patience_s(self) -> float:
        look_s = leasing.LOOK_S if self._waiting else LOOK_S
        return min(look_s, max(0.0, self._deadline - time.monotonic()))

    def _look(self) -> None:
        """Do what is to be done every few seconds."""
        if self._waiting:
            self._take_turn()
        if time.monotonic() >= self._looked + LOOK_S:
            self._looked = time.monotonic()
            trim(self._log, limit=LOG_LIMIT_BYTES)

    def _take(self, chunk: bytes) -> None:
        for event in self._reader.feed(chunk):
            self._attempt.note(event)
            match event:
                case protocol.Square():
                    self._review(event)
                    continue
                case protocol.Progressed():
                    self._on_event(event)
                    self._tell(protocol.encode(protocol.Review()))
                    continue
                case protocol.Turn():
                    self._waiting, self._deadline = True, math.inf
                    self._take_turn()
                case protocol.Stage(phase=phase):
                    limit_s = limit_of(phase, self._job.trial.timeouts)
                    self._deadline = time.monotonic() + limit_s
            self._on_event(event)

    def _review(self, square: protocol.Square) -> None:
        review = self._attempt.review(square, self._watcher)
        numbers = {item.round for item in square.rounds}
        kept = tuple(item for item in self._attempt.rounds if item.round in numbers)
        self._on_event(protocol.Square(rounds=kept))
        self._tell(protocol.encode(review))

    def _take_turn(self) -> None:
        """Let the process go on once the device is its own and quiet; no deadline runs before."""
        holder = self._leases.take()
        if not holder and self._quiet.is_over():
            self._waiting = False
            if self._watcher.gpu:
                self._watcher.gpu.begin()
            self._deadline = time.monotonic() + self._job.trial.timeouts.warmup_s
            self._tell(protocol.encode(protocol.Review()))
        elif holder and time.monotonic() >= self._said + leasing.STILL_WAITING_S:
            self._said = time.monotonic()
            self._on_event(protocol.Waiting(holder=holder))

    def _say_disturbed(self, cause: str, left_s: float) -> None:
        self._on_event(protocol.Disturbed(cause=cause, at_most_s=left_s))

    def _tell(self, line: bytes) -> None:
        """Answer the process, which waits for it: there is room, unless it does not read."""
        if self._unsent or self._write(line) < len(line):
            self._deaf = True

    def _write(self, content: bytes) -> int:
        """How much of it the process's input took; all of it where nobody reads that any more."""
        assert self._process.stdin is not None
        try:
            return os.write(self._process.stdin.fileno(), content)
        except BlockingIOError:
            return 0
        except OSError:
            return len(content)

    def _dump_stacks(self) -> None:
        """Have the child write all its stacks to the log.

        Works while native code holds the interpreter.
        """
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR1)
        time.sleep(DUMP_GRACE_S)


def limit_of(phase: Phase, timeouts: Timeouts) -> float:
    """The deadline of a stage, seconds."""
    return {
        Phase.TRACE: timeouts.trace_s,
        Phase.COMPILE: timeouts.compile_s,
        Phase.VERIFY: timeouts.compile_s,
        Phase.WARMUP: timeouts.warmup_s,
        Phase.MEASURE: timeouts.measure_s,
    }.get(phase, timeouts.build_s)


@contextlib.contextmanager
def _end_of(process: Child) -> Iterator[int | None]:
    """A descriptor that is readable once the process has ended; None on an old kernel."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
