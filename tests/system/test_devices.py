"""Devices: found by name, as CUDA shows them, with their cores and arithmetic."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest
from fake_nvml import FakeGpu, FakeNvml

from xla_sweeps.errors import DeviceError
from xla_sweeps.schema.trial import Precision
from xla_sweeps.system import devices
from xla_sweeps.system.devices import Device, check_precision, near_cores, resolve_device, visible
from xla_sweeps.system.nvml import GpuSettings

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
        ("gpu:7", "this machine has only gpu:0, gpu:1, cpu; allowed here: auto, gpu:0, gpu:1, cpu"),
        ("tpu", "allowed are auto, cpu, gpu and gpu:N; this machine has gpu:0, gpu:1, cpu"),
    ],
)
def test_an_absent_device_is_refused_with_those_that_exist(text: str, line: str) -> None:
    with pytest.raises(DeviceError) as caught:
        resolve_device(text)
    assert str(caught.value) == f"device={text}: {line}"


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
        (CPU, Precision.FLOAT32, False, None),
        (CPU, Precision.MIXED_BFLOAT16, False, None),
        (V100, Precision.MIXED_FLOAT16, False, None),
        (A100, Precision.MIXED_BFLOAT16, True, None),
    ],
)
def test_a_precision_that_the_device_lacks_is_refused_with_what_to_use(
    device: Device, precision: Precision, tf32: bool, instead: str | None
) -> None:
    if instead is None:
        check_precision(device, precision, tf32=tf32)
        return
    with pytest.raises(DeviceError) as caught:
        check_precision(device, precision, tf32=tf32)
    assert device.name in str(caught.value)
    assert instead in str(caught.value)


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
    environ = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    environ |= {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    assert [gpu.index for gpu in visible(GPUS, environ)] == indices


@pytest.mark.parametrize("mask", ["MIG-1234", "GPU-a,MIG-1234", "0, MIG-1234"])
def test_a_part_of_a_gpu_is_refused_rather_than_measured_on_the_cpu(mask: str) -> None:
    with pytest.raises(DeviceError, match="parts of a GPU"):
        visible(GPUS, {"CUDA_VISIBLE_DEVICES": mask, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})


def test_numbers_of_different_gpus_are_refused_where_cuda_orders_them_by_speed() -> None:
    with pytest.raises(DeviceError, match=r"by UUID .*CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        visible(GPUS, {"CUDA_VISIBLE_DEVICES": "0"})
    assert visible(GPUS, {"CUDA_VISIBLE_DEVICES": "GPU-b"}) == GPUS[1:]
    twins = [GPUS[0], replace(GPUS[1], name=GPUS[0].name)]
    assert visible(twins, {"CUDA_VISIBLE_DEVICES": "1"}) == twins[1:]
    by_address = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert visible(GPUS[::-1], by_address) == GPUS[:1]


def test_a_gpu_is_described_by_its_driver() -> None:
    with FakeNvml(FakeGpu()).installed():
        gpu = devices.devices()[0]
    names = (gpu.label, gpu.name, gpu.uuid, gpu.pci)
    assert names == ("gpu:0", "NVIDIA A100-SXM4-80GB", "GPU-a", "0000:17:00.0")
    assert (gpu.capability, gpu.memory_bytes) == ((8, 0), 80 * 2**30)
    clocks = {"sm_clock_mhz": 1410, "memory_clock_mhz": 1593}
    watts = {"power_limit_w": 400, "power_limit_set_w": 400}
    assert gpu.settings == GpuSettings(**watts, **clocks, ecc=True, persistence=False)


LOST = FakeGpu(error=pynvml.NVMLError_GpuIsLost)


def test_a_lost_gpu_leaves_the_others_and_the_cpu_usable() -> None:
    with FakeNvml(LOST, FakeGpu(uuid="GPU-b")).installed():
        assert [device.label for device in devices.devices()] == ["gpu:1", "cpu"]
        assert resolve_device("auto").uuid == "GPU-b"
        assert resolve_device("cpu").kind == "cpu"
        with pytest.raises(DeviceError) as caught:
            resolve_device("gpu:0")
    assert str(caught.value) == (
        "device=gpu:0: gpu:0 does not answer (GPU is lost); see nvidia-smi; allowed here: "
        "gpu:1, cpu"
    )


def test_where_every_gpu_is_lost_auto_does_not_silently_measure_the_cpu() -> None:
    with FakeNvml(LOST).installed():
        assert resolve_device("cpu").kind == "cpu"
        with pytest.raises(DeviceError, match=r"device=auto: gpu:0 does not answer .*here: cpu$"):
            resolve_device("auto")


def test_a_gpu_that_a_control_group_hides_is_none_of_ours() -> None:
    with FakeNvml(FakeGpu(hidden=True), FakeGpu(uuid="GPU-b")).installed():
        assert [device.uuid for device in devices.devices()] == ["GPU-b", ""]
        assert resolve_device("gpu:0").uuid == "GPU-b"
    with FakeNvml(FakeGpu(hidden=True)).installed():
        assert resolve_device("auto").kind == "cpu"


def test_a_gpu_without_memory_of_its_own_has_the_machines() -> None:
    gpu = FakeGpu(name="NVIDIA GB10", lacks={"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMigMode"})
    with FakeNvml(gpu).installed():
        assert resolve_device("auto").memory_bytes == devices.memory_bytes()


def test_a_gpu_that_is_divided_is_refused_with_what_to_do() -> None:
    with FakeNvml(FakeGpu(divided=True)).installed():
        assert resolve_device("cpu").kind == "cpu"
        with pytest.raises(DeviceError) as caught:
            resolve_device("auto")
    assert str(caught.value) == (
        "device=auto: gpu:0 (NVIDIA A100-SXM4-80GB) is divided into parts (MIG), which are not "
        "supported; measure on it whole: nvidia-smi -i GPU-a -mig 0; allowed here: cpu"
    )


def test_a_mask_that_cannot_be_used_does_not_keep_the_cpu_from_being_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,MIG-1234")
    with FakeNvml(FakeGpu()).installed():
        assert resolve_device("cpu").kind == "cpu"
        with pytest.raises(DeviceError, match=r"^device=gpu: CUDA_VISIBLE_DEVICES=GPU-a,MIG"):
            resolve_device("gpu")


def test_a_query_that_the_driver_lacks_hides_neither_the_gpu_nor_other_answers() -> None:
    lacking = ("nvmlDeviceGetPciInfo", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetEccMode")
    with FakeNvml(FakeGpu(), lacks=lacking).installed():
        gpu = resolve_device("gpu")
    assert (gpu.pci, gpu.settings.power_limit_w, gpu.settings.ecc) == ("", None, None)
    assert gpu.settings.sm_clock_mhz == 1410


def test_a_gpus_cores_are_those_of_its_numa_node(tmp_path: Path) -> None:
    usable = sorted(os.sched_getaffinity(0))
    (tmp_path / "0000:17:00.0").mkdir()
    (tmp_path / "0000:17:00.0" / "local_cpulist").write_text(f"{usable[-1]},9000-9003\n")
    assert near_cores(GPUS[0], sysfs=tmp_path) == [usable[-1]]
    assert near_cores(GPUS[1], sysfs=tmp_path) == usable


def with_threads(tmp_path: Path, cores: int) -> Path:
    """A machine with two threads a core, numbered as Linux does: 0 and `cores` are one core."""
    for number in range(2 * cores):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{number % cores},{number % cores + cores}\n")
    return tmp_path


LOW, HIGH = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]


@pytest.mark.parametrize(
    ("cores", "near", "shares"),
    [
        (8, [LOW, LOW, HIGH, HIGH], [(0, 8, 1, 9), (2, 10, 3, 11), (4, 12, 5, 13), (6, 14, 7, 15)]),
        (0, [[0, 1, 2], [0, 1, 2], [3, 4, 5, 6]], [(0,), (1,), (3,)]),
        (0, [[0, 1], range(8), [6, 7]], [(0, 1), (2, 3), (4, 5)]),
        (1, [[0, 1], [0, 1]], [(0,), (1,)]),
        (1, [[0, 1]] * 3, [(), (), ()]),
    ],
    ids=["one node", "as many for each", "unknown node", "threads of a core", "too few"],
)
def test_devices_share_no_core_and_have_as_many_each(
    cores: int, near: list[list[int]], shares: list[tuple[int, ...]], tmp_path: Path
) -> None:
    assert devices.disjoint_cores(near, sysfs=with_threads(tmp_path, cores)) == shares


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core cannot be split")
def test_a_gpu_whose_neighbours_others_use_has_cores_of_its_own() -> None:
    def cores(mask: str) -> tuple[int, ...]:
        return devices.cores_of_one({"CUDA_VISIBLE_DEVICES": mask})

    gpus = FakeGpu(divided=True), FakeGpu(uuid="GPU-b", bus=0x65), FakeGpu(uuid="GPU-c", bus=0x66)
    with FakeNvml(*gpus).installed():
        first, second = cores("1"), cores("2")
        assert first
        assert second
        assert not set(first) & set(second)
        assert cores("1,2") == ()
        assert cores("0") == (), "it cannot be used, and keeps its number"
    with FakeNvml(FakeGpu()).installed():
        assert cores("0") == ()


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
