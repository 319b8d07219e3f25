"""Evidence of rounding: outputs in float64, and those of inputs that rounding changes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import keras
import numpy as np

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.executable import Engine, as_it_is
from xla_sweeps.backends.keras.sources import Wrap
from xla_sweeps.backends.keras.sources.inputs import is_floating, nudge_batch, widen
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.trial import ModelSpec, Precision
from xla_sweeps.worker import agreement
from xla_sweeps.worker.agreement import NUDGES, SMALLEST_OUTPUT, Move, Outputs, scale_of

Key = TypeVar("Key", int, str)
"""An input: its number, or the name of its shape."""


def moves_on(
    batches: Sequence[Any],
    eagerly: Callable[[Any], list[np.ndarray]],
    precision: Precision,
    *,
    seed: int,
) -> Sequence[Move]:
    """Moves of eager outputs by rounding of batches, the furthest a head; none if that fails."""
    rng = np.random.default_rng(seed)
    nudged = partial(nudge_batch, precision=precision, rng=rng)
    try:
        return agreement.worst_moves(
            agreement.moves_of(eagerly(batch), [eagerly(nudged(batch)) for _ in range(NUDGES)])
            for batch in batches
        )
    except Exception:  # a model that refuses other numbers, or memory is short
        traceback.print_exc()
        return ()


def errors_elsewhere(
    references: Mapping[Key, Outputs | None], eager_of: Callable[[Key], Outputs], input_: Key
) -> list[Sequence[Move]]:
    """Eager's own errors on the other inputs that have a float64 reference, as moves on this one.

    On one input they may be small by chance. None before this input's own reference is known,
    without which an error of a mode would be taken for rounding.
    """
    if not references.get(input_):
        return []
    errors, here = list[Sequence[Move]](), eager_of(input_)
    for other, exact in references.items():
        if exact is not None and other != input_:
            eager = [head[: len(exact[0])] for head in eager_of(other)]
            if [head.shape for head in eager] == [head.shape for head in exact]:
                errors.append(list(map(_error_on, here, eager, exact)))
    return errors


def _error_on(here: np.ndarray, eager: np.ndarray, exact: np.ndarray) -> Move:
    """Eager's error on another input, as large as it would be beside its output on this one."""
    with np.errstate(invalid="ignore"):  # infinity less infinity
        apart = np.nan_to_num(eager - exact, posinf=0.0, neginf=0.0)
    factor = scale_of(here) / max(scale_of(eager), SMALLEST_OUTPUT)
    return Move(factor * float(np.sqrt(np.mean(np.square(apart)))), factor * scale_of(apart))


def float64_outputs(
    engine: Engine,
    spec: ModelSpec,
    built: BuiltModel,
    batches: Sequence[Any],
    change: Callable[[BuiltModel], BuiltModel] = lambda twin: twin,
    whole: Wrap = as_it_is,
) -> list[list[np.ndarray]]:
    """Outputs of the same call and weights in float64 on the CPU, of each batch an array per head.

    `change` is made to the twin in float64 before it is called, in `whole`.

    Raises:
        XlaSweepsError: the model's dtypes are fixed.
    """
    with engine.in_float64():
        twin = change(building.float64_twin(spec, built))
        call = whole(twin.call)
        outputs = [
            engine.executables.heads_of(call(keras.tree.map_structure(widen, batch)))
            for batch in batches
        ]
    if any(is_floating(head) and head.dtype != np.float64 for heads in outputs for head in heads):
        raise XlaSweepsError("the model sets its own dtypes, so it cannot be built in float64")
    return [[head.astype(np.float64) for head in heads] for heads in outputs]
