"""What every source gives: a model, how to call it, and on what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xla_sweeps.schema.trial import InputSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model in memory.

    Attributes:
        forward: one forward pass: takes a batch (a tensor, or a tuple of tensors where there are
            several inputs) and gives tensors, nested as the model nests them.
        inputs: of one sample.
        variables: all of them, moving statistics included.
        keras_model: the Keras model, where it is one.
        rebuildable: whether the same spec under another dtype policy gives the same model in
            another precision.
        decode: (outputs of `forward`, images) to what is left after non-max suppression, or None:
            boxes of shape (batch, n, 4), confidences (batch, n), classes (batch, n), and how many
            of the n count (batch).
        batch: the only batch size that it takes, or None.
        eager_is_graph: whether calling it eagerly runs a graph that was traced before.
        replica_of: the handle whose architecture this is a copy of, with random weights; or "".
    """

    forward: Callable[[Any], Any]
    inputs: tuple[InputSpec, ...]
    variables: Sequence[Any]
    keras_model: Any = None
    rebuildable: bool = True
    decode: Callable[[Any, Any], Any] | None = None
    batch: int | None = None
    eager_is_graph: bool = False
    replica_of: str = ""
