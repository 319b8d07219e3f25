"""Leases of devices: two processes of one user never measure on the same device at once.

A lease is an open lock on a file outside any results folder, so it ends with its process. A process
first locks the place of the next, a file beside it: one that waits there comes before one that
gives the lease back and wants it again.

The trials of a sweep that prepares ahead share the lease while they prepare, and each has it alone
while it measures; one that waits to measure comes before those that want to share.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import replace

from xla_sweeps.system.devices import Device
from xla_sweeps.system.files import private_folder, tail
from xla_sweeps.system.process import Assignment, Stop, StopSignals, becomes_readable

LEASES = "XLA_SWEEPS_LEASES"
"""Environment variable that names another folder for the leases."""

TRY_S = 0.05
"""Seconds between two tries to take a lease."""

LOOK_S = 0.5
"""Seconds between two looks whether the other condition of a wait is true."""

STILL_WAITING_S = 60.0
"""Seconds between two messages that name the holder."""

_TEXT_LIMIT = 200

_USE = "use-"


def lease_names(device: Device, cores: Collection[int] = ()) -> tuple[str, ...]:
    """Leases for measuring on a device: of the GPU, or of each core; of all cores by default."""
    if device.kind == "gpu":
        return (f"gpu-{device.uuid or device.index}",)
    return tuple(f"core-{number}" for number in sorted(cores or os.sched_getaffinity(0)))


def whole_replicate(device: Device, cores: Collection[int] = ()) -> tuple[str, ...]:
    """Leases for a whole replicate: building disturbs other measurements on the device.

    These differ from `lease_names`, which devices that take turns hold for each other.
    """
    return tuple(f"{_USE}{name}" for name in lease_names(device, cores))


def to_prepare(device: Device, cores: Collection[int] = ()) -> frozenset[str]:
    """Leases that trials of one device share while they prepare; each measures alone."""
    return frozenset((*lease_names(device, cores), *whole_replicate(device, cores)))


def lease_folder() -> Path | None:
    """The folder of the leases: the one that is set, else one below /tmp, else below /run/user.

    /run/user is the second choice: it goes with the user's last login, and its leases with it.
    """
    if given := os.environ.get(LEASES):
        return private_folder(given)
    login = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    return private_folder() or private_folder(str(login / "xla-sweeps"))


def without_leases() -> str:
    """A warning, if processes of this user do not take turns on devices; else ""."""
    if lease_folder():
        return ""
    place = os.environ.get(LEASES) or f"xla-sweeps-{os.getuid()} below the temporary folder"
    return (
        "the leases of devices are off, so two commands may measure on one at once: "
        f"{place} cannot be used, or is somebody else's; set {LEASES} to a folder of your own"
    )


class Leases(AbstractContextManager["Leases"]):
    """Some leases, taken together; a context manager that gives them back.

    Where there is no folder for them that only this user can write, there is nothing to wait for.
    Waiting processes show the holder's name.

    Args:
        inherited: descriptors of shared ones, by name, from the process that started this one.

    Attributes:
        shared: whether they are, or are to be, shared with others of `shared` leases.
    """

    def __init__(
        self,
        names: Iterable[str],
        *,
        holder: str,
        shared: bool = False,
        inherited: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        # Of a whole replicate first, as who holds them for longer than a turn takes them first.
        self._names = sorted(set(names), key=lambda name: (not name.startswith(_USE), name))
        self._held = {name: inherited[name] for name in self._names if name in inherited}
        self._missing = [name for name in self._names if name not in inherited]
        for descriptor in self._held.values():
            os.set_inheritable(descriptor, False)
        self._holder = f"{holder} (pid {os.getpid()})"[:_TEXT_LIMIT]
        self._next: list[int] = []
        self.shared = shared or bool(inherited)

    def __exit__(self, *ended: object) -> None:
        self.close()

    @property
    def held(self) -> dict[str, int]:
        """The descriptors of those that are held, by name, to be passed to a new process."""
        return dict(self._held)

    def hand_over(self) -> None:
        """Close the descriptors; what has got them holds the leases now."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held = {}

    def take(self) -> str:
        """Take those that are free, in one order for all processes; the holder of the next, or "".

        What was taken is kept, so that many devices can be waited for.
        """
        while self._missing and (folder := lease_folder()):
            name = self._missing[0]
            lease, following = (folder / f"{name}.{kind}" for kind in ("lock", "next"))
            try:
                self._next = self._next or self._lock(following)
                self._held.update((name, descriptor) for descriptor in self._lock(lease))
            except BlockingIOError:
                if self.shared:  # the place of the next is for those that want it alone
                    _give_back(self._next)
                texts = (tail(path, limit=_TEXT_LIMIT * 4) for path in (lease, following))
                others = (text for text in texts if text not in ("", self._holder))
                return next(others, "another process")
            _give_back(self._next)
            del self._missing[0]
        return ""

    def wait(
        self, stop: Stop, say: Callable[[str], None], *, also: Callable[[], bool] = lambda: True
    ) -> bool:
        """Take them all, and wait until `also` is true; returns False if `stop` was readable first.

        `say` is called with the holder, every minute.
        """
        said = -math.inf
        while (holder := self.take()) or not also():
            if holder and time.monotonic() >= said + STILL_WAITING_S:
                said = time.monotonic()
                say(holder)
            if becomes_readable(stop, TRY_S if holder else LOOK_S):
                return False
        return True

    def want(self, *, shared: bool) -> None:
        """Have them shared, or alone, from the next `wait` on; gives back what is not held so.

        Who has them alone shares them at once where nobody was faster.
        """
        if shared == self.shared:
            return
        self.shared = shared
        with contextlib.suppress(OSError):
            for descriptor in self._held.values() if shared else ():
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if shared:
                return
        self.close()
        self._missing = list(self._names)

    def _lock(self, path: Path) -> list[int]:
        """The open file, locked, our name in it; none without one, an error if it is held."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags, 0o600)
        except OSError:
            return []
        try:
            kind = fcntl.LOCK_SH if self.shared else fcntl.LOCK_EX
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                raise
            return []  # a file system without locks
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, self._holder.encode("utf-8", "replace"), 0)
        return [descriptor]

    def close(self) -> None:
        """Give them back."""
        held, self._held = list(self._held.values()), {}
        _give_back(held)
        _give_back(self._next)


def share_from_start(assignment: Assignment) -> Assignment:
    """Wait for the leases that an assignment names, or for a signal; returns what is left of it."""
    leases = Leases(assignment.shares, holder="an agent's trial", shared=True)
    with StopSignals() as signals:
        leases.wait(signals, lambda holder: None)
    if signals.number:  # another one, passed on by its parents, comes before the trial heeds any
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return replace(assignment, shares=[], turns=leases.held, stopped=signals.number)


def _give_back(locked: list[int]) -> None:
    while locked:
        descriptor = locked.pop()
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
        os.close(descriptor)
