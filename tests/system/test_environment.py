"""The environment: what is recorded, and which variables the measuring process sees."""

from __future__ import annotations

import os

import pytest

from xla_sweeps.system import environment
from xla_sweeps.system.devices import Device
from xla_sweeps.system.environment import FLAGS, child_environment, dropped_flags, identity

CPU = Device(kind="cpu", index=0, name="Some CPU", memory_bytes=2**34)

A100 = Device(kind="gpu", index=1, name="A100", uuid="GPU-b", memory_bytes=2**36, capability=(8, 0))


def test_the_measuring_process_sees_its_device_and_no_secret() -> None:
    environ = {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "XLA_FLAGS": "--x",
        "WANDB_API_KEY": "k",
        "AWS_SECRET_ACCESS_KEY": "k",
        "TF_TOKEN": "k",
        "GITHUB_TOKEN": "k",
        "CUDA_VISIBLE_DEVICES": "0,1,2",
        "TF_XLA_FLAGS": "--a",
        "MY_PASSWORD": "k",
    }
    kept = child_environment(environ, device=A100, extra={"TF_XLA_FLAGS": "--a --b"})
    assert kept == {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "XLA_FLAGS": "--x",
        "KERAS_BACKEND": "tensorflow",
        "PYTHONUNBUFFERED": "1",
        "CUDA_VISIBLE_DEVICES": "GPU-b",
        "TF_XLA_FLAGS": "--a --b",
    }
    assert child_environment(environ, device=CPU, extra={})["CUDA_VISIBLE_DEVICES"] == "-1"


@pytest.mark.parametrize(
    ("given", "kept", "dropped"),
    [
        (
            "--xla_dump_to=/etc --xla_cpu_x=1",
            {"XLA_FLAGS": "--xla_cpu_x=1"},
            ["--xla_dump_to=/etc"],
        ),
        ("--xla_dump_to /etc", {}, ["--xla_dump_to", "/etc"]),
        ("/tmp/flags", {}, ["/tmp/flags"]),
        ("--xla_new_thing=../x", {}, ["--xla_new_thing=../x"]),
        ("--xla_gpu_cuda_data_dir=/c", {"XLA_FLAGS": "--xla_gpu_cuda_data_dir=/c"}, []),
    ],
)
def test_a_flag_that_names_a_file_reaches_no_trial(
    given: str, kept: dict[str, str], dropped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"XLA_FLAGS": given}
    child = child_environment(environ, device=A100, extra={})
    assert {name: value for name, value in child.items() if name in FLAGS} == kept
    assert dropped_flags(environ) == dropped
    for name in FLAGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XLA_FLAGS", given)
    assert environment.environment()["flags"] == kept


def test_the_environment_is_recorded_without_the_hosts_name() -> None:
    facts = environment.environment()
    assert facts["packages"]["tensorflow"]
    assert facts["packages"]["keras"]
    assert facts["cpu"]["cores"] == len(os.sched_getaffinity(0))
    assert os.uname().nodename not in facts["host"]
    assert len(facts["host"]) == 8


def test_the_environments_identity_is_device_software_and_flags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_something")
    facts = environment.environment()
    assert identity(CPU, facts)["XLA_FLAGS"] == "--xla_something"
    assert identity(CPU, facts)["device"] == "Some CPU"
    assert set(identity(CPU, facts)) >= {"tensorflow", "keras", "tf_keras", "cores", "driver"}
