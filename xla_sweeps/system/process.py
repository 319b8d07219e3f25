"""Child processes: die with the parent, stop on signals, end a tree, take a launcher's orders."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import select
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import msgspec

PYTHON = (sys.executable, "-P")
"""This interpreter; it looks for no module in the current folder, which may be somebody else's."""

JOB_VARIABLE = "XLA_SWEEPS_JOB"

STOP_SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1),
    *(signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGXCPU),
)
"""Signals that end a process and can be caught; its results are saved first."""

_ALWAYS = {signal.SIGINT, signal.SIGTERM}
"""Handled even where they were ignored, as in a shell's background job."""

_KILLS = {signal.SIGINT, signal.SIGQUIT}

_PR_SET_PDEATHSIG = 1

_PR_SET_CHILD_SUBREAPER = 36

EXIT_CODE = "exit code: "
"""Beginning of the line of standard error that `Assignment.says_code` asks for."""

ORPHAN_MARK = "XLA_SWEEPS_ORPHAN_OF"
"""Environment variable by which `adopting_orphans` knows what it started."""

ORPHANS_S = 5.0
"""Seconds for the last processes of a tree to die of SIGKILL."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Instructions of a launcher for what it starts, beyond what a person would type.

    It travels as JSON in one environment variable, `XLA_SWEEPS_JOB`.

    Attributes:
        parent: id of the process that the trial must not outlive; 0 for none.
        known_records: records of the trial that the sweep knows of: one replicate is measured, and
            none where there are more by now. None: all replicates, as for a person.
        recorded: file to which the path of each new record is appended, or "".
        together: leases to hold, besides the device's own, while a process measures: of all
            devices that would slow each other down.
        words: options that a person typed for every trial, in place of the command's.
        turns: descriptors of leases that it shares with the sweep's other trials, by name: it
            prepares beside them, and measures alone.
        shares: names of such leases that it takes itself, before it does anything else.
        stopped: the signal that stopped it while it waited for them; 0 for none.
        counted: the file in which an agent counts its trials, for the checks of its machine; or "".
        says_code: whether it writes its exit code too: a parent that ignores SIGCHLD gets none.
    """

    parent: int = 0
    known_records: int | None = None
    recorded: str = ""
    together: tuple[str, ...] = ()
    turns: dict[str, int] = {}
    shares: list[str] = []
    stopped: int = 0
    words: tuple[str, ...] = ()
    counted: str = ""
    says_code: bool = False

    def environment(self) -> dict[str, str]:
        """The variable that carries it."""
        return {JOB_VARIABLE: msgspec.json.encode(self).decode()}

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Assignment:
        """The assignment in an environment; an empty one where a person started the command."""
        text = environ.get(JOB_VARIABLE)
        return msgspec.json.decode(text, type=cls) if text else cls()

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> Assignment:
        """Like `of`, and removes the variable, so that no further process takes it for its own."""
        assignment = cls.of(environ)
        environ.pop(JOB_VARIABLE, None)
        return assignment


def die_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when its parent ends, however that happens.

    Exit if the parent is gone already.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        raise SystemExit(1)


@contextlib.contextmanager
def adopting_orphans() -> Iterator[dict[str, str]]:
    """Inherit, during a `with` block, the processes that descendants leave behind.

    They are killed at its end, whatever their session. The first process of a container inherits
    the orphans of others as well: it kills only those whose environment has what this yields.
    """
    mark = {ORPHAN_MARK: secrets.token_hex(8)}
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    before, own = set(children(os.getpid())), set[int]()
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield mark
    finally:
        deadline = time.monotonic() + ORPHANS_S
        while orphans := set(children(os.getpid())) - before:
            own |= {pid for pid in orphans if not inherits_all() or carries(pid, mark)}
            for pid in orphans & own:
                kill_tree(pid)
            for pid in orphans:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            if not orphans & own or time.monotonic() > deadline:
                break
            time.sleep(0.01)
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def inherits_all() -> bool:
    """True if this is the first process of a container, which inherits every orphan there."""
    return os.getpid() == 1


def carries(pid: int, variables: Mapping[str, str]) -> bool:
    """True if a process was started with these variables; False if it has ended."""
    with contextlib.suppress(OSError):
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return all(os.fsencode(f"{name}={value}") in entries for name, value in variables.items())
    return False


