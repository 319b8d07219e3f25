"""Show a wrong model, and a right one, to the check of outputs; `doctor` asks for it.

As a program it sends a `Checked` a line.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import msgspec
import numpy as np

from xla_sweeps.backends.keras.executable import Executable
from xla_sweeps.doctor.check_result import Checked, check_of
from xla_sweeps.schema.measurement import INPUTS
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.trial import Precision
from xla_sweeps.worker import agreement

PLANT = 1e-3
"""Relative error of the outputs that must be caught."""

WIDTHS = {"gpu": 2048, "cpu": 256}
"""Width of the small model."""


def plant_errors(
    kind: type[Executable], eager: Mode, modes: Sequence[Mode], width: int, *, gpu: bool
) -> Iterator[Checked]:
    """Check a planted error in each mode, and that the model without it agrees."""
    call, inputs = _small_model(width)
    expected = kind.bind(call, eager, inputs).outputs()

    def wrong(batch: Any) -> Any:
        output = call(batch)
        return output + PLANT * keras.ops.max(keras.ops.abs(output))

    def compare(model: Callable[[Any], Any], mode: Mode) -> Any:
        bound = kind.bind(model, mode, inputs)
        bound.first_call_s()
        return agreement.compare(
            bound.outputs(), expected, precision=Precision.FLOAT32, classes=False, gpu=gpu
        )

    for mode in modes:
        planted, plain = compare(wrong, mode), compare(call, mode)
        yield check_of(
            f"an output error of {PLANT:g} in {mode}",
            f"{'missed' if planted.ok else 'caught'}; without it {plain.rmse_rel:.0e}, "
            f"{'passed' if plain.ok else 'refused'}",
            "caught; passed",
            ok=plain.ok and not planted.ok,
        )


def _small_model(width: int) -> tuple[Callable[[Any], Any], list[Any]]:
    """A model of dense layers, and as many inputs as a trial has."""
    rng = np.random.default_rng(1)

    def draw_matrix(columns: int) -> Any:
        drawn = rng.standard_normal((width, columns)) / math.sqrt(width)
        return keras.ops.convert_to_tensor(drawn.astype("float32"))

    layers, last = [draw_matrix(width) for _ in range(4)], draw_matrix(10)

    def call(batch: Any) -> Any:
        for layer in layers:
            batch = keras.ops.relu(keras.ops.matmul(batch, layer))
        return keras.ops.matmul(batch, last)

    return call, [draw_matrix(width) for _ in range(INPUTS)]


def main(executable: type[Executable], eager: Mode, *modes: Mode) -> None:
    """Check each mode on the device of the kind that the command names."""
    kind = sys.argv[1]
    with keras.device(f"{kind}:0"):
        for checked in plant_errors(executable, eager, modes, WIDTHS[kind], gpu=kind == "gpu"):
            sys.stdout.buffer.write(msgspec.json.encode(checked) + b"\n")
            sys.stdout.buffer.flush()
