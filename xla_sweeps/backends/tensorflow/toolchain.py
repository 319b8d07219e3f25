"""Compile two programs with XLA and report the result of each, a JSON line on standard output.

The parent's side is `measure.toolchain`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec
import tensorflow as tf

from xla_sweeps.backends.tensorflow import devices
from xla_sweeps.doctor.toolchain import PROGRAMS, Compiled
from xla_sweeps.trial.failures import error_text


def main(kind: str) -> None:
    """Compile and run each program on the visible device of a kind, `cpu` or `gpu`."""
    for program, (function, shapes) in zip(PROGRAMS, _FUNCTIONS, strict=True):
        begun = time.perf_counter()
        try:
            with tf.device(devices.tf_device(kind)):
                compiled = tf.function(function, jit_compile=True, autograph=False)
                compiled(*(tf.ones(shape) for shape in shapes)).numpy()
            said = Compiled(program=program, seconds=time.perf_counter() - begun)
        except Exception as error:
            said = Compiled(program=program, error=error_text(error))
        sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
        sys.stdout.buffer.flush()


def _product(left: Any, right: Any) -> Any:
    return tf.pow(tf.linalg.matmul(left, right), 1.5)


def _convolution(images: Any, kernel: Any) -> Any:
    return tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME"))


_FUNCTIONS: tuple[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]], ...] = (
    (_product, ((64, 64), (64, 64))),
    (_convolution, ((1, 16, 16, 8), (3, 3, 8, 8))),
)


if __name__ == "__main__":
    main(sys.argv[1])
