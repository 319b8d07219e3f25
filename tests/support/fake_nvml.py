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
        queries = {name: answer for name, answer in vars(FakeNvml).items() if name[:4] == "nvml"}
        with pytest.MonkeyPatch.context() as patch:
            if os.environ.get("CUDA_VISIBLE_DEVICES") == "-1":  # by tests of TensorFlow
                patch.delenv("CUDA_VISIBLE_DEVICES")
            for name, answer in queries.items():
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

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        if self.gpus[index].hidden:
            raise pynvml.NVMLError_NoPermission
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu:
        for gpu in self.gpus:
            if gpu.uuid == uuid and not gpu.hidden:
                return gpu
        raise pynvml.NVMLError_NotFound

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str:
        return gpu.name

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        return gpu.uuid

    def nvmlDeviceGetCudaComputeCapability(self, gpu: FakeGpu) -> tuple[int, int]:
        return gpu.capability

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu) -> Any:
        return SimpleNamespace(total=gpu.memory_bytes)

    def nvmlDeviceGetPciInfo(self, gpu: FakeGpu) -> Any:
        return SimpleNamespace(domain=0, bus=gpu.bus, device=0)

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> list[int]:
        return [int(gpu.divided)] * 2

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: FakeGpu) -> int:
        return round(gpu.power_limit_w * 1e3)

    def nvmlDeviceGetPowerManagementLimit(self, gpu: FakeGpu) -> int:
        return 400_000

    def nvmlDeviceGetApplicationsClock(self, gpu: FakeGpu, kind: int) -> int:
        return {pynvml.NVML_CLOCK_SM: 1410, pynvml.NVML_CLOCK_MEM: 1593}[kind]

    def nvmlDeviceGetEccMode(self, gpu: FakeGpu) -> list[int]:
        return [1, 1]

    def nvmlDeviceGetPersistenceMode(self, gpu: FakeGpu) -> int:
        return 0

    def nvmlDeviceGetTemperature(self, gpu: FakeGpu, sensor: int) -> int:
        return gpu.celsius

    def nvmlDeviceGetClockInfo(self, gpu: FakeGpu, kind: int) -> int:
        assert kind == pynvml.NVML_CLOCK_SM
        return gpu.sm_mhz

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu) -> int:
        return round(gpu.watts * 1e3)

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: FakeGpu) -> int:
        return gpu.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: FakeGpu) -> int:
        return gpu.reasons

    def nvmlDeviceGetViolationStatus(self, gpu: FakeGpu, policy: int) -> Any:
        return SimpleNamespace(referenceTime=0, violationTime=gpu.violations_ns.get(policy, 0))

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: FakeGpu) -> int:
        return gpu.energy_mj() if callable(gpu.energy_mj) else gpu.energy_mj

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[Any]:
        present = list(gpu.processes)
        gpu.processes |= gpu.arriving.pop(0) if gpu.arriving else {}
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in present]

    def nvmlSystemGetProcessName(self, pid: int) -> str:
        for gpu in self.gpus:
            if pid in gpu.processes:
                return gpu.processes[pid]
        raise pynvml.NVMLError_NotFound

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.95"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 13000


def _forget() -> None:
    nvml.library.cache_clear()
    devices._survey.cache_clear()
