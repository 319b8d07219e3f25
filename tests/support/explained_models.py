"""Models and functions to be explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xla_sweeps.backends.keras.building import BuiltModel, forward_of
from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.tensorflow.explain.explaining import Explaining


def explaining(
    call: Callable[[Any], Any],
    batches: Sequence[Any],
    *,
    model: Any = None,
    batch: int | None = None,
) -> Explaining:
    """The explaining of a call on these batches; `batch` is the only size that it takes."""
    loaded = LoadedModel(forward=call, inputs=(), variables=(), keras_model=model, batch=batch)
    built = BuiltModel(loaded=loaded, call=call, params=0, trainable_params=0, step=forward_of)
    return Explaining(built, batches, lambda event: None, name="net")
