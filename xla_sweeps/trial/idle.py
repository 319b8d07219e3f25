"""Processor time of the workers that wait: what they compute contaminates the round."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from xla_sweeps.schema.measurement import Round

IDLE_CORES = 0.1
"""A round is contaminated if idle workers use more than this many cores during a block."""

SETTLE_S = 0.5
"""Longest wait for a worker's thread pools, which spin for a while after their last work."""

LOOK_S = 0.005

_CPUCLOCK_SCHED = 2


def cpu_ns(pids: Sequence[int]) -> int:
    """CPU time of all threads of these processes so far, ns; 0 for one that has ended.

    References:
        clock_getcpuclockid(3): the clock of a process is its inverted id, shifted by three bits.
    """
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    return total


def settle(pids: Sequence[int]) -> None:
    """Return once these compute no more, or after `SETTLE_S`: OpenMP's threads spin for 200 ms."""
    deadline, used_ns = time.monotonic() + SETTLE_S, cpu_ns(pids)
    while pids and time.monotonic() < deadline:
        time.sleep(LOOK_S)
        before_ns, used_ns = used_ns, cpu_ns(pids)
        if used_ns - before_ns < IDLE_CORES * LOOK_S * 1e9:
            return


def cause_of(measured: Round) -> str:
    """Contamination of a round by idle workers, in words, or ""."""
    for block in measured.blocks:
        cores = (block.idle_cpu_ns or 0) / block.elapsed_ns
        if cores > IDLE_CORES:
            return f"the trial's idle processes used {cores:.1f} cores"
    return ""