def children(pid: int, *, root: Path = Path("/")) -> list[int]:
    """The processes that this one started, in any thread, and inherited; none where it is gone."""
    pids: list[int] = []
    for path in (root / f"proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            pids += map(int, path.read_text().split())
    return pids


def heed_signals(*more: signal.Signals) -> None:
    """Let this process be ended, and hear of its children, whatever was ignored or blocked before.

    A shell's background jobs ignore SIGINT, and daemons SIGCHLD, which hides how a child has ended.
    `more` signals are not ignored either.
    """
    for number in (*_ALWAYS, signal.SIGCHLD, *more):
        if signal.getsignal(number) is signal.SIG_IGN:
            is_interrupt = number is signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class Stop(AbstractContextManager["Stop"]):
    """A request, from a signal handler or thread, to stop: it wakes who waits for it."""

    def __init__(self) -> None:
        self.requested = False
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def __exit__(self, *ended: object) -> None:
        self.close()

    def request(self) -> None:
        """Ask for the stop. Takes no lock, so that a signal handler may ask."""
        self.requested = True
        with contextlib.suppress(OSError, ValueError):  # many requests, or closed
            os.eventfd_write(self._descriptor, 1)

    def fileno(self) -> int:
        """Readable once a stop was requested."""
        return self._descriptor

    def close(self) -> None:
        """Give the descriptor back; a later request is not heard. May be called again."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class StopSignals(Stop):
    """Turn signals into a request to stop, for the length of a `with` block.

    The first signal asks to stop (`number`); SIGINT or SIGQUIT after it kills (`kill`). A second
    SIGTERM does nothing: schedulers send it to every process of a job, and those pass it on to each
    other. What the caller had ignored (`nohup`) stays ignored, SIGINT and SIGTERM apart.

    `on_kill` is called inside the handler, which may interrupt whoever holds a lock: it must take
    none.
    """

    def __init__(
        self,
        *,
        on_kill: Callable[[], object] = lambda: None,
        numbers: tuple[signal.Signals, ...] = STOP_SIGNALS,
    ) -> None:
        super().__init__()
        self._on_kill, self._numbers = on_kill, numbers
        self._previous: dict[signal.Signals, Any] = {}
        self.number = 0
        self.kill = False

    def __enter__(self) -> StopSignals:
        for number in self._numbers:
            if number in _ALWAYS or signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *ended: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self.close()

    def _handle(self, number: int, frame: types.FrameType | None) -> None:
        if not self.number:
            self.number = number
            self.request()
        elif number in _KILLS:
            self.kill = True
            self._on_kill()


def python_command(module: str, *words: str) -> tuple[str, ...]:
    """The command line of a Python process that runs a module."""
    return (*PYTHON, "-m", module, *words)


def start_process(
    command: Sequence[str],
    *,
    output: IO[bytes],
    environment: Mapping[str, str],
    cores: Sequence[int] = (),
    folder: Path | None = None,
    descriptors: Collection[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process without input, the leader of a group and session of its own.

    `output` gets its standard output and error; the environment is complete; it may use the cores
    of these numbers, or all, and inherits these descriptors.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=environment,
        cwd=folder,
        start_new_session=True,
        pass_fds=descriptors,
    )
    if cores:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(process.pid, cores)
    return process


def becomes_readable(source: Stop | int, seconds: float | None) -> bool:
    """True if something can be read within that time, or a pipe ends; None waits for ever.

    A process may have more open files than `select` takes.
    """
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


@contextlib.contextmanager
def end_of(process: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """A descriptor that is readable once a child has ended; None where there is none to be had."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """True if a child ends within that time; sleeps meanwhile."""
    with end_of(process) as end:
        if end is not None:
            return becomes_readable(end, seconds)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


def signal_group(leader: int, number: signal.Signals) -> None:
    """Send a signal to a process group; nothing happens where it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def signal_process(pid: int, number: signal.Signals) -> None:
    """Send a signal to one process; nothing happens where it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_tree(pid: int) -> None:
    """Kill a process and all that it started, whatever group or session those are in."""
    for each in (pid, *descendants(pid)):
        signal_process(each, signal.SIGKILL)


def descendants(pid: int, *, root: Path = Path("/")) -> list[int]:
    """The processes that a process started, and those that they started; none where it is gone."""
    pids, todo = list[int](), [pid]
    while todo:
        new = children(todo.pop(), root=root)
        pids += new
        todo += new
    return pids
