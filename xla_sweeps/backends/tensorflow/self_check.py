"""Measure what shows whether figures of a device can be trusted; `measure.self_check` asks for it.

`measure KIND PEAK` sends a `Checked` a line, `first KIND MODE...` the seconds of first calls, and
`hold KIND SECONDS` keeps the device busy.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
import tensorflow as tf

from xla_sweeps.backends.tensorflow import devices, memory
from xla_sweeps.backends.tensorflow.modes import ModeExecutable
from xla_sweeps.doctor.check_result import Checked, impossible, judged, judged_ratio
from xla_sweeps.schema.measurement import INPUTS
from xla_sweeps.schema.modes import Mode, mode_of
from xla_sweeps.schema.trial import Precision
from xla_sweeps.worker import agreement, timing


class Sizes(NamedTuple):
    """Sizes of the programs.

    Attributes:
        side: of the square matrices that are multiplied.
        compared: of those whose product is compared with float64.
        layer: of the dense layers of the small model.
        planted_bytes: of the tensor that must show in the memory figure.
    """

    side: int
    compared: int
    layer: int
    planted_bytes: int


SIZES = {
    "gpu": Sizes(side=4096, compared=1024, layer=2048, planted_bytes=2**30),
    "cpu": Sizes(side=512, compared=256, layer=256, planted_bytes=2**26),
}

CALLS = (2, 4, 8, 16)
REPEATS = 7

LARGEST_OFFSET = 0.5
"""Calls that no call may cost: what a line through times of more and more calls shows at 0."""

FLOAT32_ERROR = 2e-5
"""Error of a product of matrices, relative to its largest element; TF32 shows about 5e-4."""

PAIRS = 20
BLOCK_S = 0.05

PLANT = 1e-3
"""Relative error of the outputs that the check of outputs must catch."""

COMPILED = (Mode.GRAPH, Mode.XLA)


def measure(kind: str, peak: float) -> Iterator[Checked]:
    """Measure everything that one process can.

    Args:
        kind: `cpu` or `gpu`.
        peak: the most float32 operations a second that the device can do.
    """
    sizes = SIZES[kind]
    yield from _speed(sizes, peak)
    yield from _precision(sizes)
    yield _harness(sizes)
    yield _memory(sizes, devices.tf_device(kind))
    yield from _planted(sizes, gpu=kind == "gpu")


def first_calls(kind: str, labels: list[str]) -> dict[str, float]:
    """Seconds to trace and first call a small model in each mode, in this order."""
    call, inputs = _small_model(SIZES[kind].layer)
    call(inputs[0])  # a replicate also begins with eager calls
    seconds = {}
    for label in labels:
        executable = ModeExecutable.bind(call, mode_of(label), inputs)
        seconds[label] = (executable.trace_s or 0.0) + executable.first_call_s()
    return seconds


def hold(kind: str, seconds: float) -> None:
    """Keep the device busy."""
    until, matrix = time.monotonic() + seconds, tf.ones((SIZES[kind].side,) * 2)
    while time.monotonic() < until:
        float(tf.reduce_sum(tf.linalg.matmul(matrix, matrix)))


def _speed(sizes: Sizes, peak: float) -> Iterator[Checked]:
    """Time products of matrices: the speed, and whether time is proportional to their number.

    Of repeats the shortest counts: other load only adds time.
    """
    matrix = tf.fill((sizes.side, sizes.side), 1 / sizes.side)
    product = ModeExecutable.bind(lambda x: tf.linalg.matmul(x, x), Mode.GRAPH, [matrix] * INPUTS)
    product.first_call_s()
    repeats = [[_block_s(product, calls) for calls in CALLS] for _ in range(REPEATS)]
    seconds = dict(zip(CALLS, map(min, zip(*repeats, strict=True)), strict=True))
    pairs = [(one, other) for one in CALLS for other in CALLS if one < other]
    call_s = statistics.median(
        (seconds[other] - seconds[one]) / (other - one) for one, other in pairs
    )
    flops = 2 * sizes.side**3 / call_s if call_s > 0 else math.inf
    name = f"float32 matmul of {sizes.side}^3"
    figure = f"{flops / 1e12:.3g} TFLOP/s"
    if math.isinf(peak):
        yield impossible(f"{name}: speed", figure, "at most the peak, which is unknown")
    else:
        limit = f"at most {peak / 1e12:.3g} TFLOP/s"
        yield judged(f"{name}: speed", figure, limit, ok=flops <= peak)
    offset = statistics.median(seconds[calls] / call_s - calls for calls in CALLS)
    name, expected = f"{name}: time at 0 calls", f"0 ± {LARGEST_OFFSET:g} calls"
    yield judged(name, f"{offset:.2f} calls", expected, ok=abs(offset) <= LARGEST_OFFSET)


def _precision(sizes: Sizes) -> Iterator[Checked]:
    """Compare products of matrices with float64."""
    left, right = np.random.default_rng(0).standard_normal((2, sizes.compared, sizes.compared))
    left, right = left.astype(np.float32), right.astype(np.float32)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    second = tf.constant(right)
    for mode in COMPILED:
        product = ModeExecutable.bind(
            lambda x: tf.linalg.matmul(x, second), mode, [tf.constant(left)]
        )
        error = float(np.abs(product.outputs()[0] - exact).max() / np.abs(exact).max())
        yield judged(
            f"error of a matmul in {mode}",
            f"{error:.0e} of the largest",
            f"under {FLOAT32_ERROR:.0e} (TF32: 5e-04)",
            ok=error < FLOAT32_ERROR,
        )


def _harness(sizes: Sizes) -> Checked:
    """Compare blocks as trials time them with a loop as people write it, in turns."""
    call, inputs = _small_model(sizes.layer)
    executable = ModeExecutable.bind(call, Mode.GRAPH, inputs)
    executable.first_call_s()
    function = executable.function
    _block_s(executable, timing.NEW_INPUTS)
    calls = max(3, math.ceil(BLOCK_S / (_block_s(executable, 3) / 3)))
    calls = math.ceil(calls / len(inputs)) * len(inputs)

    def bare_s() -> float:
        function(inputs[0]).numpy()
        started = time.perf_counter()
        for number in range(calls):
            last = function(inputs[number % len(inputs)])
        last.numpy()
        return time.perf_counter() - started

    ratios = []
    for number in range(PAIRS):
        if number % 2:
            bare, block = bare_s(), _block_s(executable, calls)
        else:
            block, bare = _block_s(executable, calls), bare_s()
        ratios.append(math.log(block / bare))
    return judged_ratio("a trial's block / a bare loop", ratios)


def _memory(sizes: Sizes, device: str) -> Checked:
    """Compare what the memory figure rises by with the size of a tensor."""
    count, mib = sizes.planted_bytes // 4, sizes.planted_bytes >> 20

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
    ok = abs(rise - sizes.planted_bytes) <= 0.01 * sizes.planted_bytes
    return judged(
        f"memory of a tensor of {mib} MiB", f"{rise / 2**20:.1f} MiB", f"{mib} ± 1 %", ok=ok
    )


def _planted(sizes: Sizes, *, gpu: bool) -> Iterator[Checked]:
    """Show a wrong model, and a right one, to the check of outputs."""
    call, inputs = _small_model(sizes.layer)
    eager = ModeExecutable.bind(call, Mode.EAGER, inputs).outputs()

    def wrong(batch: Any) -> Any:
        output = call(batch)
        return output + PLANT * tf.reduce_max(tf.abs(output))

    for mode in COMPILED:
        told = []
        for planted in (wrong, call):
            outputs = ModeExecutable.bind(planted, mode, inputs).outputs()
            told.append(
                agreement.compare(
                    outputs, eager, precision=Precision.FLOAT32, classes=False, gpu=gpu
                )
            )
        caught, passed = not told[0].ok, told[1].ok
        yield judged(
            f"an output error of {PLANT:g} in {mode}",
            f"{'caught' if caught else 'missed'}; without it {told[1].rmse_rel:.0e}, "
            f"{'passed' if passed else 'refused'}",
            "caught; passed",
            ok=caught and passed,
        )


def _small_model(width: int) -> tuple[Callable[[Any], Any], list[Any]]:
    """A model of dense layers, and as many inputs as a trial has."""
    rng = np.random.default_rng(1)

    def drawn(columns: int) -> Any:
        return tf.constant(rng.standard_normal((width, columns)) / math.sqrt(width), tf.float32)

    layers, last = [drawn(width) for _ in range(4)], drawn(10)

    def call(batch: Any) -> Any:
        for layer in layers:
            batch = tf.nn.relu(tf.linalg.matmul(batch, layer))
        return tf.linalg.matmul(batch, last)

    return call, [drawn(width) for _ in range(INPUTS)]


def _block_s(executable: ModeExecutable, calls: int) -> float:
    block = timing.settled_block(executable, "", calls, settle=True, clock=time.perf_counter_ns)
    return block.elapsed_ns / 1e9


def main(role: str, kind: str, *words: str) -> None:
    """Do what is asked, on the visible device of a kind."""
    devices.configure(tf32=False, seed=0)
    with tf.device(devices.tf_device(kind)):
        if role == "hold":
            hold(kind, float(words[0]))
        elif role == "first":
            _send(first_calls(kind, list(words)))
        else:
            for checked in measure(kind, float(words[0])):
                _send(checked)


def _send(answer: Checked | dict[str, float]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
