"""Ask NVIDIA's management library (NVML), each query by itself: every driver lacks some.

Never while a block is timed: others measured 4.5 ms for a query that holds the driver's lock.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSettings:
    """Settings of a GPU that change its speed; None where the driver does not report them.

    Attributes:
        power_limit_w: the one that is enforced; a site's power manager may enforce less than
            was set (`power_limit_set_w`) for a while.
        sm_clock_mhz: application clock of the multiprocessors.
        ecc: whether memory errors are corrected.
        persistence: whether the driver stays loaded while no process uses the GPU.
    """

    power_limit_w: int | None = None
    power_limit_set_w: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    ecc: bool | None = None
    persistence: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """State and counters of a GPU at one moment; None where the driver does not report them.

    Attributes:
        at_ns: CLOCK_MONOTONIC.
        reasons: clock event reasons, a bit mask.
        power_capped_ns, thermal_ns: how long power limit and heat have held the clock down so far.
    """

    at_ns: int
    sm_mhz: float | None
    celsius: float | None
    watts: float | None
    reasons: int | None
    power_capped_ns: int | None
    thermal_ns: int | None


@cache
def library() -> Any:
    """The library, ready for queries; any error where driver, library or permission is missing."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml


def ask(query: str, *arguments: Any) -> Any:
    """The answer to one query, or None where the library, the driver or the GPU has none."""
    with contextlib.suppress(Exception):
        return getattr(library(), query)(*arguments)
    return None


def settings(handle: Any) -> GpuSettings:
    """The settings of a GPU."""
    limit_mw = ask("nvmlDeviceGetEnforcedPowerLimit", handle)
    set_mw = ask("nvmlDeviceGetPowerManagementLimit", handle)
    ecc = ask("nvmlDeviceGetEccMode", handle)
    persistence = ask("nvmlDeviceGetPersistenceMode", handle)
    return GpuSettings(
        power_limit_w=None if limit_mw is None else round(limit_mw / 1e3),
        power_limit_set_w=None if set_mw is None else round(set_mw / 1e3),
        sm_clock_mhz=ask("nvmlDeviceGetApplicationsClock", handle, library().NVML_CLOCK_SM),
        memory_clock_mhz=ask("nvmlDeviceGetApplicationsClock", handle, library().NVML_CLOCK_MEM),
        ecc=None if ecc is None else bool(ecc[0]),
        persistence=None if persistence is None else bool(persistence),
    )


def read(uuid: str) -> Reading | None:
    """State and counters of a GPU now; None where the driver does not answer at all."""
    handle = ask("nvmlDeviceGetHandleByUUID", uuid)
    if handle is None:
        return None
    nvml = library()
    milliwatts = ask("nvmlDeviceGetPowerUsage", handle)
    reasons = ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:  # drivers before 535
        reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    power, heat = (
        ask("nvmlDeviceGetViolationStatus", handle, policy)
        for policy in (nvml.NVML_PERF_POLICY_POWER, nvml.NVML_PERF_POLICY_THERMAL)
    )
    return Reading(
        at_ns=time.monotonic_ns(),
        sm_mhz=ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
        celsius=ask("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
        watts=None if milliwatts is None else milliwatts / 1e3,
        reasons=reasons,
        power_capped_ns=None if power is None else int(power.violationTime),
        thermal_ns=None if heat is None else int(heat.violationTime),
    )


def compute_processes(uuid: str) -> frozenset[int] | None:
    """The processes that compute on a GPU, without the server that shares it (MPS).

    In a container the numbers may be those of the host. None where the driver does not tell.
    """
    handle = ask("nvmlDeviceGetHandleByUUID", uuid)
    processes = ask("nvmlDeviceGetComputeRunningProcesses", handle)
    if processes is None:
        return None
    return frozenset(
        process.pid
        for process in processes
        if "nvidia-cuda-mps-server" not in str(ask("nvmlSystemGetProcessName", process.pid))
    )


def float32_peak(uuid: str) -> float | None:
    """The most float32 operations a second: a fused multiply-add by each core at the top clock.

    None where the driver does not tell.
    """
    handle = ask("nvmlDeviceGetHandleByUUID", uuid)
    cores = ask("nvmlDeviceGetNumGpuCores", handle)
    mhz = handle and ask("nvmlDeviceGetMaxClockInfo", handle, library().NVML_CLOCK_SM)
    return 2.0 * cores * mhz * 1e6 if cores and mhz else None
