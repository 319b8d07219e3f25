"""The device as TensorFlow sees it: name, memory, numerical settings, and the versions loaded."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.tensorflow.libraries import loaded_libraries
from xla_sweeps.errors import DeviceError
from xla_sweeps.system.installation import how_to_install
from xla_sweeps.system.process import PYTHON
from xla_sweeps.worker.stand_in import stands_in


def tf_device(device: str) -> str:
    """TensorFlow's name of the trial's device.

    The child process sees only that device, so a GPU is always `GPU:0`.

    Raises:
        DeviceError: TensorFlow does not see the requested GPU.
    """
    if not device.startswith("gpu"):
        return "/device:CPU:0"
    if stands_in():
        return "/device:CPU:1"
    if not tf.config.list_physical_devices("GPU"):
        raise DeviceError(f"device={device}: TensorFlow {tf.__version__} {_why_no_gpu()}")
    return "/device:GPU:0"


_NOT_LOADED = re.compile(
    r"Could not load dynamic library 'lib(?:cuda|cudart|cublas|cublasLt|cufft|curand|cusolver"
    r"|cusparse|cudnn)\.so[.\d]*'; dlerror: (lib[\w-]+\.so[.\d]*): cannot"
)


def _why_no_gpu() -> str:
    """Reason why TensorFlow sees no GPU, and what to do.

    It names a library that it cannot load only if it was told to before it was loaded.
    """
    if not tf.test.is_built_with_cuda():
        return f"is built without CUDA: {how_to_install('gpu')}"
    program = "import tensorflow as tf; tf.config.list_physical_devices('GPU')"
    told = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "dso_loader=1"}
    asked = [*PYTHON, "-c", program]
    done = subprocess.run(asked, env={**os.environ, **told}, capture_output=True, check=False)
    log = done.stderr.decode(errors="replace")
    missing = list(dict.fromkeys(_NOT_LOADED.findall(log)))
    if "libcuda.so.1" in missing:
        return (
            "cannot load the driver's libcuda.so.1; in a container NVIDIA_DRIVER_CAPABILITIES=all"
        )
    cannot = f"cannot load {', '.join(missing)}" if missing else "sees no GPU"
    return f"{cannot}; install CUDA: {how_to_install('gpu')}"


def configure(*, tf32: bool) -> None:
    """Set what holds for the whole process: GPU memory allocated on demand, TF32."""
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    if stands_in():
        (cpu,) = tf.config.list_physical_devices("CPU")
        both = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, both)
    tf.config.experimental.enable_tensor_float_32_execution(tf32)


def synchronize() -> None:
    """Return when all work queued on every device is done."""
    tf.test.experimental.sync_devices()


def place_tensor(tensor: Any, device: str) -> Any:
    """The tensor in the memory of a device, by its short name or its full one.

    TensorFlow's own operations may leave int32 in host memory, from where each call would copy it.
    Uses a private method, tried on TensorFlow 2.21.0: `tf.identity` does not move int32.
    """
    return tensor if device in tensor.backing_device else tensor._copy(device_name=device)


def loaded_environment() -> dict[str, Any]:
    """Settings, and versions of libraries, that only the process knows that loaded TensorFlow."""
    build: Mapping[str, Any] = tf.sysconfig.get_build_info()
    return {
        "cuda": str(build.get("cuda_version", "")),
        "cudnn": str(build.get("cudnn_version", "")),
        "tf32": bool(tf.config.experimental.tensor_float_32_execution_enabled()),
        "intra_op_threads": _threads("INTRA"),
        "inter_op_threads": _threads("INTER"),
        "onednn": _onednn(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "tf_xla_flags": os.environ.get("TF_XLA_FLAGS", ""),
        "libraries": loaded_libraries(),
        "devices": [device.name for device in tf.config.list_logical_devices()],
    }


def _threads(kind: str) -> int:
    """Threads of a pool of TensorFlow: as many as the variable says, else as there are cores."""
    given = os.environ.get(f"TF_NUM_{kind}OP_THREADS", "")
    return int(given) if given.isdigit() and int(given) else len(os.sched_getaffinity(0))


def _onednn() -> bool | None:
    """True if oneDNN's kernels are on (a private module of TensorFlow, tried on 2.21.0)."""
    try:
        from tensorflow.python.util import _pywrap_util_port
    except ImportError:
        return None
    return bool(_pywrap_util_port.IsMklEnabled())
