"""Slots: the devices of this machine that run jobs, one at a time each, and what a job sees."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from xla_sweeps.errors import DeviceError
from xla_sweeps.system.devices import (
    Device,
    devices,
    disjoint_cores,
    free_memory_bytes,
    gpu_problems,
    near_cores,
    usable_cores,
)
from xla_sweeps.system.leases import without_leases
from xla_sweeps.system.process import JOB_VARIABLE
from xla_sweeps.system.text import count_noun

MEMORY_GIB = 4
"""Memory that a trial must have for another one to prepare ahead: it keeps its own meanwhile."""

_CPU_SLOT = re.compile(r"cpu(?::(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A device that runs jobs, one at a time, and the cores that they may use; empty for all."""

    name: str
    device: Device
    cores: tuple[int, ...] = ()

    @property
    def core_count(self) -> int:
        """The number of cores that a job on it may use."""
        return len(self.cores) or usable_cores()


def slots_for(asked: str | None) -> list[Slot]:
    """The slots of `--devices`: `gpu:0,gpu:1`, `cpu`, or `cpu:0,cpu:1` to split the cores in two.

    None is every GPU, or the CPU where there is none.

    Raises:
        DeviceError: one is absent, or asked for twice, or there are more parts than cores.
    """
    *gpus, cpu = devices()
    problems = gpu_problems()
    if asked is None:
        if problems and not gpus:
            raise DeviceError(f"{'; '.join(problems)}; to measure the CPU: --devices=cpu")
        return _gpu_slots(gpus) or [Slot(name="cpu", device=cpu)]
    names = [name.strip() for name in asked.split(",") if name.strip()]
    if not names or len(set(names)) != len(names):
        raise DeviceError(
            f"--devices={asked}: name each device once, as in --devices=gpu:0,gpu:1 or cpu:0,cpu:1"
        )
    if all(_CPU_SLOT.fullmatch(name) for name in names):
        if len(names) == 1:
            return [Slot(name=names[0], device=cpu)]
        count = len(names)
        return _slots(names, [cpu] * count, [os.sched_getaffinity(0)] * count)
    labels = {gpu.label: gpu for gpu in gpus} | {gpu.uuid: gpu for gpu in gpus if gpu.uuid}
    for name in names:
        if name not in labels:
            there = ", ".join(gpu.label for gpu in gpus) or "no GPU"
            reasons = [f"no device {name}", *problems, f"this machine has {there} and cpu"]
            raise DeviceError(f"--devices={asked}: {'; '.join(reasons)}")
    return _gpu_slots([labels[name] for name in names])


def _gpu_slots(gpus: Sequence[Device]) -> list[Slot]:
    """GPUs; where there are several, each with cores of its own on its NUMA node."""
    if len(gpus) < 2:
        return [Slot(name=gpu.label, device=gpu) for gpu in gpus]
    return _slots([gpu.label for gpu in gpus], gpus, [near_cores(gpu) for gpu in gpus])


def _slots(
    names: Sequence[str], owners: Sequence[Device], near: Sequence[Collection[int]]
) -> list[Slot]:
    cores = disjoint_cores(near)
    if not all(cores):
        why = f"cannot split {usable_cores()} cores into {len(names)} parts"
        raise DeviceError(f"--devices={','.join(names)}: {why}")
    return [
        Slot(name=name, device=device, cores=own)
        for name, device, own in zip(names, owners, cores, strict=True)
    ]


def ahead_on(
    slots: Sequence[Slot], asked: int, *, free_bytes: float | None = None
) -> tuple[int, str]:
    """Number of trials of each device that prepare ahead; a line where it is not what was asked.

    Each needs a core and memory of its own, and leases. On a GPU none does: what waits there keeps
    its memory, so that a model that fits alone would run out of it. The memory is this machine's
    by default.
    """
    cores = min(slot.core_count for slot in slots)
    free_gib = (free_memory_bytes() if free_bytes is None else free_bytes) / 2**30
    most = {
        count_noun(cores, "core"): cores - 1,
        f"{free_gib:.0f} GiB of free memory": int(free_gib / MEMORY_GIB / len(slots)) - 1,
        without_leases(): 0 if without_leases() else asked,
        "waiting trials keep GPU memory": 0 if slots[0].device.kind == "gpu" else asked,
    }
    reason = min(most, key=lambda why: most[why])
    left = max(0, min(asked, most[reason]))
    return left, f"--ahead={asked} is {left} here: {reason}" if left < asked else ""


def places(slots: Sequence[Slot], ahead: int) -> list[Slot]:
    """The slots, and for each as many more on its device as trials prepare ahead of their turn."""
    return [
        replace(slot, name=f"{slot.name}+{place}" if place else slot.name)
        for place in range(1 + ahead)
        for slot in slots
    ]


def place_of(slot: str) -> str:
    """The name of the slot beside which this one prepares ahead; its own if it does not."""
    return slot.partition("+")[0]


def job_environment(environ: Mapping[str, str], slot: Slot) -> dict[str, str]:
    """A job's environment: this one's, with the one device that it may see."""
    gpu = slot.device.kind == "gpu"
    visible = (slot.device.uuid or str(slot.device.index)) if gpu else ""
    kept = {name: value for name, value in environ.items() if name != JOB_VARIABLE}
    return {**kept, "CUDA_VISIBLE_DEVICES": visible}
