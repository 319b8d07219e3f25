"""Measure what shows whether figures of a device can be trusted; `doctor` asks for it.

`measure KIND PEAK` sends a `Checked` a line, and `compile KIND` a `Compiled` for each program.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import tensorflow as tf
from scipy.stats import theilslopes

from xla_sweeps.backends.keras.plants import WIDTHS, plant_errors
from xla_sweeps.backends.tensorflow import devices, memory
from xla_sweeps.backends.tensorflow.modes import ModeExecutable
from xla_sweeps.doctor.check_result import Checked, check_of, impossible
from xla_sweeps.doctor.toolchain import PROGRAMS, Compiled
from xla_sweeps.schema.measurement import INPUTS
from xla_sweeps.schema.modes import Mode
from xla_sweeps.trial.failures import error_text
from xla_sweeps.worker import timing

SIZES = {"gpu": (4096, 2**30), "cpu": (512, 2**26)}
"""Side of the multiplied matrices, and bytes of the planted tensor."""

CALLS = (2, 4, 8, 16)
REPEATS = 7

LARGEST_OFFSET = 0.5
"""Calls that no call may cost: what a line through times of more and more calls shows at 0."""


def measure(kind: str, peak: float) -> Iterator[Checked]:
    """Measure everything that one process can."""
    side, planted_bytes = SIZES[kind]
    yield from _check_speed(side, peak)
    yield _memory(planted_bytes, devices.tf_device(kind))
    compiled = (Mode.GRAPH, Mode.XLA)
    yield from plant_errors(ModeExecutable, Mode.EAGER, compiled, WIDTHS[kind], gpu=kind == "gpu")


def compile_programs() -> Iterator[Compiled]:
    """Compile and run each program with XLA."""
    for program, (function, shapes) in zip(PROGRAMS, _FUNCTIONS, strict=True):
        try:
            compiled = tf.function(function, jit_compile=True, autograph=False)
            compiled(*(tf.ones(shape) for shape in shapes)).numpy()
            yield Compiled(program=program)
        except Exception as error:
            yield Compiled(program=program, error=error_text(error))


def _product(left: Any, right: Any) -> Any:
    return tf.pow(tf.linalg.matmul(left, right), 1.5)


def _convolution(images: Any, kernel: Any) -> Any:
    return tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME"))


_FUNCTIONS: tuple[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]], ...] = (
    (_product, ((64, 64), (64, 64))),
    (_convolution, ((1, 16, 16, 8), (3, 3, 8, 8))),
)


def _check_speed(side: int, peak: float) -> Iterator[Checked]:
    """Time products of matrices: the speed, and whether time is proportional to their number.

    Of repeats the shortest counts: other load only adds time.
    """
    matrix = tf.fill((side, side), 1 / side)
    product = ModeExecutable.bind(lambda x: tf.linalg.matmul(x, x), Mode.GRAPH, [matrix] * INPUTS)
    product.first_call_s()
    repeats = [[_block_s(product, calls) for calls in CALLS] for _ in range(REPEATS)]
    seconds = dict(zip(CALLS, map(min, zip(*repeats, strict=True)), strict=True))
    call_s = float(theilslopes(list(seconds.values()), CALLS).slope)
    flops = 2 * side**3 / call_s if call_s > 0 else math.inf
    name = f"float32 matmul of {side}^3"
    figure = f"{flops / 1e12:.3g} TFLOP/s"
    if math.isinf(peak):
        yield impossible(f"{name}: speed", figure, "at most the peak, which is unknown")
    else:
        limit = f"at most {peak / 1e12:.3g} TFLOP/s"
        yield check_of(f"{name}: speed", figure, limit, ok=flops <= peak)
    offset = statistics.median(seconds[calls] / call_s - calls for calls in CALLS)
    name, expected = f"{name}: time at 0 calls", f"0 ± {LARGEST_OFFSET:g} calls"
    yield check_of(name, f"{offset:.2f} calls", expected, ok=abs(offset) <= LARGEST_OFFSET)


def _memory(planted_bytes: int, device: str) -> Checked:
    """Compare what the memory figure rises by with the size of a tensor."""
    count, mib = planted_bytes // 4, planted_bytes >> 20

    def allocate() -> Any:
        return tf.fill((count,), 1.0)

    memory.reset_peak(device)
    before = memory.counted_bytes(device, "peak")
    if before is None:

        def twice() -> None:
            for _ in range(2):
                allocate()

        rise = memory.traced_bytes(twice, at_most_s=10.0)
    else:
        kept = allocate()
        devices.synchronize()
        rise = (memory.counted_bytes(device, "peak") or 0) - before
        del kept
    ok = abs(rise - planted_bytes) <= 0.01 * planted_bytes
    return check_of(
        f"memory of a tensor of {mib} MiB", f"{rise / 2**20:.1f} MiB", f"{mib} ± 1 %", ok=ok
    )


def _block_s(executable: ModeExecutable, calls: int) -> float:
    block = timing.settled_block(executable, "", calls, settle=True, clock=time.perf_counter_ns)
    return block.elapsed_ns / 1e9


def main(role: str, kind: str, *words: str) -> None:
    """Do what is asked, on the visible device of a kind."""
    if role == "measure":
        devices.configure(tf32=False)
    with tf.device(devices.tf_device(kind)):
        answers = compile_programs() if role == "compile" else measure(kind, float(words[0]))
        for answer in answers:
            sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
