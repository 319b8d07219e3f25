"""A driver of made-up GPUs: NVIDIA's real Python library, with its queries answered from here."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from xla_sweeps.system import devices, nvml


@dataclass
class FakeGpu:
    """One GPU; a test changes its values between two queries.

    Attributes:
        lacks: queries that this GPU does not support.
        error: what every query about it raises.
        hidden: whether a control group denies access.
        violations_ns: what held the clock down, by policy of NVML, and how long.
        processes: that compute on it: number and name.
        arriving: those that join them once they have been asked for, in turn.
    """

    name: str = "NVIDIA A100-SXM4-80GB"
    uuid: str = "GPU-a"
    bus: int = 0x17
    memory_bytes: int = 80 * 2**30
    capability: tuple[int, int] = (8, 0)
    divided: bool = False
    hidden: bool = False
    lacks: set[str] = field(default_factory=set)
    error: type[Exception] | None = None
    power_limit_w: float = 400.0
    sm_mhz: int = 1410
    celsius: int = 50
    watts: float = 250.0
    reasons: int = 0
    violations_ns: dict[int, int] = field(default_factory=dict)
    energy_mj: int | Callable[[], int] = 0
    processes: dict[int, str] = field(default_factory=dict)
    arriving: list[dict[int, str]] = field(default_factory=list)


class FakeNvml:
    """A driver with these GPUs; an old driver lacks some queries altogether.

    Attributes:
        asked: the queries so far, in order.
    """

    def __init__(self, *gpus: FakeGpu, lacks: tuple[str, ...] = ()) -> None:
        self.gpus, self.lacks, self.asked = gpus, lacks, list[str]()

    @contextmanager
    def installed(self) -> Iterator[FakeNvml]:
        """The driver of this machine while the block runs."""
        with pytest.MonkeyPatch.context() as patch:
            if os.environ.get("CUDA_VISIBLE_DEVICES") == "-1":  # by tests of TensorFlow
                patch.delenv("CUDA_VISIBLE_DEVICES")
            for name, answer in QUERIES.items():
                real = inspect.signature(inspect.unwrap(getattr(pynvml, name)))
                assert len(inspect.signature(answer).parameters) - 1 <= len(real.parameters), name
                patch.setattr(pynvml, name, self._query(name, answer))
            _forget()
            yield self
        _forget()

    def _query(self, name: str, answer: Any) -> Any:
        def ask(*arguments: Any) -> Any:
            self.asked.append(name)
            gpu = arguments[0] if arguments and isinstance(arguments[0], FakeGpu) else None
            if name in self.lacks:
                raise pynvml.NVMLError_FunctionNotFound
            if gpu and gpu.error:
                raise gpu.error
            if gpu and name in gpu.lacks:
                raise pynvml.NVMLError_NotSupported
            return answer(self, *arguments)

        return ask

    def by_index(self, index: int) -> FakeGpu:
        if self.gpus[index].hidden:
            raise pynvml.NVMLError_NoPermission
        return self.gpus[index]

    def by_uuid(self, uuid: str) -> FakeGpu:
        for gpu in self.gpus:
            if gpu.uuid == uuid and not gpu.hidden:
                return gpu
        raise pynvml.NVMLError_NotFound

    def processes_on(self, gpu: FakeGpu) -> list[Any]:
        present = list(gpu.processes)
        gpu.processes |= gpu.arriving.pop(0) if gpu.arriving else {}
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in present]

    def name_of(self, pid: int) -> str:
        for gpu in self.gpus:
            if pid in gpu.processes:
                return gpu.processes[pid]
        raise pynvml.NVMLError_NotFound


_CLOCKS = {pynvml.NVML_CLOCK_SM: 1410, pynvml.NVML_CLOCK_MEM: 1593}


def _violation(driver: FakeNvml, gpu: FakeGpu, policy: int) -> Any:
    return SimpleNamespace(referenceTime=0, violationTime=gpu.violations_ns.get(policy, 0))


def _energy(driver: FakeNvml, gpu: FakeGpu) -> int:
    return gpu.energy_mj() if callable(gpu.energy_mj) else gpu.energy_mj


QUERIES: dict[str, Callable[..., Any]] = {
    "nvmlInit": lambda driver: None,
    "nvmlDeviceGetCount": lambda driver: len(driver.gpus),
    "nvmlDeviceGetHandleByIndex": FakeNvml.by_index,
    "nvmlDeviceGetHandleByUUID": FakeNvml.by_uuid,
    "nvmlDeviceGetName": lambda driver, gpu: gpu.name,
    "nvmlDeviceGetUUID": lambda driver, gpu: gpu.uuid,
    "nvmlDeviceGetCudaComputeCapability": lambda driver, gpu: gpu.capability,
    "nvmlDeviceGetMemoryInfo": lambda driver, gpu: SimpleNamespace(total=gpu.memory_bytes),
    "nvmlDeviceGetPciInfo": lambda driver, gpu: SimpleNamespace(domain=0, bus=gpu.bus, device=0),
    "nvmlDeviceGetMigMode": lambda driver, gpu: [int(gpu.divided)] * 2,
    "nvmlDeviceGetEnforcedPowerLimit": lambda driver, gpu: round(gpu.power_limit_w * 1e3),
    "nvmlDeviceGetPowerManagementLimit": lambda driver, gpu: 400_000,
    "nvmlDeviceGetApplicationsClock": lambda driver, gpu, kind: _CLOCKS[kind],
    "nvmlDeviceGetEccMode": lambda driver, gpu: [1, 1],
    "nvmlDeviceGetPersistenceMode": lambda driver, gpu: 0,
    "nvmlDeviceGetTemperature": lambda driver, gpu, sensor: gpu.celsius,
    "nvmlDeviceGetClockInfo": lambda driver, gpu, kind: {pynvml.NVML_CLOCK_SM: gpu.sm_mhz}[kind],
    "nvmlDeviceGetPowerUsage": lambda driver, gpu: round(gpu.watts * 1e3),
    "nvmlDeviceGetCurrentClocksEventReasons": lambda driver, gpu: gpu.reasons,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda driver, gpu: gpu.reasons,
    "nvmlDeviceGetViolationStatus": _violation,
    "nvmlDeviceGetTotalEnergyConsumption": _energy,
    "nvmlDeviceGetComputeRunningProcesses": FakeNvml.processes_on,
    "nvmlSystemGetProcessName": FakeNvml.name_of,
    "nvmlSystemGetDriverVersion": lambda driver: "580.95",
    "nvmlSystemGetCudaDriverVersion": lambda driver: 13000,
}
"""Answers by query, given the driver."""


def _forget() -> None:
    nvml.library.cache_clear()
    devices._survey.cache_clear()
