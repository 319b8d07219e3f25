"""Leases of devices: two processes of one user never measure on the same device at once.

A lease is an open lock on a file outside any results folder, so it ends with its process.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import select
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Protocol

from xla_sweeps.system.devices import Device
from xla_sweeps.system.files import private_folder

LEASES = "XLA_SWEEPS_LEASES"
"""Environment variable that names another folder for the leases."""

LOOK_S = 0.5
"""Between two tries to take a lease."""

STILL_WAITING_S = 60.0
"""Between two lines on whom a process waits for."""

_TEXT_LIMIT = 200


class Readable(Protocol):
    """What a wait can be ended with."""

    def fileno(self) -> int:
        """The descriptor that becomes readable."""


def lease_names(device: Device, cores: Collection[int] = ()) -> tuple[str, ...]:
    """What a process must hold while it measures on a device: the GPU, or each core it may use.

    Args:
        device: the device.
        cores: numbers of the cores, for a CPU; empty where all may be used.
    """
    if device.kind == "gpu":
        return (f"gpu-{device.uuid or device.index}",)
    return tuple(f"core-{number}" for number in sorted(cores or os.sched_getaffinity(0)))


def whole_replicate(device: Device) -> tuple[str, ...]:
    """What a process must hold while it builds as well: a CPU's cores, where building disturbs.

    These differ from `lease_names`, which devices that take turns hold for each other.
    """
    if device.kind == "gpu":
        return ()
    return tuple(f"use-{name}" for name in lease_names(device))


class Leases:
    """Some leases, taken together; a context manager that gives them back.

    Where there is no folder for them that only this user can write, there is nothing to wait for.

    Args:
        names: of the devices.
        holder: what others who wait are told.
    """

    def __init__(self, names: Iterable[str], *, holder: str) -> None:
        self._missing = sorted(set(names))
        self._holder = f"{holder} (pid {os.getpid()})"[:_TEXT_LIMIT]
        self._held: list[int] = []

    def __enter__(self) -> Leases:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()

    def take(self) -> str:
        """Take those that are free, in one order for all processes; who holds the next, or "".

        What was taken is kept, so that many devices can be waited for.
        """
        folder = private_folder(os.environ.get(LEASES))
        while folder is not None and self._missing:
            holder = self._take_one(folder / f"{self._missing[0]}.lock")
            if holder:
                return holder
            del self._missing[0]
        return ""

    def wait(self, stop: Readable, say: Callable[[str], None]) -> None:
        """Take them all, or return once `stop` is readable; says who is waited for, every minute.

        Args:
            stop: ends the wait.
            say: told who holds them.
        """
        said = -math.inf
        while holder := self.take():
            if time.monotonic() >= said + STILL_WAITING_S:
                said = time.monotonic()
                say(holder)
            if select.select([stop], [], [], LOOK_S)[0]:
                return

    def _take_one(self, path: Path) -> str:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            return ""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, _TEXT_LIMIT * 4).decode("utf-8", "replace")
            os.close(descriptor)
            return holder or "another process"
        except OSError:  # a file system without locks
            os.close(descriptor)
            return ""
        self._held.append(descriptor)
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, self._holder.encode("utf-8", "replace"), 0)
        return ""

    def close(self) -> None:
        """Give them back."""
        while self._held:
            os.close(self._held.pop())
