"""Models of one layer of Keras, by its name, as in `path=MODULE:LSTM`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import keras

from xla_sweeps.backends.keras.sources.recipes import construct
from xla_sweeps.config import catalog


def __getattr__(name: str) -> Callable[[], Any]:
    """The function that builds the model of a layer."""
    recipes = catalog.load_layers()
    if name not in recipes:
        raise AttributeError(name)
    return lambda: _build({"constructor": name, **recipes[name]})


def _build(recipe: Mapping[str, Any]) -> Any:
    layer = construct(keras, recipe, ())
    inputs = [keras.Input(shape, dtype=recipe.get("dtype")) for shape in recipe["inputs"]]
    is_separate = "query" in inspect.signature(layer.call).parameters
    nested = inputs if len(inputs) > 1 else inputs[0]
    return keras.Model(inputs, layer(*inputs) if is_separate else layer(nested))
