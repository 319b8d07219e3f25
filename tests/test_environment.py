"""Host facts: devices, what a precision needs, what the measuring process may see."""

from __future__ import annotations

import os

import pytest

from xla_sweeps import environment
from xla_sweeps.environment import Device, check_precision, child_environment, identity, resolve_device
from xla_sweeps.errors import DeviceError
from xla_sweeps.trial import Precision

CPU = Device(kind="cpu", index=0, name="Some CPU", memory_bytes=2**34)
V100 = Device(kind="gpu", index=0, name="V100", uuid="GPU-a", memory_bytes=2**34, capability=(7, 0))
A100 = Device(kind="gpu", index=1, name="A100", uuid="GPU-b", memory_bytes=2**36, capability=(8, 0))
P100 = Device(kind="gpu", index=0, name="P100", uuid="GPU-c", capability=(6, 0))


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "devices", lambda: (V100, A100, CPU))


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(("text", "device"), [("auto", V100), ("gpu", V100), ("gpu:1", A100), ("cpu", CPU)])
def test_a_device_is_found_by_its_name(text: str, device: Device) -> None:
    assert resolve_device(text) == device


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("gpu:7", "device=gpu:7: this machine has only gpu:0, gpu:1, cpu; allowed here: auto, gpu:0, gpu:1, cpu"),
        ("tpu", "device=tpu: allowed are auto, cpu, gpu and gpu:N; this machine has gpu:0, gpu:1, cpu"),
    ],
)
def test_an_absent_device_is_told_those_there_are(text: str, line: str) -> None:
    with pytest.raises(DeviceError) as caught:
        resolve_device(text)
    assert str(caught.value) == line


def test_without_a_gpu_auto_is_the_cpu_and_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "devices", lambda: (CPU,))
    assert resolve_device("auto") == CPU
    with pytest.raises(DeviceError, match="has no NVIDIA GPU that its driver shows; allowed here: auto, cpu"):
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
        (CPU, Precision.FLOAT32, False), (CPU, Precision.MIXED_BFLOAT16, False), (V100, Precision.MIXED_FLOAT16, False),
        (A100, Precision.MIXED_BFLOAT16, True),
    ],
)  # fmt: skip
def test_a_precision_that_the_device_has_passes(device: Device, precision: Precision, tf32: bool) -> None:
    check_precision(device, precision, tf32=tf32)


def test_the_measuring_process_sees_its_device_and_no_secret() -> None:
    environ = {
        "PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "XLA_FLAGS": "--x", "WANDB_API_KEY": "k", "AWS_SECRET_ACCESS_KEY": "k",
        "TF_TOKEN": "k", "GITHUB_TOKEN": "k", "CUDA_VISIBLE_DEVICES": "0,1,2", "TF_XLA_FLAGS": "--a", "MY_PASSWORD": "k",
    }  # fmt: skip
    kept = child_environment(environ, device=A100, extra={"TF_XLA_FLAGS": "--a --b"})
    assert kept == {
        "PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "XLA_FLAGS": "--x", "KERAS_BACKEND": "tensorflow",
        "PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": "GPU-b", "TF_XLA_FLAGS": "--a --b",
    }  # fmt: skip
    assert child_environment(environ, device=CPU, extra={})["CUDA_VISIBLE_DEVICES"] == "-1"


def test_the_environment_is_recorded_without_the_hosts_name() -> None:
    facts = environment.environment()
    assert facts["packages"]["tensorflow"]
    assert facts["packages"]["keras"]
    assert facts["cpu"]["cores"] == len(os.sched_getaffinity(0))
    assert os.uname().nodename not in facts["host"]
    assert len(facts["host"]) == 8


def test_what_makes_numbers_comparable_is_the_device_the_software_and_the_flags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_something")
    facts = environment.environment()
    assert identity(CPU, facts)["XLA_FLAGS"] == "--xla_something"
    assert identity(CPU, facts)["device"] == "Some CPU"
    assert set(identity(CPU, facts)) >= {"tensorflow", "keras", "tf_keras", "cores", "driver"}


def test_the_default_memory_limit_leaves_a_tenth_of_the_machine() -> None:
    assert environment.memory_limit_default() == round(0.9 * environment.memory_bytes())
