"""Models and functions to be explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf
from factories import TRIAL

from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.backends.tensorflow.explain.explainer import TensorFlowExplainer
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import Precision


def explaining(
    call: Callable[[Any], Any],
    batches: Sequence[Any],
    *,
    model: Any = None,
    batch: int | None = None,
    precision: Precision = Precision.FLOAT32,
) -> TensorFlowExplainer:
    """The explaining of a call on these batches; `batch` is the only size that it takes."""
    loaded = LoadedModel(
        forward=call, inputs=(), variables=(), keras_model=model, batch=batch, rebuildable=False
    )
    built = BuiltModel(loaded=loaded, call=call, precision=precision)
    size = tf.nest.flatten(batches[0])[0].shape[0]
    bench = Bench(
        trial=replace(TRIAL, batch_size=size, batches=1),
        device="/device:CPU:0",
        built=built,
        facts=ModelFacts.of(TRIAL.model),
        inputs=batches,
    )
    return TensorFlowExplainer(bench, lambda event: None)
