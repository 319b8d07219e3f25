"""Devices: found by name, as CUDA shows them, with their cores and arithmetic."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xla_sweeps.errors import DeviceError
from xla_sweeps.schema.trial import Precision
from xla_sweeps.system import devices
from xla_sweeps.system.devices import Device, check_precision, near_cores, resolve_device, visible

CPU = Device(kind="cpu", index=0, name="Some CPU", memory_bytes=2**34)

V100 = Device(kind="gpu", index=0, name="V100", uuid="GPU-a", memory_bytes=2**34, capability=(7, 0))

A100 = Device(kind="gpu", index=1, name="A100", uuid="GPU-b", memory_bytes=2**36, capability=(8, 0))

P100 = Device(kind="gpu", index=0, name="P100", uuid="GPU-c", capability=(6, 0))


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xla_sweeps.system.devices.devices", lambda: (V100, A100, CPU))


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("text", "device"), [("auto", V100), ("gpu", V100), ("gpu:1", A100), ("cpu", CPU)]
)
def test_a_device_is_found_by_its_name(text: str, device: Device) -> None:
    assert resolve_device(text) == device


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "gpu:7",
            "device=gpu:7: this machine has only gpu:0, gpu:1, cpu; allowed here: auto, gpu:0, "
            "gpu:1, cpu",
        ),
        (
            "tpu",
            "device=tpu: allowed are auto, cpu, gpu and gpu:N; this machine has gpu:0, gpu:1, cpu",
        ),
    ],
)
def test_an_absent_device_is_refused_with_those_that_exist(text: str, line: str) -> None:
    with pytest.raises(DeviceError) as caught:
        resolve_device(text)
    assert str(caught.value) == line


def test_without_a_gpu_auto_is_the_cpu_and_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xla_sweeps.system.devices.devices", lambda: (CPU,))
    assert resolve_device("auto") == CPU
    with pytest.raises(
        DeviceError, match="has no NVIDIA GPU visible to its driver; allowed here: auto, cpu"
    ):
        resolve_device("gpu")


@pytest.mark.parametrize(
    ("device", "precision", "tf32", "instead"),
    [
        (CPU, Precision.MIXED_FLOAT16, False, "use mixed_bfloat16 or float32"),
        (P100, Precision.MIXED_FLOAT16, False, "use float32"),
        (V100, Precision.MIXED_BFLOAT16, False, "use mixed_float16 or float32"),
        (V100, Precision.FLOAT32, True, "use tf32=false"),
        (CPU, Precision.FLOAT32, True, "use tf32=false"),
    ],
)
def test_a_precision_that_the_device_lacks_is_refused_with_what_to_use(
    device: Device, precision: Precision, tf32: bool, instead: str
) -> None:
    with pytest.raises(DeviceError) as caught:
        check_precision(device, precision, tf32=tf32)
    assert device.name in str(caught.value)
    assert instead in str(caught.value)


@pytest.mark.parametrize(
    ("device", "precision", "tf32"),
    [
        (CPU, Precision.FLOAT32, False),
        (CPU, Precision.MIXED_BFLOAT16, False),
        (V100, Precision.MIXED_FLOAT16, False),
        (A100, Precision.MIXED_BFLOAT16, True),
    ],
)
def test_a_precision_that_the_device_has_passes(
    device: Device, precision: Precision, tf32: bool
) -> None:
    check_precision(device, precision, tf32=tf32)


def test_the_default_memory_limit_leaves_a_tenth_of_the_machine() -> None:
    assert devices.memory_limit_default() == round(0.9 * devices.memory_bytes())


GPUS = [
    Device(kind="gpu", index=0, name="NVIDIA A100-SXM4-80GB", uuid="GPU-a", pci="0000:17:00.0"),
    Device(kind="gpu", index=1, name="Tesla T4", uuid="GPU-b", pci="0000:65:00.0"),
]


@pytest.mark.parametrize(
    ("mask", "indices"),
    [
        (None, [0, 1]),
        ("1", [1]),
        ("1,0", [1, 0]),
        ("GPU-b", [1]),
        ("", []),
        ("-1", []),
        ("0,7,1", [0]),
        ("0,0", [0]),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(mask: str | None, indices: list[int]) -> None:
    assert [gpu.index for gpu in visible(GPUS, mask)] == indices


def test_a_part_of_a_gpu_is_refused_rather_than_measured_on_the_cpu() -> None:
    with pytest.raises(DeviceError, match="parts of a GPU"):
        visible(GPUS, "MIG-1234")


def test_a_gpus_cores_are_those_of_its_numa_node(tmp_path: Path) -> None:
    usable = sorted(os.sched_getaffinity(0))
    (tmp_path / "0000:17:00.0").mkdir()
    (tmp_path / "0000:17:00.0" / "local_cpulist").write_text(f"{usable[-1]},9000-9003\n")
    assert near_cores(GPUS[0], sysfs=tmp_path) == [usable[-1]]
    assert near_cores(GPUS[1], sysfs=tmp_path) == usable


@pytest.mark.parametrize(
    ("name", "wanted", "same"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100", True),
        ("Tesla T4", "T4", True),
        ("Tesla V100-SXM2", "A100", False),
        ("NVIDIA H100 80GB", "H100", True),
    ],
)
def test_an_accelerator_is_part_of_a_devices_name(name: str, wanted: str, same: bool) -> None:
    assert devices.is_accelerator(name, wanted) is same
