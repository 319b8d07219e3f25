"""TensorFlow's real log where the driver has a GPU and libraries are missing."""

from __future__ import annotations

import shutil
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest
from programs import run_program

from xla_sweeps.doctor import toolchain
from xla_sweeps.errors import DeviceError
from xla_sweeps.system.installation import how_to_install

DRIVER = """
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDriverGetVersion(int *version) { *version = 12050; return 0; }
int cuGetErrorName(int error, const char **text) { *text = ""; return 0; }
int cuGetErrorString(int error, const char **text) { *text = ""; return 0; }
"""
"""A driver that has one GPU and does nothing; each other function succeeds."""

OTHERS = (
    *("cuDeviceGetAttribute", "cuDeviceGetName", "cuDeviceTotalMem_v2", "cuDeviceGetPCIBusId"),
    *("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxGetState"),
    *("cuDevicePrimaryCtxSetFlags_v2", "cuCtxSetCurrent", "cuCtxGetCurrent", "cuCtxGetDevice"),
    *("cuCtxSynchronize", "cuDeviceGetUuid_v2", "cuDeviceGetProperties", "cuMemGetInfo_v2"),
    *("cuDeviceCanAccessPeer", "cuDeviceGetDefaultMemPool", "nvmlInit_v2", "nvmlInitWithFlags"),
    *("nvmlShutdown", "nvmlDeviceGetHandleByPciBusId_v2", "nvmlSystemGetDriverVersion"),
    *("nvmlDeviceGetGpuFabricInfoV", "nvmlErrorString", "nvmlDeviceGetCount_v2"),
)

pytestmark = [
    pytest.mark.tf,
    pytest.mark.slow,
    pytest.mark.skipif(find_library("cuda") is not None, reason="has a driver of its own"),
]

ASK = """
from xla_sweeps.backends.tensorflow.devices import tf_device
from xla_sweeps.errors import DeviceError
try:
    print(tf_device("gpu:0"))
except DeviceError as error:
    print(error)
"""


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """A folder with a stand-in for the driver's libraries."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source = tmp_path / "driver.c"
    source.write_text(DRIVER + "".join(f"int {name}(void *a) {{ return 0; }}\n" for name in OTHERS))
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        run_program(compiler, "-w", "-shared", "-fPIC", "-o", tmp_path / name, source)
    return tmp_path


@pytest.mark.exhaustive
def test_missing_libraries_of_cuda_are_named_with_what_installs_them(driver: Path) -> None:
    done = run_program(sys.executable, "-c", ASK, more={"LD_LIBRARY_PATH": str(driver)})
    line = done.stdout.strip()
    assert "cannot load libcudnn.so.9, libcudart.so.12, libcublas.so.12" in line
    assert how_to_install("gpu") in line
    assert "\n" not in line
    cause = toolchain.known_cause(line)
    assert cause is not None
    assert cause.what == "TensorFlow cannot load CUDA's libraries"


def test_a_container_without_the_drivers_library_is_told_what_to_set() -> None:
    from xla_sweeps.backends.tensorflow.devices import tf_device

    with pytest.raises(DeviceError, match=r"cannot load the driver's libcuda\.so\.1") as caught:
        tf_device("gpu:0")
    assert "NVIDIA_DRIVER_CAPABILITIES=all" in str(caught.value)
