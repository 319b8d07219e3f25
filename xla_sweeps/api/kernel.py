"""GPUs that TensorFlow holds in the caller's own process, where nothing else can be measured."""

from __future__ import annotations

import sys

from xla_sweeps.errors import DeviceError

_CONTEXT = "tensorflow.python.eager.context"


def require_free_gpus(device: object) -> None:
    """Refuse to measure on a GPU that this process holds; TensorFlow cannot give it back.

    Without a `device` a GPU is taken if there is one. The `DeviceError` says what to do.
    """
    held = gpus_held()
    if not held or str(device).startswith("cpu"):
        return
    raise DeviceError(
        f"TensorFlow holds {', '.join(held)} in this process and would disturb what is measured "
        "there: restart it and call tf.config.set_visible_devices([], 'GPU') before anything else, "
        "so that only the measuring process uses it; or measure with device='cpu'"
    )


def gpus_held() -> list[str]:
    """Names of the GPUs that TensorFlow uses here; none where it has not been used yet."""
    module = sys.modules.get(_CONTEXT)
    context = module.context_safe() if module else None
    if context is None or not context._initialized:
        return []
    return [device.name.rpartition("device:")[2] for device in context.list_logical_devices("GPU")]
