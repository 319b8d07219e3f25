"""Build a trial's model, give it meaningful activations, and count its parameters and MACs."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.building import BuiltModel, Step
from xla_sweeps.backends.keras.mac_count import MacCount
from xla_sweeps.backends.keras.macs import count_macs
from xla_sweeps.backends.keras.sources.inputs import drawn
from xla_sweeps.backends.tensorflow.operations import lowered
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.trial import InputSpec, ModelSpec


def build(
    spec: ModelSpec,
    *,
    precision: str,
    seed: int,
    step: Step = building.forward_of,
    batch_size: int = 1,
) -> BuiltModel:
    """Build a model; see `building.build`."""
    return building.build(
        spec, precision=precision, seed=seed, step=step, batch_size=batch_size, narrowed=_narrowed
    )


def _narrowed(outputs: Any) -> Any:
    def narrow(output: Any) -> Any:
        return tf.cast(output, tf.float32) if output.dtype.is_floating else output

    return tf.nest.map_structure(narrow, outputs)


def draw(inputs: tuple[InputSpec, ...], count: int, rng: np.random.Generator) -> Any:
    """A batch of `count` random samples: a tensor, or a tuple if the model has several inputs."""
    tensors = tuple(tf.cast(tf.constant(drawn(given, count, rng)), given.dtype) for given in inputs)
    return tensors[0] if len(tensors) == 1 else tensors


def placed(tensor: Any, device: str) -> Any:
    """The tensor in the memory of a device, by its short name or its full one.

    TensorFlow's own operations may leave int32 in host memory, from where each call would copy it.
    Uses a private method, tried on TensorFlow 2.21.0: `tf.identity` does not move int32.
    """
    return tensor if device in tensor.backing_device else tensor._copy(device_name=device)


def float64_reference(spec: ModelSpec, built: BuiltModel, batch: Any) -> list[np.ndarray]:
    """Outputs of the same call and weights in float64 on the CPU, one array per head.

    Args:
        spec: what `built` was built from.
        built: the model whose weights are used.
        batch: a batch from `draw`.

    Raises:
        XlaSweepsError: the model's dtypes are fixed.
    """
    with tf.device("/device:CPU:0"):
        twin = building.float64_twin(spec, built)
        wide = tf.nest.map_structure(widened, batch)
        forward = tf.function(twin.call, jit_compile=False, autograph=False)
        outputs = tf.nest.flatten(forward(wide))
    if any(output.dtype.is_floating and output.dtype != tf.float64 for output in outputs):
        raise XlaSweepsError("the model sets its own dtypes, so it cannot be built in float64")
    return [np.asarray(output, dtype=np.float64) for output in outputs]


def macs(built: BuiltModel, device: str = "/device:CPU:0") -> MacCount:
    """Multiply-accumulates of one sample, from the HLO for a batch of one.

    Args:
        built: the model.
        device: where its variables are; an operation elsewhere cannot be lowered with them.
    """
    batch = built.loaded.batch or 1
    signature = [tf.TensorSpec((batch, *given.shape), given.dtype) for given in built.inputs]

    def forward(*tensors: Any) -> Any:
        return built.call(tensors[0] if len(tensors) == 1 else tensors)

    with tf.device(device):
        function = tf.function(forward, jit_compile=True, autograph=False)
        count = count_macs(lowered(function, *signature))
    return count.of_each(batch)


def widened(tensor: Any) -> Any:
    """The tensor in float64, if it is floating."""
    tensor = tf.convert_to_tensor(tensor)
    return tf.cast(tensor, tf.float64) if tensor.dtype.is_floating else tensor
