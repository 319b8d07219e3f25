"""Run the command line in a process of its own, from a program, a notebook or a thread.

The measurement is never in the caller's process: it would take signals, children and memory over.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xla_sweeps.api.border import refusing
from xla_sweeps.errors import BUG_CODE, LOCKED_CODE, ConfigError, LockedError, XlaSweepsError
from xla_sweeps.system.process import (
    EXIT_CODE,
    Assignment,
    becomes_readable,
    kill_tree,
    python_command,
    signal_group,
)

SAVING_S = 120.0
"""Longest wait for what was measured to be saved after an interrupt."""

ENDING_S = 5.0
"""Longest wait after a second interrupt."""

_COLOURS = ("FORCE_COLOR", "CLICOLOR_FORCE")
"""Variables that a notebook sets, and that put codes of colours into captured text."""

_KILLED = -signal.SIGKILL
"""Code of a command that ended without saying its own, where this process ignores SIGCHLD."""


def run(
    words: Sequence[str], *, follow: Callable[[dict[str, Any]], None] | None = None
) -> tuple[int, str]:
    """Run a command to its end; returns its exit code and standard output.

    `follow` gets each line of that as the object that it is, instead of the caller.

    Raises:
        XlaSweepsError: the request cannot be carried out; in the command line's words.
        KeyboardInterrupt: after what was measured is saved; a second one waits less long for it.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _COLOURS}
    assignment = Assignment(parent=os.getpid(), says_code=True)
    environment |= {"COLUMNS": "120", **assignment.environment()}
    output: list[str] = []
    with contextlib.ExitStack() as opened, _interruptible() as take_interrupts:
        with refusing("the command cannot be started"):
            errors = opened.enter_context(tempfile.TemporaryFile())
            process = subprocess.Popen(
                python_command("xla_sweeps", *words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,  # a notebook interrupts its whole process group
            )

        def take(line: str) -> None:
            if follow is None:
                output.append(line)
            elif line.startswith("{"):
                follow(json.loads(line))

        try:
            take_interrupts()
            _read(process, take)
        finally:
            _end(process)
        errors.seek(0)
        *lines, last = ["", *errors.read().decode(errors="replace").strip().splitlines()]
    code = process.wait() or _KILLED
    if last.startswith(EXIT_CODE):
        code, last = int(last.removeprefix(EXIT_CODE)), lines[-1]
    message = last.removeprefix("xla-sweeps: ")
    if code == LOCKED_CODE:
        raise LockedError(message)
    if code < 0 or code in (ConfigError.exit_code, BUG_CODE):
        kind = ConfigError if code == ConfigError.exit_code else XlaSweepsError
        raise kind(message or f"the command ended with code {code}")
    return code, "".join(output)


def document(words: Sequence[str]) -> Any:
    """The JSON that a command writes; an error where it cannot be carried out, or writes none."""
    code, text = run(words)
    try:
        return json.loads(text)
    except ValueError as error:
        raise XlaSweepsError(f"no answer; the command ended with code {code}") from error


@contextlib.contextmanager
def _interruptible() -> Iterator[Callable[[], object]]:
    """Take SIGINT during a `with` block, also where it was ignored or blocked before.

    It is kept back until what this yields is called, as it would lose a process that is being
    started.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield lambda: None
        return
    early: list[int] = []

    def take() -> None:
        is_ignored = before is signal.SIG_IGN
        signal.signal(signal.SIGINT, signal.default_int_handler if is_ignored else before)
        if early:
            signal.raise_signal(signal.SIGINT)

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.signal(signal.SIGINT, lambda number, frame: early.append(number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        yield take
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)


def _read(process: subprocess.Popen[bytes], take: Callable[[str], None]) -> None:
    """Take lines of standard output until its end; a Ctrl-C is passed on, and raised at the end."""
    assert process.stdout is not None
    descriptor, pending = process.stdout.fileno(), b""
    deadline: float | None = None
    while True:
        try:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not becomes_readable(descriptor, left):
                break
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                break
            *complete, pending = (pending + chunk).split(b"\n")
            for line in complete:
                take(f"{line.decode(errors='replace')}\n")
        except KeyboardInterrupt:
            if deadline is not None:
                raise
            deadline = time.monotonic() + SAVING_S
            signal_group(process.pid, signal.SIGINT)
    if deadline is not None:
        raise KeyboardInterrupt


def _end(process: subprocess.Popen[bytes]) -> None:
    """Give a process that nobody reads some time to end, then kill it and what it started."""
    if process.stdout is not None:
        process.stdout.close()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_S)
    finally:  # one more Ctrl-C leaves nothing running either
        if process.poll() is None:
            kill_tree(process.pid)
            process.wait()
