"""Energy counters: a GPU's own (NVML), and those of the CPU's packages (RAPL)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from xla_sweeps.system import nvml
from xla_sweeps.system.devices import Device, read_or_empty

_ZONES = "sys/class/powercap"

_PACKAGE = r"package-(\d+)(?:-die-\d+)?"


class MeterError(Exception):
    """A counter gives no energy; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A counter of energy, in microjoules: `read` gives None where it cannot be read.

    It begins again at 0 after `wraps_uj`, or never.
    """

    read: Callable[[], int | None]
    wraps_uj: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """The energy counters of one device: of a `GPU` or a `CPU package`.

    `problem` says why nothing can be counted.
    """

    name: str = ""
    counters: tuple[Counter, ...] = ()
    problem: str = ""

    def read(self) -> tuple[int, ...]:
        """Microjoules of each counter so far.

        Raises:
            MeterError: one of them cannot be read any more.
        """
        values = []
        for counter in self.counters:
            if (value := counter.read()) is None:
                raise MeterError(f"the {self.name}'s counter could no longer be read")
            values.append(value)
        return tuple(values)

    def joules(self, before: Sequence[int], now: Sequence[int]) -> float:
        """Energy between two readings, less than one turn of a counter apart.

        Raises:
            MeterError: a counter stands still, or began again though it never wraps.
        """
        total_uj = 0
        for counter, first, last in zip(self.counters, before, now, strict=True):
            rise_uj = last - first + (counter.wraps_uj if last < first else 0)
            if rise_uj < 0:
                raise MeterError(f"the {self.name}'s counter began again")
            if not rise_uj:
                raise MeterError(f"the {self.name}'s counter stands still")
            total_uj += rise_uj
        return total_uj / 1e6


def meter_of(device: Device, *, root: Path = Path("/")) -> Meter:
    """The meter of a GPU, by its UUID, or of the CPU packages that this process may run on."""
    if device.kind != "gpu":
        return _of_packages(root)
    counter = Counter(read=partial(_gpu_uj, device.uuid))
    if counter.read() is None:
        return Meter(problem="the driver does not count the energy of this GPU")
    return Meter(name="GPU", counters=(counter,))


def _gpu_uj(uuid: str) -> int | None:
    """Energy of a GPU since its driver was loaded."""
    handle = nvml.ask("nvmlDeviceGetHandleByUUID", uuid)
    millijoules = handle and nvml.ask("nvmlDeviceGetTotalEnergyConsumption", handle)
    return None if millijoules is None else 1000 * millijoules


def _of_packages(root: Path) -> Meter:
    cpus = root / "sys/devices/system/cpu"
    own = {
        read_or_empty(cpus / f"cpu{number}/topology/physical_package_id")
        for number in os.sched_getaffinity(0)
    }
    # Left out are parts of a package (`intel-rapl:0:0`), the whole machine (`psys`) and a second
    # interface to the same package (`intel-rapl-mmio`).
    used = [
        zone
        for zone in sorted((root / _ZONES).glob("intel-rapl:*"))
        if (package := re.fullmatch(_PACKAGE, read_or_empty(zone / "name"))) and package[1] in own
    ]
    if not used:
        return Meter(problem=f"this machine shows no energy counter of its CPU (/{_ZONES})")
    counters = []
    for zone in used:
        limit = read_or_empty(zone / "max_energy_range_uj")
        counter = Counter(read=partial(_zone_uj, zone), wraps_uj=int(limit or 0))
        if counter.read() is None:
            return Meter(problem=f"/{_ZONES}/{zone.name}/energy_uj can be read by root alone")
        counters.append(counter)
    return Meter(name="CPU package", counters=tuple(counters))


def _zone_uj(zone: Path) -> int | None:
    text = read_or_empty(zone / "energy_uj")
    return int(text) if text.isdecimal() else None
