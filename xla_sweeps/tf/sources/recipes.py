"""KerasCV and KerasHub: models built from explicit constructor arguments, which are the catalog's data.

Their presets need a download even for the architecture, so presets are used for pretrained weights
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import keras

from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.trial import ModelSpec
from xla_sweeps.tf.sources.loaded import LoadedModel

_INTERNAL = {
    (
        "keras_hub",
        "RetinaNetLabelEncoder",
    ): "keras_hub.src.models.retinanet.retinanet_label_encoder",
}
"""Constructors that a library needs but does not export."""

_PRESET_ARGUMENTS = ("bounding_box_format",)
"""Arguments of a recipe that a preset does not hold."""

MAX_DETECTIONS = 100


def load(spec: ModelSpec) -> LoadedModel:
    """Build a model from its recipe, or load a preset."""
    library = _library(spec)
    path = spec.weights if "/" in spec.weights or spec.weights.endswith(".h5") else ""
    preset = "" if path or spec.weights == "random" else spec.weights
    model = (
        _from_preset(library, spec, preset)
        if preset
        else construct(library, spec.recipe, spec.inputs[0].shape)
    )
    if path:
        model.load_weights(path)
    return LoadedModel(
        forward=lambda images: model(images, training=False),
        inputs=spec.inputs,
        variables=model.variables,
        keras_model=model,
        decode=_decoder(model) if spec.task == "detection" else None,
    )


def _library(spec: ModelSpec) -> Any:
    """Import a source's library; one that the installed Keras breaks costs this source alone."""
    try:
        return import_module(spec.library)
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise XlaSweepsError(
            f"source={spec.source}: {spec.library} cannot be imported beside Keras {keras.__version__}: "
            f"{type(error).__name__}: {first}; other sources are not touched by it"
        ) from error


def construct(library: Any, recipe: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    """Call a recipe's constructor; arguments that are recipes themselves are constructed first.

    Args:
        library: the module whose `models` and `layers` are meant.
        recipe: `constructor`, `arguments`, and the names of the arguments that take the input's
            shape (`shape`) or its height and width (`size`).
        shape: of one input, without the batch.

    Raises:
        ConfigError: no such constructor in the installed version.
    """
    arguments = {
        name: construct(library, value, shape)
        if isinstance(value, Mapping) and "constructor" in value
        else value
        for name, value in (recipe.get("arguments") or {}).items()
    }
    if recipe.get("shape"):
        arguments[recipe["shape"]] = shape
    if recipe.get("size"):
        arguments[recipe["size"]] = shape[-3:-1]
    return _constructor(library, recipe["constructor"])(**arguments)


def _constructor(library: Any, name: str) -> Any:
    for room in (library.models, library.layers):
        if hasattr(room, name):
            return getattr(room, name)
    internal = _INTERNAL.get((library.__name__, name))
    if internal is None:
        version = getattr(library, "__version__", "the installed version")
        raise ConfigError(
            f"{library.__name__} {version} has no '{name}'; the catalog was made for another version"
        )
    return getattr(import_module(internal), name)


def _from_preset(library: Any, spec: ModelSpec, preset: str) -> Any:
    name = spec.recipe.get("preset") if preset == "imagenet" else preset
    arguments = spec.recipe.get("arguments") or {}
    extra = {key: arguments[key] for key in _PRESET_ARGUMENTS if key in arguments}
    try:
        model = _constructor(library, spec.recipe["constructor"]).from_preset(name, **extra)
    except Exception as error:
        raise XlaSweepsError(
            f"weights={spec.weights}: the preset '{name}' of {spec.library} could not be loaded "
            f"({type(error).__name__}); check its name and the network, or use weights=random (speed does not depend "
            "on the values)"
        ) from error
    sizes = getattr(model, "input_shape", None)
    if (
        isinstance(sizes, tuple)
        and None not in sizes[1:]
        and tuple(sizes[1:]) != spec.inputs[0].shape
    ):
        raise XlaSweepsError(
            f"weights={spec.weights}: the preset '{name}' takes {sizes[1]} x {sizes[2]} px only"
        )
    return model


def _decoder(model: Any) -> Callable[[Any, Any], Any] | None:
    """Boxes of a detector's outputs after non-max suppression, with every candidate kept until then.

    The library's threshold would leave a model with random weights without a single box, and a
    trained one with a number that depends on the image; without it the suppression does its full
    work, `MAX_DETECTIONS` boxes, always.
    """
    decoder = getattr(model, "prediction_decoder", None)
    if decoder is None or not hasattr(model, "decode_predictions"):
        return None
    for attribute, value in (("confidence_threshold", 0.0), ("max_detections", MAX_DETECTIONS)):
        if hasattr(decoder, attribute):
            setattr(decoder, attribute, value)

    def decode(outputs: Any, images: Any) -> tuple[Any, ...]:
        found = model.decode_predictions(outputs, images)
        classes = found["classes"] if "classes" in found else found["labels"]
        return found["boxes"], found["confidence"], classes, found["num_detections"]

    return decode
