"""Memory of a mode's steady calls, by TensorFlow's allocator of the device."""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import tensorflow as tf

from xla_sweeps.backends.keras.explain.events import Event
from xla_sweeps.backends.tensorflow import profiler

_LIBRARY = "libtensorflow_framework.so.2"

_NOTE, _STOP = "_ZN3tsl23EnableCPUAllocatorStatsEv", "_ZN3tsl24DisableCPUAllocatorStatsEv"

_ALLOCATED, _FREED = "MemoryAllocation", "MemoryDeallocation"


def reset_peak(device: str) -> None:
    """Start the peak of `counted_bytes` again."""
    with contextlib.suppress(ValueError):
        tf.config.experimental.reset_memory_stats(device.removeprefix("/device:"))


def counted_bytes(device: str, which: Literal["current", "peak"]) -> int | None:
    """What the allocator of the device has handed out: now, or at most since the reset.

    None where it does not count: on a CPU without oneDNN.
    """
    try:
        info = tf.config.experimental.get_memory_info(device.removeprefix("/device:"))
    except ValueError:
        return None
    return int(info[which])


def traced_bytes(calls: Callable[[], None], *, at_most_s: float) -> int:
    """The most that some calls have from the CPU's allocator at once, from the profiler.

    What is kept from one call to the next does not count.

    Args:
        calls: makes at least two calls, and keeps no output of the last one.
        at_most_s: ends tracing, but not the calls.

    Raises:
        OSError, AttributeError: this TensorFlow cannot be told to note allocations.
    """
    with profiler.record_profile(at_most_s=at_most_s) as space, _noting_allocations():
        calls()
    return most_at_once(space.events())


def most_at_once(events: Iterable[Event]) -> int:
    """The most bytes that were in use at once, beyond the least of the second half.

    Memory from before the first event may be freed, but its size is unknown. By the second half,
    that has happened.
    """
    noted = [event for event in events if event.name in (_ALLOCATED, _FREED)]
    sizes: dict[int, int] = {}
    in_use = [0]
    for event in sorted(noted, key=lambda event: event.start_s):
        address = event.facts["addr"]
        change = -sizes.pop(address, 0)
        if event.name == _ALLOCATED:
            change += (size := int(event.facts["requested_bytes"]))
            sizes[address] = size
        in_use.append(in_use[-1] + change)
    return max(in_use) - min(in_use[len(in_use) // 2 :])


def bytes_of(tensors: Iterable[Any]) -> int:
    """The size of tensors and variables, of Keras's as well."""
    return sum(math.prod(each.shape) * tf.as_dtype(each.dtype).size for each in tensors)


@contextlib.contextmanager
def _noting_allocations() -> Iterator[None]:
    """Let the CPU's allocator tell the profiler what it hands out.

    Its own count stays 0: it needs an allocator that tells the size of what is freed. Uses private
    functions of TensorFlow's library, tried on 2.21.0.
    """
    library = ctypes.CDLL(str(Path(tf.sysconfig.get_lib(), _LIBRARY)))
    note, stop = getattr(library, _NOTE), getattr(library, _STOP)
    note()
    try:
        yield
    finally:
        stop()
