"""The command `doctor`."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest
from commands import command
from fake_nvml import FakeGpu, FakeNvml
from neighbour import hog

from xla_sweeps.cli import doctor
from xla_sweeps.cli.doctor import diagnose
from xla_sweeps.cli.main import run
from xla_sweeps.errors import ConfigError
from xla_sweeps.report.wandb.credentials import Login
from xla_sweeps.schema.backend import Backend, default_backend
from xla_sweeps.system import devices, environment
from xla_sweeps.system.installation import how_to_install, install
from xla_sweeps.trial import neighbours


@pytest.fixture(autouse=True)
def little_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred packages and W&B's client are asked by the real commands here alone."""
    monkeypatch.setattr(doctor, "unmet", lambda *packages: {})
    monkeypatch.setattr(doctor, "login", lambda: Login(logged_in=False, problem="", url=""))


def test_doctor_shows_devices_versions_and_quietness_without_writing(tmp_path: Path) -> None:
    done = command("doctor", "--seconds", "0.3", cwd=tmp_path, code=0)
    for part in ("cpu", "tensorflow", "quiet", "steal", "disk", "W&B"):
        assert part in done.stdout
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("absent", "level", "shown"),
    [
        ("keras-cv", "absent", f"not installed (optional: {how_to_install('keras-cv')})"),
        ("keras-hub", "absent", f"not installed (optional: {how_to_install('keras-hub')})"),
        ("tensorflow-hub", "absent", f"not installed (optional: {how_to_install('hub')})"),
        ("tensorflow", "bad", "not installed"),
    ],
)
def test_doctor_tells_an_optional_package_from_a_required_one(
    absent: str, level: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = dict.fromkeys(environment.packages_of(default_backend()), "1.0")
    del packages[absent]
    monkeypatch.setattr(environment, "versions", lambda: packages)
    findings = {finding.subject: finding for finding in diagnose(tmp_path, seconds=0.1)}
    assert (findings[absent].level, findings[absent].shown) == (level, shown)
    assert {finding.level for name, finding in findings.items() if name in packages} == {"ok"}


def test_doctor_asks_for_the_packages_of_every_backend_but_needs_the_default_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Backend(name="other", title="Other", programs={}, packages={"otherlib": ("otherlib",)})
    monkeypatch.setattr(doctor, "backends", lambda: (default_backend(), other))
    findings = {finding.subject: finding for finding in diagnose(tmp_path, seconds=0.1)}
    assert findings["tensorflow"].level == "ok"
    assert findings["otherlib"].level == "absent"
    assert install("otherlib") in findings["otherlib"].shown


def test_without_tensorflow_another_backend_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = dict.fromkeys(("jax", "jaxlib", "keras", "numpy", "hydra-core"), "1.0")
    monkeypatch.setattr(environment, "versions", lambda: packages)
    monkeypatch.setattr(environment, "is_installed", packages.__contains__)
    listed = diagnose(tmp_path, seconds=0.1)
    findings = {finding.subject: finding for finding in listed}
    assert doctor._next(listed).endswith("model=mobilenet_v2 backend=jax")
    assert {findings[name].level for name in packages} == {"ok"}
    if "gpu" in findings and "no NVIDIA GPU" in findings["gpu"].shown:
        assert findings["gpu"].fix.endswith(install("jax[cuda13]"))
    line = findings["tensorflow"]
    optional = f"not installed (optional: {install('tensorflow')})"
    assert (line.level, line.shown) == ("absent", optional)
    assert not {"tf_keras", "tensorflow-hub", "keras-cv"} & set(findings)
    packages.clear()
    with pytest.raises(ConfigError, match=r"--full: needs TensorFlow: .*install tensorflow"):
        doctor.doctor_command(["--full", "--seconds", "0.1"])


@pytest.mark.parametrize(
    ("absent", "code", "mark", "end"),
    [
        ("tensorflow-hub", 0, "–", "python -m xla_sweeps model=mobilenet_v2"),
        ("tensorflow", 1, "✕", "xla-sweeps doctor"),
    ],
)
def test_doctor_ends_with_a_sentence_and_the_next_command(
    absent: str,
    code: int,
    mark: str,
    end: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    packages = {
        name: "1.0" for name in environment.packages_of(default_backend()) if name != absent
    }
    monkeypatch.setattr(environment, "versions", lambda: packages)
    assert run(["doctor", "--seconds", "0.1"]) == code
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.split()[1:2] == [absent]]
    assert line.startswith(f"{mark} {absent:<14} not installed")
    sentence = " ".join(" ".join(lines[lines.index("") + 1 : -1]).split())
    assert sentence.startswith("This machine cannot" if code else "You can measure now")
    assert sentence.endswith(". Next:" if not code else "fix what is marked ✕. Next:")
    assert lines[-1] == end


def test_doctor_names_the_processes_that_keep_the_machine_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "NAMED", 99)  # other tests run beside it
    with hog(tmp_path):
        findings = {finding.subject: finding for finding in diagnose(tmp_path, seconds=1)}
    assert re.fullmatch(r"others use .* cores \(.*\bhungry\b.*\)", findings["quiet"].shown)


