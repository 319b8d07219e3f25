"""A loaded model, as every source returns it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xla_sweeps.schema.trial import InputSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model in memory.

    Attributes:
        forward: one forward pass: takes a batch (a tensor, or a tuple of tensors for several
            inputs) and returns tensors, nested as the model nests them. A Keras model's also takes
            `training`.
        inputs: the inputs of one sample.
        variables: all variables, including moving statistics.
        keras_model: the Keras model, or None if it is not one.
        rebuildable: whether the same spec under another dtype policy gives the same model in
            another precision.
        decode: (outputs of `forward`, images) to boxes after non-max suppression, or None: boxes
            (batch, n, 4), confidences (batch, n), classes (batch, n), number of valid boxes
            (batch).
        batch: the only batch size that the model takes, or None.
        eager_is_graph: whether an eager call runs a saved graph.
        replica_of: the Hub handle of which this is a copy with random weights, or "".
    """

    forward: Callable[..., Any]
    inputs: tuple[InputSpec, ...]
    variables: Sequence[Any]
    keras_model: Any = None
    rebuildable: bool = True
    decode: Callable[[Any, Any], Any] | None = None
    batch: int | None = None
    eager_is_graph: bool = False
    replica_of: str = ""

    @classmethod
    def of_keras(cls, model: Any, inputs: tuple[InputSpec, ...], **more: Any) -> LoadedModel:
        """A Keras model that takes batches as they are, with further fields."""
        return cls(
            forward=lambda batch, training=False: model(batch, training=training),
            inputs=inputs,
            variables=model.variables,
            keras_model=model,
            **more,
        )
