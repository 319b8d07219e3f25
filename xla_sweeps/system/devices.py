"""Devices that a trial can own: GPUs and the CPU, their memory, cores and arithmetic."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from xla_sweeps.errors import DeviceError
from xla_sweeps.schema.trial import Precision

_FLOAT16_CAPABILITY, _BFLOAT16_CAPABILITY = (7, 0), (8, 0)

_MEMORY_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device that a trial can own.

    Attributes:
        kind: `cpu` or `gpu`.
        capability: CUDA compute capability, or None.
    """

    kind: str
    index: int
    name: str
    uuid: str = ""
    memory_bytes: int = 0
    capability: tuple[int, int] | None = None
    pci: str = ""

    @property
    def label(self) -> str:
        """As written on the command line: `cpu` or `gpu:0`."""
        return "cpu" if self.kind == "cpu" else f"gpu:{self.index}"


@cache
def devices() -> tuple[Device, ...]:
    """The NVIDIA GPUs that the driver shows and CUDA_VISIBLE_DEVICES leaves, and the CPU last."""
    return (
        *visible(_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES")),
        Device(kind="cpu", index=0, name=cpu_name(), memory_bytes=memory_bytes()),
    )


def visible(gpus: Sequence[Device], mask: str | None) -> list[Device]:
    """The GPUs that CUDA_VISIBLE_DEVICES names, in its order: by the driver's index, or by UUID.

    As in CUDA, the first entry that names none ends the list.

    Raises:
        DeviceError: it names a part of a GPU, which would be overlooked: the trial would run on the
            CPU.
    """
    if mask is None:
        return list(gpus)
    if mask.startswith("MIG-"):
        raise DeviceError(
            f"CUDA_VISIBLE_DEVICES={mask}: parts of a GPU (MIG) are not supported; use a whole GPU"
        )
    found: list[Device] = []
    for word in mask.split(","):
        matches = [
            gpu
            for gpu in gpus
            if word.strip()
            and (str(gpu.index) == word.strip() or gpu.uuid.startswith(word.strip()))
        ]
        if not matches:
            break
        found += [gpu for gpu in matches[:1] if gpu not in found]
    return found


def resolve_device(text: str) -> Device:
    """The device that `auto`, `cpu`, `gpu` or `gpu:N` names on this machine.

    Raises:
        DeviceError: it does not exist; with those that do.
    """
    found = {device.label: device for device in devices()}
    labels = list(found)
    if text == "auto":
        return found[labels[0]]
    wanted = labels[0] if text == "gpu" and labels[0] != "cpu" else text
    if wanted in found:
        return found[wanted]
    if not re.fullmatch(r"cpu|gpu(:\d+)?", text):
        raise DeviceError(
            f"device={text}: allowed are auto, cpu, gpu and gpu:N; this machine has "
            f"{', '.join(labels)}"
        )
    missing = (
        "no NVIDIA GPU visible to its driver" if labels == ["cpu"] else f"only {', '.join(labels)}"
    )
    raise DeviceError(
        f"device={text}: this machine has {missing}; allowed here: auto, {', '.join(labels)}"
    )


def check_accelerator(device: Device, wanted: Any) -> None:
    """Refuse a device that is not the requested accelerator.

    Raises:
        DeviceError: with the device's name.
    """
    if wanted is not None and not is_accelerator(device.name, str(wanted)):
        raise DeviceError(
            f"accelerator={wanted}: {device.label} is {device.name}; run this trial on a machine "
            "with one, or remove the option"
        )


def is_accelerator(name: str, wanted: str) -> bool:
    """Whether a device is the accelerator: `NVIDIA A100-SXM4-80GB` is `A100` and `a100_sxm4`."""
    return _folded(wanted) in _folded(name)


def _folded(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def check_precision(device: Device, precision: Precision, *, tf32: bool) -> None:
    """Refuse a precision that the device does not support.

    Raises:
        DeviceError: with what to use instead.
    """
    capability = device.capability
    shown = f"compute capability {capability[0]}.{capability[1]}" if capability else "a CPU"
    if precision is Precision.MIXED_FLOAT16 and (
        capability is None or capability < _FLOAT16_CAPABILITY
    ):
        instead = "mixed_bfloat16 or float32" if capability is None else "float32"
        raise DeviceError(
            f"precision=mixed_float16: {device.name} ({shown}) has no fast float16 arithmetic; "
            f"use {instead}"
        )
    if (
        precision is Precision.MIXED_BFLOAT16
        and capability is not None
        and capability < _BFLOAT16_CAPABILITY
    ):
        raise DeviceError(
            f"precision=mixed_bfloat16: {device.name} ({shown}) has no bfloat16 arithmetic; "
            "use mixed_float16 or float32"
        )
    if tf32 and (capability is None or capability < _BFLOAT16_CAPABILITY):
        raise DeviceError(
            f"tf32=true: {device.name} ({shown}) has no TensorFloat-32; use tf32=false"
        )


def memory_limit_default() -> int:
    """Default memory limit of a measuring process, bytes: 90 % of the machine's or the cgroup's."""
    return round(_MEMORY_SHARE * memory_bytes())


def memory_bytes() -> int:
    """Memory of the machine, or of this process's control group where that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = read_or_empty(Path("/sys/fs/cgroup/memory.max"))
    return min(total, int(limit)) if limit.isdigit() else total


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


@cache
def cpu_name() -> str:
    """The processor's model name."""
    for line in read_or_empty(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _gpus() -> list[Device]:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no driver, no library, no permission: no GPU for us
        return []
    found = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        found.append(
            Device(
                kind="gpu",
                index=index,
                name=str(pynvml.nvmlDeviceGetName(handle)),
                uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
                capability=(int(major), int(minor)),
                memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
                pci=_pci_address(pynvml, handle),
            )
        )
    return found


def near_cores(device: Device, *, sysfs: Path = Path("/sys/bus/pci/devices")) -> list[int]:
    """The cores of a GPU's NUMA node that this process may use; all where the node is unknown."""
    usable = os.sched_getaffinity(0)
    near = set()
    for part in (
        read_or_empty(sysfs / device.pci / "local_cpulist").split(",") if device.pci else ()
    ):
        first, _, last = part.partition("-")
        if first.strip().isdigit():
            near |= set(range(int(first), int(last or first) + 1))
    return sorted(near & usable or usable)


def _pci_address(pynvml: Any, handle: Any) -> str:
    """The address as in /sys: `0000:17:00.0`; "" where the driver does not report it."""
    with contextlib.suppress(Exception):
        info = pynvml.nvmlDeviceGetPciInfo(handle)
        return f"{int(info.domain):04x}:{int(info.bus):02x}:{int(info.device):02x}.0"
    return ""


def read_or_empty(path: Path) -> str:
    """A small file's text; "" where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
