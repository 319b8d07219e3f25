"""Narrow and place tensors of TensorFlow, and count the multiply-accumulates of a model."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.mac_count import MacCount
from xla_sweeps.backends.keras.macs import count_macs
from xla_sweeps.backends.tensorflow.operations import lower


def narrow(outputs: Any) -> Any:
    """Outputs, the floating ones in float32."""
    return tf.nest.map_structure(
        lambda output: tf.cast(output, tf.float32) if output.dtype.is_floating else output, outputs
    )


def place_tensor(tensor: Any, device: str) -> Any:
    """The tensor in the memory of a device, by its short name or its full one.

    TensorFlow's own operations may leave int32 in host memory, from where each call would copy it.
    Uses a private method, tried on TensorFlow 2.21.0: `tf.identity` does not move int32.
    """
    return tensor if device in tensor.backing_device else tensor._copy(device_name=device)


def macs(built: BuiltModel, device: str = "/device:CPU:0") -> MacCount:
    """Multiply-accumulates of one sample, from the HLO for a batch of one."""
    batch = built.loaded.batch or 1
    signature = [tf.TensorSpec((batch, *given.shape), given.dtype) for given in built.inputs]

    def forward(*tensors: Any) -> Any:
        return built.call(tensors[0] if len(tensors) == 1 else tensors)

    with tf.device(device):
        function = tf.function(forward, jit_compile=True, autograph=False)
        count = count_macs(lower(function, *signature))
    return count.of_each(batch)
