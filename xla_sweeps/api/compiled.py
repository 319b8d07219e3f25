"""Arguments that a Keras model was compiled with: loss, metrics, optimizer; some of one's own."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from xla_sweeps.api.border import FOREIGN
from xla_sweeps.config import own_inputs
from xla_sweeps.trial.failures import error_line


def arguments_of(model: Any) -> Mapping[str, Any]:
    """Arguments of the last `compile` of a model; none for another object.

    Uses a private attribute, tried on Keras 3.15.1 and tf_keras 2.21.0.
    """
    return dict(getattr(getattr(model, "_compile_config", None), "config", {}))


def parts_of_compile(model: Any) -> Iterator[Any]:
    """Own functions and objects that `compile` was given, as a schedule in an optimizer."""
    pending = own_inputs.flat(arguments_of(model))
    seen = set[int]()
    while pending:
        value = pending.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if is_own_function(value) or is_made(value):
            yield value
        if hasattr(type(value), "get_config"):
            pending += held_by(value)


def warn_of_lost(model: Any, library: Any) -> None:
    """Say what `compile` was given that the measuring process cannot make again, as it does.

    Args:
        model: of Keras 3 or tf_keras.
        library: the one of them.
    """
    made = [part for part in parts_of_compile(model) if not inspect.isfunction(part)]
    with library.saving.custom_object_scope({type(one).__name__: type(one) for one in made}):
        for part in made:
            try:
                _make_again(part)
            except FOREIGN as error:
                warnings.warn(
                    f"model: {type(part).__name__}.get_config() cannot make it again "
                    f"({error_line(error)}), so the model is measured as if it was not compiled",
                    stacklevel=2,
                )


def _make_again(part: Any) -> None:
    kind, config = type(part), part.get_config()
    taken = inspect.signature(kind).parameters
    is_open = any(one.kind is one.VAR_KEYWORD for one in taken.values())
    if is_open or "from_config" in vars(kind):
        kind.from_config(config)
    else:
        kind(**{name: one for name, one in config.items() if name in taken})


def held_by(value: Any) -> list[Any]:
    """Own functions and objects that Keras makes again, in the attributes of another."""
    return [one for one in vars(value).values() if is_own_function(one) or is_made(one)]


def is_made(value: Any) -> bool:
    """True for an object of the user's own class that Keras makes again by its configuration."""
    return hasattr(type(value), "get_config") and not is_of_library(type(value))


def is_own_function(value: Any) -> bool:
    """True for a function of the user's own, as it was written."""
    own = inspect.isfunction(value) and not hasattr(value, "__wrapped__")
    return own and not is_of_library(value)


def is_of_library(code: Any) -> bool:
    """True for a class or function that every measuring process has."""
    return (code.__module__ or "").partition(".")[0] in _LIBRARIES


_LIBRARIES = {"builtins", "abc", "typing", "tensorflow"}
_LIBRARIES |= {"keras", "tf_keras", "keras_hub", "keras_cv"}