def test_doctor_names_gpus_that_cannot_be_used(tmp_path: Path) -> None:
    lost, good = FakeGpu(error=pynvml.NVMLError_GpuIsLost), FakeGpu(uuid="GPU-b")
    with FakeNvml(lost, good).installed():
        findings = [one for one in diagnose(tmp_path, seconds=0.1) if "gpu" in one.subject]
    assert [(finding.level, finding.subject, finding.shown) for finding in findings] == [
        ("ok", "gpu:1", "NVIDIA A100-SXM4-80GB, 80 GiB, power limit 400 W"),
        ("warn", "gpu", "gpu:0 does not answer (GPU is lost); see nvidia-smi"),
    ]
    with FakeNvml(lost).installed():
        (finding,) = [one for one in diagnose(tmp_path, seconds=0.1) if "gpu" in one.subject]
    assert (finding.level, finding.fix) == ("bad", "until then: device=cpu")


def test_doctor_says_what_a_gpu_is_used_for_and_what_its_driver_does_not_tell(
    tmp_path: Path,
) -> None:
    queries = ("ViolationStatus", "CurrentClocksEventReasons", "CurrentClocksThrottleReasons")
    lacks = {f"nvmlDeviceGet{query}" for query in queries}
    gpu = FakeGpu(processes={5: "python", 6: "nvidia-cuda-mps-server"}, lacks=lacks)
    with FakeNvml(gpu).installed():
        findings = diagnose(tmp_path, seconds=0.1)
    warnings = [finding.shown for finding in findings if finding.level == "warn"]
    assert "other processes compute on it: 1" in warnings
    assert any("no_gpu_telemetry" in warning for warning in warnings)


@pytest.mark.tf
@pytest.mark.slow
@pytest.mark.exhaustive
def test_doctor_compiles_for_a_device_that_is_named(tmp_path: Path) -> None:
    done = command("doctor", "--seconds", "0.1", "--device", "cpu", cwd=tmp_path, code=0)
    shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert {"✓ cpu XLA compiles a matmul", "✓ cpu XLA compiles a convolution"} <= set(shown)


def test_doctor_says_why_a_device_does_not_compile_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = (
        "import os, sys\n"
        "sys.stderr.write('W] Can\\'t find libdevice directory ${CUDA_DIR}/nvvm/libdevice.')\n"
        'print(\'{"program": "matmul", "seconds": 1.0}\', flush=True)\n'
    )
    programs = {"self_check": (sys.executable, "-c", dying)}
    dies = replace(default_backend(), programs=programs)
    monkeypatch.setattr(doctor, "backends", lambda: (dies, replace(dies, programs={})))
    (cpu,) = [device for device in devices.devices() if device.kind == "cpu"]
    findings = diagnose(tmp_path, seconds=0.1, device=cpu)
    assert [(finding.level, finding.shown) for finding in findings[-2:]] == [
        (
            "warn",
            "XLA compiles a matmul: libdevice is missing: W] Can't find libdevice directory "
            "${CUDA_DIR}/nvvm/libdevice.",
        ),
        (
            "bad",
            "XLA does not compile a convolution: libdevice is missing: W] Can't find libdevice "
            "directory ${CUDA_DIR}/nvvm/libdevice.",
        ),
    ]
    assert all("nvvm/libdevice" in finding.fix for finding in findings[-2:])


@pytest.mark.parametrize(
    ("value", "warned"),
    [(":/x", True), ("/x:", True), ("/x::/y", True), ("/x", False), ("", False)],
)
def test_doctor_warns_of_an_empty_part_of_pythonpath_which_is_the_current_folder(
    value: str, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", value)
    assert [finding.subject for finding in doctor._search_path()] == ["PYTHONPATH"] * warned
