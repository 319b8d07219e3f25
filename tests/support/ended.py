"""Wait for what ends or stops a little later than it was asked to."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path


def wait_until(holds: Callable[[], object], within_s: float = 120.0) -> bool:
    """Wait for something to become true; whether it did in time."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def wait_for(holds: Callable[[], object], within_s: float = 300.0) -> None:
    """Wait for what must become true."""
    assert wait_until(holds, within_s)


def freeze(child: int) -> None:
    """Stop a child of this process, and wait until it has stopped."""
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)


def join(thread: threading.Thread) -> None:
    """Wait for a thread, until the system has ended it too, which is a little later."""
    thread.join()
    while Path(f"/proc/self/task/{thread.native_id}").exists():
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """True if there is such a process that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def processes(*parts: str) -> list[int]:
    """Other processes whose command lines, words joined by spaces, have all these parts."""

    def has_parts(entry: Path) -> bool:
        line = os.fsdecode((entry / "cmdline").read_bytes().replace(b"\0", b" "))
        return all(part in line for part in parts)

    return _others(has_parts)


def working_in(folder: Path) -> list[int]:
    """Other processes whose current folder this is."""
    return _others(lambda entry: (entry / "cwd").readlink() == folder.resolve())


def _others(holds: Callable[[Path], bool]) -> list[int]:
    """Other processes of whose folder in /proc this is true."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != os.getpid() and holds(entry):
                pids.append(int(entry.name))
    return pids
