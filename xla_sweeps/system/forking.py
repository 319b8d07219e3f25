"""Fork processes from a parent that has loaded their libraries; the caller supervises them.

The parent (`serve`) forks one process at a time. It is reached through an inherited socket, so that
it ends once nobody can reach it. The caller (`fork`) gives the process its descriptors, sees its
exit code, and ends it by closing: the parent then kills what is left. The kernel ends the process
of a parent that died.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

import msgspec

from xla_sweeps.system.environment import software_stamp
from xla_sweeps.system.leases import Readable
from xla_sweeps.system.process import (
    ORPHANS_S,
    adopting_orphans,
    die_with_parent,
    signal_group,
    signal_process,
    start_process,
)
from xla_sweeps.system.text import counted

MAX_STARTS = 4
"""Maximum starts of a parent that takes no order, as where loading its libraries kills it."""

CLOSE_S = 5.0

LOST_S = 20.0
"""Seconds that a process that is no longer wanted has to save its results."""

_MESSAGE_BYTES = 1 << 20

_DESCRIPTORS = 8


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Order to fork a process.

    Attributes:
        environment: the complete environment.
        cores: numbers of the cores that it may use.
        arguments: for the function that the parent runs.
        software: stamp of what a process that starts now would load.
    """

    environment: dict[str, str]
    cores: tuple[int, ...]
    arguments: tuple[str, ...] = ()
    software: str = msgspec.field(default_factory=software_stamp)


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    pid: int = 0
    exit_code: int | None = None
    refused: str = ""


class NotForked(Exception):
    """Nothing was forked; the text says why, in a few words."""


class Forked:
    """A process that a parent forked, with what is used of `subprocess.Popen`.

    Attributes:
        pid: its id, which no other process gets before `close`; leader of a group of its own.
        stdin: writes to its standard input.
        returncode: as of `Popen`; `-SIGKILL` where its parent died with it.
    """

    def __init__(self, pid: int, answers: socket.socket, stdin: BinaryIO) -> None:
        self.pid, self.stdin = pid, stdin
        self.returncode: int | None = None
        self._answers = answers

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns the exit code.

        Raises:
            subprocess.TimeoutExpired: it did not end within `timeout` seconds.
        """
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked process", timeout or 0.0)
            code = _received(self._answers).exit_code
            self.returncode = -signal.SIGKILL if code is None else code
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def close(self) -> None:
        """Have the parent kill what is left of it, and return once that is done."""
        with contextlib.suppress(OSError):
            self.stdin.close()
        with self._answers, contextlib.suppress(OSError):
            self._answers.shutdown(socket.SHUT_WR)
            self._answers.settimeout(ORPHANS_S + CLOSE_S)
            while self._answers.recv(_MESSAGE_BYTES):
                pass


Child = subprocess.Popen[bytes] | Forked


def fork(
    parent: socket.socket,
    order: Order,
    *,
    output: int,
    descriptors: Sequence[int] = (),
    patience_s: float,
    stops: Sequence[Readable] = (),
) -> Forked:
    """Have a parent fork a process.

    Args:
        parent: a connection to it.
        order: what to fork.
        output: descriptor for standard output and error.
        descriptors: further ones that the process gets.
        patience_s: how long to wait for a parent that still loads what it needs.
        stops: readable where the wait is to end.

    Raises:
        NotForked: it cannot, or the wait was ended: a fresh process is to be started, or none.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    read_end, write_end = os.pipe()
    stdin = os.fdopen(write_end, "wb", buffering=0)
    with theirs:
        try:
            sent = [theirs.fileno(), read_end, output, *descriptors]
            socket.send_fds(parent, [msgspec.json.encode(order)], sent, socket.MSG_DONTWAIT)
        except (OSError, UnicodeEncodeError):
            patience_s = 0.0  # it will not answer
        finally:
            os.close(read_end)
    waiting: list[Readable] = [ours, *stops]
    ready = select.select(waiting, [], [], patience_s)[0]
    answer = _received(ours) if ours in ready else _Answer(refused="the parent does not answer")
    if not answer.pid:
        ours.close()
        stdin.close()
        raise NotForked(answer.refused or "the parent ended; its log says why")
    return Forked(answer.pid, ours, stdin)


