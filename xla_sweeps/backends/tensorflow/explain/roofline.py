"""Put a model under the roofline of its device: work from the HLO, peaks and calls timed here."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from xla_sweeps.analysis.roofline import DTYPES, roofline
from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.backends.tensorflow.explain.peaks import peaks
from xla_sweeps.backends.tensorflow.hlo import Module
from xla_sweeps.backends.tensorflow.macs import count_macs
from xla_sweeps.measure import timing
from xla_sweeps.measure.failures import error_line
from xla_sweeps.schema.roofline import Roofline, Work

BLOCK_S = 0.1

MODE_S = 2.0
"""Seconds for which blocks of a mode are timed."""


def measured(
    hlo: str,
    executables: Mapping[str, modes.ModeExecutable],
    *,
    inputs: Any,
    device: str,
) -> Roofline:
    """The bound of a model, and the share of it that each mode achieves.

    Args:
        hlo: of one call, unoptimized.
        executables: by mode; each has been called.
        inputs: one batch.
        device: as TensorFlow names it.
    """
    work, missing = work_of(hlo, inputs)
    dtypes = [DTYPES[kind] for kind in work.macs_by_type or () if kind in DTYPES]
    calls_s = {mode: call_s(executable) for mode, executable in executables.items()}
    return roofline(work, peaks(dtypes, device=device), calls_s, missing=missing)


def work_of(hlo: str, inputs: Any) -> tuple[Work, dict[str, str]]:
    """The least work of one call, and why a part of it is not known.

    Every parameter of the module that its result depends on is read once, and every result written
    once. Constants in the program do not count.
    """
    entry = Module(hlo).computations[Module(hlo).entry]
    read = sum(
        instruction.size_bytes
        for instruction in entry.live()
        if instruction.operation == "parameter"
    )
    given = sum(tensor.dtype.size * math.prod(tensor.shape) for tensor in tf.nest.flatten(inputs))
    root = entry.root
    names = entry.operands(root) if root is not None and root.is_tuple else []
    results = [entry.instructions[name] for name in names] or ([root] if root else [])
    missing, macs, at_least = {}, None, False
    try:
        count = count_macs(hlo)
        macs, at_least = dict(count.by_type), count.at_least
    except ValueError as error:
        missing["macs"] = error_line(error)
    return Work(
        macs_by_type=macs,
        macs_at_least=at_least,
        weight_bytes=max(0, read - given),
        input_bytes=given,
        output_bytes=sum(instruction.size_bytes for instruction in results),
    ), missing


def call_s(executable: modes.ModeExecutable) -> float:
    """Seconds of a call in the fastest block; the mode was called before."""
    clock = time.perf_counter_ns
    executable.prepare()
    first_s = timing.measure_block(executable, "", 1, clock=clock).call_s
    calls = timing.calls_per_block(first_s, sync_s=0, block_s=BLOCK_S)
    return min(timing.measure_alone(executable, calls=calls, seconds=MODE_S, clock=clock))
