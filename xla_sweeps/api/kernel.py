"""GPUs that TensorFlow holds in the caller's own process, where nothing else can be measured."""

from __future__ import annotations

import sys

from xla_sweeps.errors import DeviceError


def require_free_gpus(device: object) -> None:
    """Refuse to measure on a GPU that this process holds; TensorFlow cannot give it back.

    Without a `device` a GPU is taken if there is one. The `DeviceError` says what to do.
    """
    module = sys.modules.get("tensorflow.python.eager.context")
    context = module.context_safe() if module else None
    if context is None or not context._initialized or str(device).startswith("cpu"):
        return
    gpus = context.list_logical_devices("GPU")
    if held := ", ".join(gpu.name.rpartition("device:")[2] for gpu in gpus):
        raise DeviceError(
            f"TensorFlow holds {held} in this process and would disturb what is measured there: "
            "restart it and call tf.config.set_visible_devices([], 'GPU') before anything else, so "
            "that only the measuring process uses it; or measure with device='cpu'"
        )
