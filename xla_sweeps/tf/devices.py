"""The device as TensorFlow sees it: its name, memory, numerics flags, and the versions that are really loaded."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from xla_sweeps.errors import DeviceError


def tf_device(device: str) -> str:
    """TensorFlow's name of the trial's device.

    The child sees only that one, so a GPU is always `GPU:0`.

    Raises:
        DeviceError: TensorFlow does not see the GPU that was asked for.
    """
    if device.startswith("gpu"):
        if not tf.config.list_physical_devices("GPU"):
            raise DeviceError(
                f"device={device}: TensorFlow {tf.__version__} sees no GPU; install the extra: "
                "pip install 'xla-sweeps[gpu]'"
            )
        return "/device:GPU:0"
    return "/device:CPU:0"


def configure(*, tf32: bool, seed: int) -> None:
    """Process-wide settings, before anything is built: no memory grabbing, TF32 as asked, fixed seeds."""
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    tf.config.experimental.enable_tensor_float_32_execution(tf32)
    keras.utils.set_random_seed(seed)


def synchronize() -> None:
    """Return once all work enqueued on every device is done."""
    tf.test.experimental.sync_devices()


def reset_peak_memory(device: str) -> None:
    """Forget the peak so far: the device's, or on a CPU the process's resident memory."""
    if "GPU" in device:
        tf.config.experimental.reset_memory_stats("GPU:0")
        return
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory_bytes(device: str) -> int:
    """Peak since `reset_peak_memory`: device memory on a GPU, resident memory of the process on a CPU."""
    if "GPU" in device:
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def loaded_environment() -> dict[str, Any]:
    """Versions and settings that only the process that loaded TensorFlow can tell."""
    build: Mapping[str, Any] = tf.sysconfig.get_build_info()
    return {
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "cuda": str(build.get("cuda_version", "")),
        "cudnn": str(build.get("cudnn_version", "")),
        "tf32": bool(tf.config.experimental.tensor_float_32_execution_enabled()),
        "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
        "devices": [device.name for device in tf.config.list_logical_devices()],
    }
