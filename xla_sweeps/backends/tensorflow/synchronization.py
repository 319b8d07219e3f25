"""Prove, before anything is timed, that a synchronization waits for the device in every mode."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.keras.bench import CHAIN_S, sync_record
from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.modes import Mode
from xla_sweeps.trial import pacing
from xla_sweeps.worker import timing


def self_test(wanted: Iterable[Mode], *, side: int) -> dict[str, Any]:
    """Test the synchronization with products of matrices, which keep the device busy, not the host.

    Args:
        wanted: modes to test; graph mode stands for those that need a Keras model or NumPy.
        side: of the square matrices.

    Returns:
        `by_reading`: whether all modes must wait by reading a scalar; `modes`: figures of each.

    Raises:
        XlaSweepsError: not even reading a result waits.
    """
    matrix = tf.fill((side, side), tf.constant(1 / side))  # its square is itself
    executables = {}
    for mode in dict.fromkeys(mode if mode.entry.queues else Mode.GRAPH for mode in wanted):
        executables[str(mode)] = modes.ModeExecutable.bind(_squared, mode, [matrix])
        executables[str(mode)].first_call_s()
    return prove(executables, clock=time.perf_counter_ns)


def prove(
    executables: Mapping[str, modes.ModeExecutable], *, clock: pacing.Clock
) -> dict[str, Any]:
    """Test executables that keep the device busy; returns what `self_test` returns."""
    for by_reading in (False, True):
        tests = {}
        for label, executable in executables.items():
            executable.sync_by_reading = by_reading
            tests[label] = timing.sync_self_test(executable, seconds=CHAIN_S, clock=clock)
        if all(test.works for test in tests.values()):
            note = "sync_devices() does not wait; a scalar is read instead" if by_reading else ""
            return {**sync_record(tests), "by_reading": by_reading, "note": note}
    raise XlaSweepsError(
        "neither sync_devices() nor reading a result waits for this device, so it cannot be timed"
    )


def _squared(matrix: Any) -> Any:
    return tf.linalg.matmul(matrix, matrix)
