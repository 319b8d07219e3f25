"""Makes the program that imports it die, hang or fail at a named point: an audit event of its own.

Nothing happens unless the environment asks for it: `XLA_SWEEPS_FP=store.linked:kill:3` acts when a
process reaches `store.linked` for the third time; a fourth part names a file that is created first,
so that only one process ever acts. `XLA_SWEEPS_FP_LOG` names a file that lists the points passed.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections import Counter
from typing import Any

HANG_S = 3600.0

_passed: Counter[str] = Counter()


class InjectedFaultError(RuntimeError):
    """Raised at a point by the action `raise`."""


def _pass(event: str, _arguments: tuple[Any, ...]) -> None:
    """Pass a point."""
    name = event.removeprefix("xla_sweeps.")
    if name == event:
        return
    wanted, log = os.environ.get("XLA_SWEEPS_FP"), os.environ.get("XLA_SWEEPS_FP_LOG")
    if log:
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{name}\n".encode())
        os.close(descriptor)
    if not wanted or not wanted.startswith(f"{name}:"):
        return
    _, action, *rest = wanted.split(":", 3)
    _passed[name] += 1
    if _passed[name] != int(rest[0] if rest else 1) or (len(rest) > 1 and not _first(rest[1])):
        return
    _act(action, name)


def _first(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True


def _act(action: str, name: str) -> None:
    match action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(70)
        case "hang":
            time.sleep(HANG_S)
        case "sleep":
            time.sleep(1.0)
        case "enospc":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        case "raise":
            raise InjectedFaultError(f"injected at {name}")


sys.addaudithook(_pass)
