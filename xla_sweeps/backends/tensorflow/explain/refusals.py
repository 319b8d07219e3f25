"""Operations without a kernel of XLA, from TensorFlow's registry, and what to use instead.

As a program it lists which operations XLA compiles: one JSON document on standard output.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import tensorflow as tf

from xla_sweeps.backends.tensorflow.advice import advice
from xla_sweeps.backends.tensorflow.explain.graph import TracedOp
from xla_sweeps.schema.explanation import OpList, Place, Refusal, Support

DEVICES = {"cpu": "XLA_CPU_JIT", "gpu": "XLA_GPU_JIT"}
"""XLA's device for each kind of device."""

_TYPES = "a type that XLA takes (`xla-sweeps explain --ops {op}` lists them)"


@cache
def read_registry() -> Mapping[str, Mapping[str, Sequence[Any]]]:
    """Read the registered kernels, by operation and device.

    XLA's are registered when TensorFlow first runs something. Uses a private module of TensorFlow,
    tried on 2.21.0; it has been there since 1.9.
    """
    from tensorflow.python.framework import kernels

    tf.constant(0) + 1
    by_op: dict[str, dict[str, list[Any]]] = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        by_op.setdefault(kernel.op, {}).setdefault(kernel.device_type, []).append(kernel)
    return by_op


def registered_devices() -> tuple[str, ...]:
    """XLA's devices whose kernels this process lists; it needs no such device."""
    return tuple(device for device in DEVICES.values() if device in read_registry()["AddV2"])


def refusals(ops: Sequence[TracedOp]) -> tuple[Refusal, ...]:
    """The operations without a kernel on any of XLA's devices that are listed."""
    functions = {traced.function for traced in ops}
    places: dict[tuple[str, str, tuple[str, ...]], list[Place]] = {}
    for traced in ops:
        if traced.op in functions or traced.op in ("_Arg", "_Retval"):
            continue
        without = {
            device: why for device in registered_devices() if (why := _find_refusal(traced, device))
        }
        if without:
            key = traced.op, next(iter(without.values())), tuple(without)
            places.setdefault(key, []).append(traced.place)
    return tuple(
        Refusal(
            op=op,
            devices=devices,
            reason=reason,
            advice=advice(op) if reason == NO_KERNEL else _TYPES.format(op=op),
            places=tuple(where),
        )
        for (op, reason, devices), where in places.items()
    )


NO_KERNEL = "no kernel"


def _find_refusal(traced: TracedOp, device: str) -> str:
    """Reason why a device has no kernel for an operation with its types, or ""."""
    kernels = read_registry().get(traced.op, {}).get(device)
    if not kernels:
        return NO_KERNEL
    types = {
        name: (value.type,) if value.type else tuple(value.list.type)
        for name, value in traced.definition.attr.items()
    }
    wrong: list[str] = []
    for kernel in kernels:
        wrong = [
            f"{constraint.name}={tf.as_dtype(given).name}"
            for constraint in kernel.constraint
            for given in types.get(constraint.name, ())
            if constraint.allowed_values.list.type
            and given not in constraint.allowed_values.list.type
        ]
        if not wrong:
            return ""
    return f"no kernel for {', '.join(dict.fromkeys(wrong))}"


def compiled_ops() -> OpList:
    """Every operation with a kernel, and the devices of XLA that compile it."""
    return OpList(
        tensorflow=str(tf.__version__),
        devices=registered_devices(),
        ops=tuple(_support(op) for op in sorted(read_registry()) if not op.startswith("_")),
    )


def _support(op: str) -> Support:
    kernels = read_registry()[op]
    compiling = tuple(device for device in registered_devices() if device in kernels)
    if not compiling:
        return Support(op=op, devices=(), advice=advice(op))
    types = {
        constraint.name: tuple(
            sorted(tf.as_dtype(dtype).name for dtype in constraint.allowed_values.list.type)
        )
        for constraint in kernels[compiling[0]][0].constraint
        if constraint.allowed_values.list.type
    }
    return Support(op=op, devices=compiling, types=types)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(compiled_ops()) + b"\n")
