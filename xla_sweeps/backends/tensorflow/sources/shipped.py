"""Load a model that `api.shipping` saved, and refuse it if it computes something else."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import pickle
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from xla_sweeps.backends.keras import weights
from xla_sweeps.backends.keras.sources.local import load_file
from xla_sweeps.config.own_inputs import as_numpy, call_by_name, compute_seeded, flat, needs_inputs
from xla_sweeps.errors import XlaSweepsError

TOLERANCE = 1e-3
"""Largest difference of an output, relative to the largest value of it."""

TOLERANCE_HALF = 3e-2

_OF_LAMBDA = ("function", "output_shape", "mask")
"""Arguments of Keras's Lambda that may be functions."""

_BUILDER = "give a function that builds it: measure(lambda: MyModel(...), inputs)"


def load(folder: Path) -> Any:
    """The model in a folder; a function's is built, which nothing can be compared with.

    Raises:
        XlaSweepsError: its code cannot be loaded, or its outputs differ from those that it had.
    """
    code = _code(folder)
    if "builder" in code:
        builder = code["builder"]
        return builder if needs_inputs(builder) else builder()
    if "module" in code:
        module, (positional, named) = code["module"], code["example"]
        called, torch = copy.deepcopy(module), importlib.import_module("torch")
        outputs = compute_seeded(torch, called, positional, named)
        _compare(outputs, code["outputs"], advice=_BUILDER)
        return module
    library = importlib.import_module("tf_keras" if code["legacy"] else "keras")
    lambdas = {name: value for name, value in code["objects"].items() if name.startswith("Lambda:")}
    custom = {
        name: _tolerant(value) for name, value in code["objects"].items() if name not in lambdas
    }
    with _lambdas_of(library, lambdas):
        model = load_file(library, folder / "model.keras", custom_objects=custom, safe_mode=False)
    example = code["example"]
    call = call_by_name(model, example if isinstance(example, Mapping) else ())
    _compare(call(example, training=False), code["outputs"], advice=_advice(model))
    return model


def _advice(model: Any) -> str:
    """Advice where the model computes something else than it did."""
    classes = {type(layer) for layer in model._flatten_layers(recursive=True)}
    functions = sorted(
        f"{kind.__name__}.{name}"
        for kind in classes
        for name, value in vars(kind).items()
        if callable(value) and (hasattr(value, "get_concrete_function") or hasattr(value, "lower"))
    )
    if not functions:
        return _BUILDER
    return (
        f"{functions[0]} is a function that was traced, so it may hold other values than the "
        f"weights: {weights.FIX}"
    )


def _code(folder: Path) -> Any:
    """Classes, functions and arrays, found where the caller's process imports from.

    What was changed there in memory of what a module's file writes down is changed here.
    """
    places = json.loads((folder / "path.json").read_bytes())
    sys.path += [place for place in places if place not in sys.path]
    try:
        code = pickle.loads((folder / "code.pickle").read_bytes())
        for (module, name), value in code.get("changed", {}).items():
            setattr(importlib.import_module(module), name, value)
        return code
    except (ImportError, AttributeError) as error:
        raise XlaSweepsError(f"the model's code cannot be loaded here: {error}") from error


def _tolerant(given: Any) -> Any:
    """A class whose `from_config` leaves out what its own `__init__` does not take."""
    if not isinstance(given, type) or "from_config" in vars(given):
        return given
    taken = inspect.signature(given).parameters
    if any(each.kind is each.VAR_KEYWORD for each in taken.values()):
        return given

    def from_config(cls: Any, /, config: Any, **more: Any) -> Any:
        return cls(**{name: value for name, value in config.items() if name in taken})

    setattr(given, "from_config", classmethod(from_config))  # noqa: B010
    return given


def _lambdas_of(library: Any, functions: Mapping[str, Any]) -> AbstractContextManager[object]:
    """Let Keras's Lambda take its functions by the layer's name, for a `with` block."""
    layer = library.layers.Lambda
    earlier = vars(layer)["from_config"]

    def from_config(cls: Any, /, config: Any, *more: Any, **named: Any) -> Any:
        own = {name: functions.get(f"Lambda:{config['name']}:{name}") for name in _OF_LAMBDA}
        if own["function"] is None:
            return earlier.__func__(cls, config, *more, **named)
        plain = {name: config[name] for name in ("name", "dtype") if name in config}
        given = {
            name: own.get(name) or library.saving.deserialize_keras_object(config[name])
            for name in (*_OF_LAMBDA, "arguments")
            if name in config
        }
        return cls(**plain, **given)

    return mock.patch.object(layer, "from_config", classmethod(from_config))


def _compare(outputs: Any, expected: list[Any], *, advice: str) -> None:
    """Raise where the outputs are not those that the caller's process had."""
    computed, expected = list(map(_array, flat(outputs))), list(map(_array, expected))
    if [each.shape for each in computed] != [each.shape for each in expected]:
        raise XlaSweepsError(
            "the shipped model has outputs of other shapes; give a function that builds it"
        )
    for here, there in zip(computed, expected, strict=True):
        if there.dtype.kind not in "fV":
            continue
        half = there.dtype.itemsize < 4
        here, there = here.astype(np.float64), there.astype(np.float64)
        finite = np.isfinite(there)
        largest = float(np.abs(there[finite]).max(initial=1e-6))
        limit = (TOLERANCE_HALF if half else TOLERANCE) * largest
        others_equal = np.array_equal(here[~finite], there[~finite], equal_nan=True)
        if not (others_equal and (np.abs(here[finite] - there[finite]) <= limit).all()):
            raise XlaSweepsError(
                f"the shipped model computes something else than in your process; {advice}"
            )


def _array(output: Any) -> Any:
    """An output in NumPy; one of PyTorch without its history, bfloat16 as float16."""
    if hasattr(output, "detach") and output.is_floating_point() and output.itemsize < 4:
        output = output.half()
    return as_numpy(output)
