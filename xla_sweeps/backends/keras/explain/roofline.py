"""Put a model under the roofline of its device: peaks and calls timed here.

Peaks are those of large matrix products, a large copy and a large sum. Each is the fastest of
several calls in the fastest of an engine's modes, as STREAM takes the best of its runs (McCalpin
1995, Memory bandwidth and machine balance in current high performance computers). A GPU gets arrays
far larger than its caches, and many calls before it is waited for.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import keras

from xla_sweeps.analysis.roofline import COPY, DTYPES, FLOP_PER_MAC, READ, matmul, roofline
from xla_sweeps.schema.explanation import Peak, Roofline, Work
from xla_sweeps.schema.measurement import Block
from xla_sweeps.schema.modes import Mode
from xla_sweeps.trial import pacing
from xla_sweeps.worker import timing

BLOCK_S = 0.1

MODE_S = 2.0
"""Seconds for which blocks of a mode are timed."""

SIDES = (512, 1024, 2048, 4096, 8192)
"""Sides of square matrices, up to one whose product takes `ENOUGH_S`."""

ENOUGH_S = 0.05

ARRAY_BYTES = 2**28
"""Size of an array that is copied or read: far larger than a CPU's caches."""

GPU_ARRAY_BYTES = (2**31, 2**30, ARRAY_BYTES)
"""The same on a GPU, where a copy of 256 MiB takes as long as waiting; the first that fits."""

GPU_CALLS = 16
"""The most calls between two synchronizations: their outputs may all be kept until then."""

REPETITIONS = 8

Bind = Callable[[Callable[[Any], Any], Any], Sequence[timing.Executable]]
"""Binds a call on an argument to the modes that may be the fastest for a single operation."""


def measure_roofline(
    work: Work, executables: Mapping[Mode, timing.Executable], peaks: Peaks
) -> Roofline:
    """The bound of a model, and the share of it that each mode, called before, achieves."""
    dtypes = [DTYPES[kind] for kind in work.macs_by_type if kind in DTYPES]
    calls_s = {str(mode): call_s(executable) for mode, executable in executables.items()}
    return roofline(work, (*map(peaks.matmul, dtypes), *peaks.memory()), calls_s)


def bytes_of(tensors: Any) -> int:
    """Bytes of all tensors of a structure."""
    flat = keras.tree.flatten(tensors)
    return sum(int(keras.ops.convert_to_numpy(tensor).nbytes) for tensor in flat)


def call_s(executable: timing.Executable) -> float:
    """Seconds of a call in the fastest block; the mode was called before."""
    clock = time.perf_counter_ns
    executable.prepare()
    first_s = timing.measure_block(executable, "", 1, clock=clock).call_s
    calls = pacing.calls_per_block(first_s, sync_s=0, block_s=BLOCK_S)
    blocks, until = list[Block](), time.monotonic() + MODE_S
    while not blocks or time.monotonic() < until:
        blocks.append(timing.settled_block(executable, "", calls, settle=False, clock=clock))
    return min(block.call_s for block in blocks)


class Peaks:
    """Measure the most that a device does; the threads of a CPU can be moved to one core."""

    def __init__(self, bind: Bind, *, on_cpu: bool, tf32: bool) -> None:
        self._bind, self._on_cpu, self._tf32 = bind, on_cpu, tf32

    def matmul(self, dtype: str) -> Peak:
        """The most FLOP/s of products of n x n matrices, which take 2 n^3 FLOP each."""
        attempts = []
        for side in SIDES:
            matrix = keras.ops.full((side, side), 1 / side, dtype=dtype)
            pair = (matrix, matrix)
            seconds, executable = self._fastest(lambda both: keras.ops.matmul(*both), pair)
            flop = FLOP_PER_MAC * side**3
            attempts.append((flop / seconds, flop, executable, f"{side} x {side}"))
            if seconds >= ENOUGH_S:
                break
        _, flop, executable, size = max(attempts, key=lambda attempt: attempt[0])
        if dtype == "float32" and not self._on_cpu:
            size += ", in TF32" if self._tf32 else ", not in TF32"
        return self._peak(matmul(dtype), "FLOP/s", flop, executable, size=size)

    def memory(self) -> tuple[Peak, Peak]:
        """The most bytes a second of negating an array, read and written, and of its sum.

        What a cache fetches before it is overwritten does not count, as in STREAM.
        """
        for size in () if self._on_cpu else GPU_ARRAY_BYTES[:-1]:
            with suppress(Exception):  # each engine has its own for "out of memory"
                return self._memory(size)
        return self._memory(ARRAY_BYTES)

    def _memory(self, array_bytes: int) -> tuple[Peak, Peak]:
        array = keras.ops.full((array_bytes // 4,), 1.0, dtype="float32")
        size = f"{array_bytes // 2**20} MiB"
        _, copying = self._fastest(keras.ops.negative, array)
        _, reading = self._fastest(keras.ops.sum, array)
        return (
            self._peak(COPY, "B/s", 2 * array_bytes, copying, size=size),
            self._peak(READ, "B/s", array_bytes, reading, size=size),
        )

    def _fastest(
        self, call: Callable[[Any], Any], argument: Any
    ) -> tuple[float, timing.Executable]:
        """The fastest of the engine's modes, and its seconds."""
        bound = {self._best_s(each): each for each in self._bind(call, argument)}
        return min(bound), bound[min(bound)]

    def _peak(
        self, name: str, unit: str, amount: int, executable: timing.Executable, *, size: str
    ) -> Peak:
        seconds, one_core_s = self._best_s(executable), None
        if self._on_cpu:
            with on_one_core():
                one_core_s = self._best_s(executable)
            seconds = min(seconds, one_core_s)  # more cores are no slower, unless others use them
        return Peak(
            name=name,
            unit=unit,
            per_s=amount / seconds,
            one_core_per_s=None if one_core_s is None else amount / one_core_s,
            size=size,
        )

    def _best_s(self, executable: timing.Executable) -> float:
        """The fewest seconds of a call, after one that may compile.

        Calls of a GPU follow each other without a wait: starting one and waiting for it take longer
        than what some of them do.
        """
        measure = partial(timing.measure_block, executable, "", clock=time.perf_counter_ns)
        executable.prepare()
        measure(1)
        calls = 1
        if not self._on_cpu:
            calls = min(GPU_CALLS, math.ceil(BLOCK_S / measure(1).call_s))
        return min(measure(calls).call_s for _ in range(REPETITIONS))


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
