"""KerasCV and KerasHub: models built from the constructor arguments in the catalog.

Presets need a download even for the architecture, so they are used for pretrained weights only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from xla_sweeps.backends.keras.sources import LoadedModel, not_loaded
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.trial import ModelSpec

_INTERNAL = {"RetinaNetLabelEncoder": "keras_hub.src.models.retinanet.retinanet_label_encoder"}
"""Constructors that a library needs but does not export; tried on KerasHub 0.32.0."""

MAX_DETECTIONS = 100


def load(spec: ModelSpec) -> LoadedModel:
    """Build a model from its recipe, or load a preset."""
    library = import_module(spec.library)
    path = spec.weights if "/" in spec.weights or spec.weights.endswith(".h5") else ""
    preset = "" if path or spec.weights == "random" else spec.weights
    model = (
        _from_preset(library, spec, preset)
        if preset
        else construct(library, spec.recipe, spec.inputs[0].shape)
    )
    if path:
        model.load_weights(path)
    decode = _decoder(model) if spec.task == "detection" else None
    return LoadedModel.of_keras(model, spec.inputs, decode=decode)


def construct(library: Any, recipe: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    """Call a recipe's constructor; arguments that are recipes are constructed first.

    A recipe has `constructor`, `arguments`, and the names of the arguments that take the shape of
    an input without the batch (`shape`) or its height and width (`size`).

    Raises:
        ConfigError: the installed version has no such constructor.
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
    for module in (library.models, library.layers):
        if hasattr(module, name):
            return getattr(module, name)
    internal = _INTERNAL.get(name)
    if internal is None:
        version = getattr(library, "__version__", "the installed version")
        raise ConfigError(
            f"{library.__name__} {version} has no '{name}'; the catalog is for another version"
        )
    return getattr(import_module(internal), name)


def _from_preset(library: Any, spec: ModelSpec, preset: str) -> Any:
    name = spec.recipe.get("preset") if preset == "imagenet" else preset
    arguments = spec.recipe.get("arguments") or {}
    own = ("bounding_box_format",)  # which a preset does not contain
    extra = {key: arguments[key] for key in own if key in arguments}
    try:
        model = _constructor(library, spec.recipe["constructor"]).from_preset(name, **extra)
    except Exception as error:
        raise not_loaded(spec, f"the preset '{name}' of {spec.library}", error) from error
    sizes = getattr(model, "input_shape", None)
    if isinstance(sizes, tuple) and None not in sizes[1:] and sizes[1:] != spec.inputs[0].shape:
        raise ConfigError(
            f"weights={spec.weights}: the preset '{name}' takes {sizes[1]} x {sizes[2]} px only"
        )
    return model


def _decoder(model: Any) -> Callable[[Any, Any], Any] | None:
    """A function from a detector's outputs to its boxes after non-max suppression.

    The library's confidence threshold is set to 0. It would leave no box with random weights, and a
    number of boxes that depends on the image with trained ones. Without it, suppression always does
    its full work: `MAX_DETECTIONS` boxes.
    """
    decoder = getattr(model, "prediction_decoder", None)
    if decoder is None or not hasattr(model, "decode_predictions"):
        return None
    for attribute, value in (("confidence_threshold", 0.0), ("max_detections", MAX_DETECTIONS)):
        if hasattr(decoder, attribute):
            setattr(decoder, attribute, value)

    def decode(outputs: Any, images: Any) -> tuple[Any, ...]:
        boxes = model.decode_predictions(outputs, images)
        classes = boxes["classes"] if "classes" in boxes else boxes["labels"]
        return boxes["boxes"], boxes["confidence"], classes, boxes["num_detections"]

    return decode