def _received(answers: socket.socket) -> _Answer:
    """The next answer; an empty one where the parent died."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(answers.recv(_MESSAGE_BYTES), type=_Answer)
    return _Answer()


class Parent:
    """Handle of a parent: started when it is first needed, and again if it died.

    Args:
        command: runs a program that calls `inherited` and `serve`.
        environment: the complete environment.
        cores: numbers of the cores that it may use; empty where all may be used.
        log: file for its output.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        cores: Sequence[int],
        log: Path,
    ) -> None:
        self._command, self._environment = tuple(command), dict(environment)
        self._cores, self._log = tuple(cores), log
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._starts = 0

    def connection(self) -> socket.socket | None:
        """A connection, for the caller to close; None where the parent cannot be started.

        The thread that asks must live as long as the parent: the kernel ends that with it.
        """
        if self._has_taken_an_order():
            self._starts = 0
        if self._process is None or self._process.poll() is not None:
            if self._starts == MAX_STARTS:
                return None
            self._starts += 1
            self.close()
            try:
                self._start()
            except OSError:
                return None
        assert self._socket is not None
        return self._socket.dup()

    def _has_taken_an_order(self) -> bool:
        """True if it has taken one since the last check."""
        taken = False
        with contextlib.suppress(OSError):
            while self._socket and self._socket.recv(1, socket.MSG_DONTWAIT):
                taken = True
        return taken

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._log.open("ab") as output:
            self._process = start_process(
                [*self._command, str(os.getpid()), str(theirs.fileno())],
                output=output,
                environment=self._environment,
                cores=self._cores,
                descriptors=[theirs.fileno()],
            )
        self._socket = ours

    def close(self) -> None:
        """End it, once its last process has ended; by force if that takes too long."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_S)
            signal_group(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = self._socket = None


class Inherited(NamedTuple):
    """Connection and software of a program that `Parent` started.

    Attributes:
        orders: the socket, closed once that process has ended, so that `serve` returns.
        software: stamp of what there was to load when the program began.
    """

    orders: socket.socket
    software: str


def inherited() -> Inherited:
    """The connection to the process that started this one; called before anything is loaded."""
    parent, descriptor = sys.argv[-2:]
    orders = socket.socket(fileno=int(descriptor))
    orders.set_inheritable(False)
    signal.signal(signal.SIGTERM, lambda number, frame: orders.shutdown(socket.SHUT_RDWR))
    die_with_parent(int(parent), signal.SIGTERM)
    return Inherited(orders, software_stamp())


def threads() -> frozenset[str]:
    """The ids of this process's threads."""
    return frozenset(path.name for path in Path("/proc/self/task").iterdir())


def check_threads(allowed: frozenset[str]) -> None:
    """Exit where there are threads besides these: such a process cannot be forked safely."""
    if others := threads() - allowed:
        raise SystemExit(f"the parent has {counted(len(others), 'thread')} besides BLAS's")


def serve(
    inherited: Inherited,
    run: Callable[[Order, Sequence[int]], int],
    *,
    unfit: Callable[[Order], str],
    lost: signal.Signals = signal.SIGKILL,
) -> None:
    """Fork a process for each order, one at a time, until nobody can send any more.

    Args:
        inherited: as `inherited`.
        run: what each process does with its order and descriptors; returns the exit code.
        unfit: why an order is refused, or ""; SystemExit with the reason where all are.
        lost: what a process gets whose supervisor or parent has ended.
    """
    orders, loaded = inherited
    while True:
        try:
            message, received, _, _ = socket.recv_fds(
                orders, _MESSAGE_BYTES, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:  # what it was told last was not read
            return
        if not message:
            return
        with socket.socket(fileno=received.pop(0)) as answers:
            order = msgspec.json.decode(message, type=Order)
            if not _takes(order, loaded, unfit, answers):
                _close(received)
                continue
            with contextlib.suppress(OSError):
                orders.send(b"!", socket.MSG_DONTWAIT)  # for `Parent`: an order was taken
            parent = os.getpid()
            with adopting_orphans():
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
                pid = os.fork()
                if not pid:
                    work = partial(run, order, received)
                    _begin(orders, answers, received, parent, lost, work)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
                _close(received)  # so that they end with the process
                _follow(pid, answers, lost)


def _takes(
    order: Order, loaded: str, unfit: Callable[[Order], str], answers: socket.socket
) -> bool:
    """True if an order can be taken here; otherwise its sender is told why not."""
    try:
        if order.software != loaded:
            raise SystemExit("the parent has loaded older software")
        refused = unfit(order)
    except SystemExit as end:
        _say(answers, _Answer(refused=str(end)))
        raise
    if refused:
        _say(answers, _Answer(refused=refused))
    return not refused


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _begin(
    orders: socket.socket,
    answers: socket.socket,
    received: list[int],
    parent: int,
    lost: signal.Signals,
    run: Callable[[], int],
) -> NoReturn:
    """The forked process: take the descriptors, run, and end without the parent's exit hooks."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        die_with_parent(parent, lost)
        stdin, output = received[:2]
        for source, target in ((stdin, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        _close(received[:2])
        del received[:2]
        _say(answers, _Answer(pid=os.getpid()))
        answers.close()
        orders.close()
        code = run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code & 0xFF)


def _follow(pid: int, answers: socket.socket, lost: signal.Signals) -> None:
    """Send the exit code of a process, or end it if its caller is gone; then reap it."""
    end = os.pidfd_open(pid)
    try:
        if end in select.select([end, answers.fileno()], [], [])[0]:
            status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            assert status is not None
            code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
            _say(answers, _Answer(exit_code=code))
            with contextlib.suppress(OSError):
                answers.recv(1)  # until it lets go: it may still signal that process id
        elif lost is not signal.SIGKILL:
            signal_process(pid, lost)
            select.select([end], [], [], LOST_S)
    finally:
        os.close(end)
    signal_process(pid, signal.SIGKILL)
    signal_group(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _say(answers: socket.socket, answer: _Answer) -> None:
    with contextlib.suppress(OSError):
        answers.send(msgspec.json.encode(answer))
