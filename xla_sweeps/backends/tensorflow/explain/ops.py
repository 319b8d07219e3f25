"""Lists which operations of TensorFlow XLA compiles, as one JSON document on standard output."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import tensorflow as tf

from xla_sweeps.backends.tensorflow.explain import refusals
from xla_sweeps.schema.explanation import OpList, Support


def compiled_ops() -> OpList:
    """Every operation with a kernel, and the devices of XLA that compile it."""
    from tensorflow.python.framework import kernels

    devices = refusals.registered()
    by_op: dict[str, dict[str, Any]] = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        if not kernel.op.startswith("_"):
            by_op.setdefault(kernel.op, {}).setdefault(kernel.device_type, kernel)
    return OpList(
        tensorflow=str(tf.__version__),
        devices=devices,
        ops=tuple(_support(op, by_op[op], devices) for op in sorted(by_op)),
    )


def _support(op: str, kernels: dict[str, Any], devices: tuple[str, ...]) -> Support:
    compiling = tuple(device for device in devices if device in kernels)
    if not compiling:
        return Support(op=op, devices=(), advice=refusals.advice(op))
    types = {
        constraint.name: tuple(
            sorted(tf.as_dtype(dtype).name for dtype in constraint.allowed_values.list.type)
        )
        for constraint in kernels[compiling[0]].constraint
        if constraint.allowed_values.list.type
    }
    return Support(op=op, devices=compiling, types=types)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(compiled_ops()) + b"\n")
