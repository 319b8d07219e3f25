"""Devices that a trial can own: GPUs and the CPU, their memory, cores and arithmetic."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from xla_sweeps.errors import DeviceError
from xla_sweeps.schema.trial import Precision
from xla_sweeps.system import nvml
from xla_sweeps.system.nvml import GpuSettings

CORES = Path("/sys/devices/system/cpu")
"""The folder of the machine's cores."""

_FLOAT16_CAPABILITY, _BFLOAT16_CAPABILITY = (7, 0), (8, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device that a trial can own.

    Attributes:
        kind: `cpu` or `gpu`.
        memory_bytes: a GPU without memory of its own has the machine's.
        capability: CUDA compute capability, or None.
        pci: address as in /sys, `0000:17:00.0`; or "".
        problem: why nothing can be measured on it, or "".
    """

    kind: str
    index: int
    name: str
    uuid: str = ""
    memory_bytes: int = 0
    capability: tuple[int, int] | None = None
    pci: str = ""
    settings: GpuSettings = field(default_factory=GpuSettings)
    problem: str = ""

    @property
    def label(self) -> str:
        """Name on the command line: `cpu` or `gpu:0`."""
        return "cpu" if self.kind == "cpu" else f"gpu:{self.index}"


def devices() -> tuple[Device, ...]:
    """The NVIDIA GPUs that the driver shows and CUDA_VISIBLE_DEVICES leaves, and the CPU last."""
    return _survey()[0]


def gpu_problems() -> tuple[str, ...]:
    """Reasons why GPUs that this command would use cannot be measured on, a line each."""
    return _survey()[1]


@cache
def _survey() -> tuple[tuple[Device, ...], tuple[str, ...]]:
    cpu = Device(kind="cpu", index=0, name=cpu_name(), memory_bytes=memory_bytes())
    try:
        shown = visible(_gpus(), os.environ)
    except DeviceError as error:
        return (cpu,), (str(error),)
    usable = [gpu for gpu in shown if not gpu.problem]
    problems = [f"{gpu.label} {gpu.problem}" for gpu in shown if gpu.problem]
    return (*usable, cpu), tuple(problems)


def visible(gpus: Sequence[Device], environ: Mapping[str, str]) -> list[Device]:
    """The GPUs that CUDA_VISIBLE_DEVICES names, in its order: by CUDA's number, or by UUID.

    As in CUDA, the first entry that names none ends the list.

    Raises:
        DeviceError: it names a part of a GPU, or a number where CUDA's own order is unknown.
    """
    mask = environ.get("CUDA_VISIBLE_DEVICES")
    if mask is None or not gpus:
        return list(gpus)
    words = [word.strip() for word in mask.split(",")]
    if any(word.startswith("MIG-") for word in words):
        raise DeviceError(
            f"CUDA_VISIBLE_DEVICES={mask}: parts of a GPU (MIG) are not supported; use a whole GPU"
        )
    models = {gpu.name for gpu in gpus if gpu.name}
    by_address = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len(models) <= 1
    if not by_address and any(word.isdecimal() for word in words):
        raise DeviceError(
            f"CUDA_VISIBLE_DEVICES={mask}: CUDA numbers different GPUs by its guess of their "
            "speed; name them by UUID (nvidia-smi -L), or set CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )
    numbered = sorted(gpus, key=lambda gpu: gpu.pci) if all(gpu.pci for gpu in gpus) else gpus
    shown: list[Device] = []
    for word in words:
        matches = [
            gpu
            for number, gpu in enumerate(numbered)
            if word and (str(number) == word or gpu.uuid.startswith(word))
        ]
        if not matches:
            break
        shown += [gpu for gpu in matches[:1] if gpu not in shown]
    return shown


def resolve_device(text: str) -> Device:
    """The device that `auto`, `cpu`, `gpu` or `gpu:N` names on this machine.

    Raises:
        DeviceError: it does not exist, or cannot be used; with those that can.
    """
    by_label = {device.label: device for device in devices()}
    labels, problems = list(by_label), gpu_problems()
    if text == "auto" and not (problems and labels == ["cpu"]):
        return by_label[labels[0]]
    wanted = labels[0] if text == "gpu" and labels[0] != "cpu" else text
    if wanted in by_label:
        return by_label[wanted]
    names = ", ".join(labels)
    if not re.fullmatch(r"auto|cpu|gpu(:\d+)?", text):
        allowed = "allowed are auto, cpu, gpu and gpu:N"
        raise DeviceError(f"device={text}: {allowed}; this machine has {names}")
    if problems:
        raise DeviceError(f"device={text}: {'; '.join(problems)}; allowed here: {names}")
    missing = "no NVIDIA GPU visible to its driver" if labels == ["cpu"] else f"only {names}"
    raise DeviceError(f"device={text}: this machine has {missing}; allowed here: auto, {names}")


def check_accelerator(device: Device, wanted: Any) -> None:
    """Raise a `DeviceError` for a device that is not the requested accelerator."""
    if wanted is not None and not is_accelerator(device.name, str(wanted)):
        raise DeviceError(
            f"accelerator={wanted}: {device.label} is {device.name}; run this trial on a machine "
            "with one, or remove the option"
        )


def is_accelerator(name: str, wanted: str) -> bool:
    """True if a device is the accelerator: `NVIDIA A100-SXM4-80GB` is `A100` and `a100_sxm4`."""
    return _letters_of(wanted) in _letters_of(name)


def _letters_of(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def check_precision(device: Device, precision: Precision, *, tf32: bool) -> None:
    """Raise a `DeviceError` for a precision that the device does not support."""
    on_cpu, capability = device.capability is None, device.capability or (0, 0)
    missing = ""
    if precision is Precision.MIXED_FLOAT16 and capability < _FLOAT16_CAPABILITY:
        instead = "mixed_bfloat16 or float32" if on_cpu else "float32"
        missing = f"fast float16 arithmetic; use {instead}"
    if precision is Precision.MIXED_BFLOAT16 and capability < _BFLOAT16_CAPABILITY and not on_cpu:
        missing = "bfloat16 arithmetic; use mixed_float16 or float32"
    asked = f"precision={precision}"
    if tf32 and not missing and capability < _BFLOAT16_CAPABILITY:
        asked, missing = "tf32=true", "TensorFloat-32; use tf32=false"
    if missing:
        shown = "a CPU" if on_cpu else "compute capability {}.{}".format(*capability)
        raise DeviceError(f"{asked}: {device.name} ({shown}) has no {missing}")


def memory_bytes() -> int:
    """Memory of the machine, or of this process's control group where that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = read_or_empty(Path("/sys/fs/cgroup/memory.max"))
    return min(total, int(limit)) if limit.isdigit() else total


def free_memory_bytes() -> int:
    """Memory that new processes can have: what is free, or can be freed."""
    available = re.search(r"^MemAvailable:\s*(\d+)", read_or_empty(Path("/proc/meminfo")), re.M)
    return min(memory_bytes(), int(available[1]) * 1024) if available else memory_bytes()


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


@cache
def cpu_name() -> str:
    """The processor's model name."""
    named = re.search(r"^model name.*?:(.*)", read_or_empty(Path("/proc/cpuinfo")), re.M)
    return named[1].strip() if named else platform.processor() or platform.machine()


def _gpus() -> list[Device]:
    """The GPUs that this process may use, numbered as by nvidia-smi; each guarded by itself."""
    try:
        library = nvml.library()
        count = library.nvmlDeviceGetCount()
    except Exception:  # no driver, no library, no permission: no GPU for us
        return []
    gpus: list[Device] = []
    for index in range(count):
        try:
            gpus.append(_gpu(library, library.nvmlDeviceGetHandleByIndex(index), len(gpus)))
        except library.NVMLError_NoPermission:  # a control group hides it
            continue
        except Exception as error:
            problem = f"does not answer ({error}); see nvidia-smi"
            gpus.append(Device(kind="gpu", index=len(gpus), name="", problem=problem))
    return gpus


def _gpu(library: Any, handle: Any, index: int) -> Device:
    name, uuid = str(library.nvmlDeviceGetName(handle)), str(library.nvmlDeviceGetUUID(handle))
    major, minor = library.nvmlDeviceGetCudaComputeCapability(handle)
    try:
        memory = int(library.nvmlDeviceGetMemoryInfo(handle).total)
    except library.NVMLError_NotSupported:
        memory = memory_bytes()
    pci, problem = nvml.ask("nvmlDeviceGetPciInfo", handle), ""
    if (nvml.ask("nvmlDeviceGetMigMode", handle) or (0,))[0]:
        problem = f"({name}) is divided into parts (MIG), which are not supported; measure on it "
        problem += f"whole: nvidia-smi -i {uuid} -mig 0"
    return Device(
        kind="gpu",
        index=index,
        name=name,
        uuid=uuid,
        capability=(int(major), int(minor)),
        memory_bytes=memory,
        pci=f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0" if pci else "",
        settings=nvml.settings(handle),
        problem=problem,
    )


def near_cores(device: Device, *, sysfs: Path = Path("/sys/bus/pci/devices")) -> list[int]:
    """The cores of a GPU's NUMA node that this process may use; all where the node is unknown."""
    usable = os.sched_getaffinity(0)
    near = _numbers_in(sysfs / device.pci / "local_cpulist") if device.pci else set[int]()
    return sorted(near & usable or usable)


def disjoint_cores(
    near: Sequence[Collection[int]], *, sysfs: Path = CORES
) -> list[tuple[int, ...]]:
    """Cores for each of several processes, as many for each, of those that each may have.

    No core is given twice; none at all where there are fewer than processes. Threads of a physical
    core stay together, unless there are fewer physical cores than processes.
    """
    groups: list[tuple[set[int], list[int]]] = []
    for index, cores in enumerate(near):
        shared = [group for group in groups if group[0] & set(cores)]
        groups = [group for group in groups if group not in shared]
        pool = set(cores).union(*(group[0] for group in shared))
        groups.append((pool, [*(member for group in shared for member in group[1]), index]))
    shares: list[list[int]] = [[] for _ in near]
    for pool, members in groups:
        listed = "cpu{}/topology/thread_siblings_list"
        siblings = {
            number: min(_numbers_in(sysfs / listed.format(number)) or {number}) for number in pool
        }
        whole = len(set(siblings.values())) >= len(members)
        units: dict[int, list[int]] = {}
        for number in sorted(pool):
            units.setdefault(siblings[number] if whole else number, []).append(number)
        split, count = list(units.values()), len(units) // len(members)
        for place, member in enumerate(sorted(members)):
            parts = split[place * count : (place + 1) * count]
            shares[member] = [number for part in parts for number in part]
    most = min(map(len, shares), default=0)
    return [tuple(share[:most]) for share in shares]


def cores_of_one(environ: Mapping[str, str]) -> tuple[int, ...]:
    """Cores for the one GPU that CUDA_VISIBLE_DEVICES leaves, where its neighbours are used too.

    Empty where all cores may be used: there is no other GPU, or not just one is left.
    """
    existing = _gpus()
    gpus, shown = [gpu for gpu in existing if not gpu.problem], visible(existing, environ)
    if len(gpus) < 2 or len(shown) != 1 or shown[0].problem:
        return ()
    return disjoint_cores([near_cores(gpu) for gpu in gpus])[gpus.index(shown[0])]


def _numbers_in(path: Path) -> set[int]:
    """The numbers in a list of the kernel's, such as `0-3,8`."""
    numbers = set()
    for part in read_or_empty(path).split(","):
        first, _, last = part.partition("-")
        if first.strip().isdigit():
            numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def read_or_empty(path: Path) -> str:
    """A small file's text; "" where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
