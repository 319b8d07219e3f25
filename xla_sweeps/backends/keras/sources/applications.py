"""Models of Keras Applications, from Keras 3 or, for families that it dropped, from tf_keras."""

from __future__ import annotations

from typing import Any

import keras

from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.trial import ModelSpec


def load(spec: ModelSpec) -> LoadedModel:
    """Build a classifier that outputs logits, because a softmax would hide differences."""
    library = library_named(spec.library)
    name = spec.recipe["constructor"]
    constructor = getattr(library.applications, name, None)
    if not callable(constructor):
        raise ConfigError(f"{spec.library}.applications has no '{name}' in the installed version")
    arguments: dict[str, Any] = {
        "weights": "imagenet" if spec.weights == "imagenet" else None,
        "input_shape": spec.inputs[0].shape,
        "classifier_activation": None,
        **(spec.recipe.get("arguments") or {}),
    }
    try:
        model = constructor(**arguments)
    except Exception as error:
        if spec.weights == "imagenet" and ("URL fetch" in str(error) or isinstance(error, OSError)):
            raise XlaSweepsError(
                f"weights=imagenet: {spec.name}'s weights could not be downloaded; check the "
                "network, or use weights=random (it runs the same operations)"
            ) from error
        raise
    if spec.weights not in ("random", "imagenet"):
        model.load_weights(spec.weights)
    return LoadedModel.of_keras(model, spec.inputs)


def library_of(spec: ModelSpec) -> Any:
    """The Keras that builds the model."""
    return library_named(spec.recipe.get("library", spec.library))


def library_named(name: str) -> Any:
    """Keras 3, or tf_keras if that is the name."""
    if name == "tf_keras":
        import tf_keras  # slow to import, needed only for families that Keras 3 dropped

        return tf_keras
    return keras
