"""TensorFlow Hub: published SavedModels by their handles, or copies with random weights."""

from __future__ import annotations

from dataclasses import replace

import tensorflow_hub

from xla_sweeps.backends.tensorflow import random_weights
from xla_sweeps.backends.tensorflow.sources import LoadedModel, saved_model
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.trial import ModelSpec


def load(spec: ModelSpec) -> LoadedModel:
    """Load the model that `weights` names: a copy, the published model, or another SavedModel."""
    handle = spec.recipe["handle"]
    if spec.weights == "random":
        loaded = _load(str(random_weights.ensure(spec.name)), spec)
        return replace(loaded, replica_of=handle)
    return _load(handle if spec.weights == "imagenet" else spec.weights, spec)


def _load(handle: str, spec: ModelSpec) -> LoadedModel:
    try:
        saved = tensorflow_hub.load(handle)
    except Exception as error:
        raise XlaSweepsError(
            f"weights={spec.weights}: {handle} could not be loaded ({type(error).__name__}); check "
            "the network or TFHUB_CACHE_DIR, or use weights=random (speed does not depend on the "
            "values)"
        ) from error
    return saved_model.adapt(saved, where=handle, inputs=spec.inputs, resolution=spec.resolution_px)
