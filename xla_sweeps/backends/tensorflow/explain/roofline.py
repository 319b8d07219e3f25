"""Put a model under the roofline of its device: work from the HLO, peaks and calls timed here.

Peaks are those of large matrix products, a large copy and a large sum. Each is the fastest of
several calls, in graph mode or under XLA, as STREAM takes the best of its runs (McCalpin 1995,
Memory bandwidth and machine balance in current high performance computers).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import tensorflow as tf

from xla_sweeps.analysis.roofline import COPY, DTYPES, FLOP_PER_MAC, READ, matmul, roofline
from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.backends.tensorflow.hlo import Module, size_bytes
from xla_sweeps.backends.tensorflow.macs import count_macs
from xla_sweeps.measure import timing
from xla_sweeps.schema.explanation import Peak, Roofline, Work
from xla_sweeps.schema.measurement import Block
from xla_sweeps.schema.modes import Mode

BLOCK_S = 0.1

MODE_S = 2.0
"""Seconds for which blocks of a mode are timed."""

SIDES = (512, 1024, 2048, 4096, 8192)
"""Sides of square matrices, up to one whose product takes `ENOUGH_S`."""

ENOUGH_S = 0.05

ARRAY_BYTES = 2**28
"""Size of an array that is copied or read: far larger than caches."""

REPETITIONS = 8

_MODES = (Mode.GRAPH, Mode.XLA)


def measured(
    module: Module,
    executables: Mapping[str, modes.ModeExecutable],
    *,
    inputs: Any,
    device: str,
) -> Roofline:
    """The bound of a model, and the share of it that each mode achieves.

    Args:
        module: of one call, unoptimized.
        executables: by mode; each has been called.
        inputs: one batch.
        device: as TensorFlow names it.
    """
    work = work_of(module, inputs)
    dtypes = [DTYPES[kind] for kind in work.macs_by_type if kind in DTYPES]
    calls_s = {mode: call_s(executable) for mode, executable in executables.items()}
    products = [matmul_peak(dtype, device=device) for dtype in dtypes]
    return roofline(work, (*products, *memory_peaks(device=device)), calls_s)


def work_of(module: Module, inputs: Any) -> Work:
    """The least work of one call.

    Every parameter of the module that its result depends on is read once, and every result written
    once. Constants in the program do not count.
    """
    read = sum(
        size_bytes(instruction.shape)
        for instruction in module.live(module.entry)
        if instruction.opcode == "parameter"
    )
    given = sum(tensor.dtype.size * math.prod(tensor.shape) for tensor in tf.nest.flatten(inputs))
    count = count_macs(module)
    return Work(
        macs_by_type=dict(count.by_type),
        macs_at_least=count.at_least,
        weight_bytes=max(0, read - given),
        input_bytes=given,
        output_bytes=size_bytes(module.root(module.entry).shape),
    )


def call_s(executable: modes.ModeExecutable) -> float:
    """Seconds of a call in the fastest block; the mode was called before."""
    clock = time.perf_counter_ns
    executable.prepare()
    first_s = timing.measure_block(executable, "", 1, clock=clock).call_s
    calls = timing.calls_per_block(first_s, sync_s=0, block_s=BLOCK_S)
    blocks, until = list[Block](), time.monotonic() + MODE_S
    while not blocks or time.monotonic() < until:
        blocks.append(timing.settled_block(executable, "", calls, settle=False, clock=clock))
    return min(block.call_s for block in blocks)


def matmul_peak(dtype: str, *, device: str) -> Peak:
    """The most FLOP/s of products of n x n matrices, which take 2 n^3 FLOP each."""
    attempts = []
    for side in SIDES:
        matrix = tf.cast(tf.fill((side, side), 1 / side), dtype)
        seconds, executable = _fastest(lambda pair: tf.linalg.matmul(*pair), (matrix, matrix))
        flop = FLOP_PER_MAC * side**3
        attempts.append((flop / seconds, flop, executable, f"{side} x {side}"))
        if seconds >= ENOUGH_S:
            break
    _, flop, executable, size = max(attempts, key=lambda attempt: attempt[0])
    return _peak(matmul(dtype), "FLOP/s", flop, executable, size=size, device=device)


def memory_peaks(*, device: str) -> tuple[Peak, Peak]:
    """The most bytes a second of negating an array, which are read and written, and of its sum.

    What a cache fetches before it is overwritten does not count, as in STREAM.
    """
    array = tf.fill((ARRAY_BYTES // 4,), 1.0)
    size = f"{ARRAY_BYTES // 2**20} MiB"
    _, copying = _fastest(tf.negative, array)
    _, reading = _fastest(tf.reduce_sum, array)
    return (
        _peak(COPY, "B/s", 2 * ARRAY_BYTES, copying, size=size, device=device),
        _peak(READ, "B/s", ARRAY_BYTES, reading, size=size, device=device),
    )


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep all threads of this process on one core."""
    allowed = os.sched_getaffinity(0)
    try:
        _move({min(allowed)})
        yield
    finally:
        _move(allowed)


def _move(cores: set[int]) -> None:
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            os.sched_setaffinity(int(task.name), cores)


def _fastest(call: Callable[[Any], Any], argument: Any) -> tuple[float, modes.ModeExecutable]:
    """The faster of graph mode and XLA, and its seconds."""
    executables = [modes.ModeExecutable.bind(call, mode, [argument]) for mode in _MODES]
    timed = [(_best_s(executable), executable) for executable in executables]
    return min(timed, key=lambda pair: pair[0])


def _peak(
    name: str,
    unit: str,
    amount: int,
    executable: modes.ModeExecutable,
    *,
    size: str,
    device: str,
) -> Peak:
    seconds, one_core_s = _best_s(executable), None
    if "CPU" in device:
        with on_one_core():
            one_core_s = _best_s(executable)
        seconds = min(seconds, one_core_s)  # more cores are no slower, but where others use them
    return Peak(
        name=name,
        unit=unit,
        per_s=amount / seconds,
        one_core_per_s=None if one_core_s is None else amount / one_core_s,
        size=size,
    )


def _best_s(executable: modes.ModeExecutable) -> float:
    """The fewest seconds of a call, after one that may compile."""
    executable.prepare()
    executable.step()
    executable.synchronize()
    return min(
        timing.measure_block(executable, "", 1, clock=time.perf_counter_ns).call_s
        for _ in range(REPETITIONS)
    )
