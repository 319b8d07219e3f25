"""Slots: which devices run jobs, and which device a job sees."""

from __future__ import annotations

import os

import pynvml
import pytest
from fake_nvml import FakeGpu, FakeNvml

from xla_sweeps.errors import DeviceError
from xla_sweeps.sweeps.launchers.slots import job_environment, slots_for

TWO_GPUS = FakeNvml(FakeGpu(), FakeGpu(name="Tesla T4", uuid="GPU-b", bus=0x65))


def test_by_default_every_gpu_is_used_or_the_cpu_without_one() -> None:
    with TWO_GPUS.installed():
        assert [slot.name for slot in slots_for(None)] == ["gpu:0", "gpu:1"]
        assert [slot.device.uuid for slot in slots_for("gpu:1")] == ["GPU-b"]
        assert [slot.device.uuid for slot in slots_for("GPU-b")] == ["GPU-b"]
    with FakeNvml().installed():
        assert [slot.name for slot in slots_for(None)] == ["cpu"]
    with pytest.raises(DeviceError, match=r"cannot split .* into 999 parts"):
        slots_for(",".join(f"cpu:{number}" for number in range(999)))


def test_a_sweep_skips_a_lost_gpu_and_does_not_silently_measure_the_cpu() -> None:
    lost = FakeGpu(error=pynvml.NVMLError_GpuIsLost)
    with FakeNvml(lost, FakeGpu(uuid="GPU-b")).installed():
        assert [slot.name for slot in slots_for(None)] == ["gpu:1"]
        with pytest.raises(DeviceError, match=r"no device gpu:0; gpu:0 does not answer"):
            slots_for("gpu:0")
    with FakeNvml(lost).installed():
        assert [slot.name for slot in slots_for("cpu")] == ["cpu"]
        with pytest.raises(DeviceError, match="to measure the CPU: --devices=cpu"):
            slots_for(None)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core cannot be split")
def test_gpus_of_one_node_run_their_jobs_on_cores_of_their_own() -> None:
    with TWO_GPUS.installed():
        first, second = slots_for("gpu:0,gpu:1")
        (alone,) = slots_for("gpu:1")
    assert first.cores
    assert not set(first.cores) & set(second.cores)
    assert first.core_count == second.core_count
    assert alone.cores == ()


def test_a_job_sees_its_device_by_uuid_and_the_cpu_sees_none() -> None:
    with TWO_GPUS.installed():
        (gpu,), (cpu,) = slots_for("gpu:1"), slots_for("cpu")
    assert job_environment({"A": "b"}, gpu)["CUDA_VISIBLE_DEVICES"] == "GPU-b"
    assert job_environment({"CUDA_VISIBLE_DEVICES": "0"}, cpu)["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUDA_VISIBLE_DEVICES" not in os.environ or os.environ["CUDA_VISIBLE_DEVICES"] != "GPU-b"
