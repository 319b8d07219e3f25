"""Sources of models, one module each; a source imports its library when it loads a model."""

from __future__ import annotations

from importlib import import_module

from xla_sweeps.backends.tensorflow.sources.loaded import LoadedModel
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.measure.failures import error_line
from xla_sweeps.schema.trial import ModelSpec

_LOADERS = {
    "keras": "applications",
    "tf_keras": "applications",
    "keras_cv": "recipes",
    "keras_hub": "recipes",
    "tensorflow_hub": "hub",
    "examples": "examples",
    "local": "local",
}
"""The module that loads each library's models."""


def load(spec: ModelSpec) -> LoadedModel:
    """Load a model from its source, with the weights of its spec.

    Raises:
        XlaSweepsError: it cannot be loaded; the message is one line.
    """
    try:
        loader = import_module(f"{__name__}.{_LOADERS[spec.library]}")
    except Exception as error:  # a library may raise anything with an unknown Keras or TensorFlow
        raise XlaSweepsError(
            f"source={spec.source}: {spec.library} cannot be imported: {error_line(error)}"
        ) from error
    loaded = loader.load(spec)
    assert isinstance(loaded, LoadedModel)
    return loaded
