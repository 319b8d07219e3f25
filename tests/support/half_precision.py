"""Skips tests of a half precision where TensorFlow's own kernels for it fail on this CPU.

oneDNN's AVX2 kernels, for example, refuse bfloat16 convolutions, and some products of matrices end
the process. So without AVX-512 the operations are tried in a process of their own, once for each
precision.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from programs import run_program

_PROBE = """
import sys
import numpy as np
import keras
keras.mixed_precision.set_global_policy(sys.argv[1])
image = keras.layers.Input((32, 32, 3))
hidden = keras.layers.Conv2D(8, 3, strides=2, use_bias=False)(image)
hidden = keras.layers.BatchNormalization()(hidden)
hidden = keras.layers.ReLU(6.0)(hidden)
hidden = keras.layers.DepthwiseConv2D(3, padding="same", use_bias=False)(hidden)
hidden = keras.layers.Conv2D(16, 1, use_bias=False)(hidden)
hidden = keras.layers.GlobalAveragePooling2D()(hidden)
outputs = keras.layers.Dense(10, dtype="float32")(keras.layers.Dense(16)(hidden))
model = keras.Model(image, outputs)
sequence = keras.layers.Input((16, 8))
steps = keras.layers.LSTM(8)(keras.layers.Conv1D(8, 3)(sequence))
sequential = keras.Model(sequence, keras.layers.Dense(1, dtype="float32")(steps))
import tensorflow as tf
for one in (model, sequential):
    batch = np.ones((2, *one.input_shape[1:]), "float32")
    for jit_compile in (None, False, True):
        call = one if jit_compile is None else tf.function(one, jit_compile=jit_compile)
        assert np.isfinite(call(batch).numpy()).all()
"""


_KERNELS_FAIL = re.compile(r"errors_impl\.(?:Aborted|Internal|Unimplemented)Error: .*")
"""Errors of an operation whose kernel fails; oneDNN's are `AbortedError`."""


def require(precision: str) -> None:
    """Skip the test where TensorFlow's kernels for this policy (`mixed_bfloat16`) fail."""
    if why := failure_of(*_tried(precision)):
        pytest.skip(f"TensorFlow itself fails in {precision} on this CPU: {why}")


def failure_of(code: int, errors: str) -> str:
    """The failure of a kernel that ended a process; "" where none did.

    Args:
        code: its exit code, negative for a signal.
        errors: its standard error.

    Raises:
        AssertionError: something else ended it.
    """
    if not code:
        return ""
    raised: list[str] = _KERNELS_FAIL.findall(errors)
    if raised:
        return raised[-1].removeprefix("errors_impl.")[:300]
    assert code < 0, errors
    return signal.Signals(-code).name


@functools.cache
def _tried(precision: str) -> tuple[int, str]:
    """Exit code and standard error of the operations; 0 where there is no need to try them."""
    if "ONEDNN_MAX_CPU_ISA" not in os.environ and "avx512f" in Path("/proc/cpuinfo").read_text():
        return 0, ""
    ended = run_program(sys.executable, "-c", _PROBE, precision, code=None)
    return ended.returncode, ended.stderr
