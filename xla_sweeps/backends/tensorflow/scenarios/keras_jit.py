"""Keras's own `jit_compile`: a model of its own for each setting, and what Keras made of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.tensorflow import models

UNCOMPILED = "uncompiled"
"""Asks for a model without `compile`: Keras chooses whether to use XLA."""


def wrapped(model: Any, call: Callable[[Any], Any]) -> Any:
    """A model with the layers of another, so that what it compiles is its own.

    Args:
        model: of Keras 3 or tf_keras.
        call: its forward pass on a batch.
    """
    library = models.keras_library_of(model)

    class Wrapper(library.Model):  # type: ignore[misc, name-defined]
        """Calls the model; Keras finds its layers below it."""

        def __init__(self) -> None:
            super().__init__()
            self.wrapped = model

        def call(self, batch: Any) -> Any:
            return call(batch)

    return Wrapper()


def evidence(model: Any, functions: Sequence[Any], asked: Any) -> tuple[dict[str, Any], list[str]]:
    """What Keras made of `jit_compile`, read back after the first call, and what is wrong with it.

    Args:
        model: from `wrapped`.
        functions: the functions that Keras traced, as `ConcreteFunction`s.
        asked: the `jit_compile` that was asked for, or `UNCOMPILED`.
    """
    in_force = bool(model.jit_compile)
    compiled = sum(map(_compiled, functions))
    problems = []
    if model.run_eagerly or tf.config.functions_run_eagerly():
        problems.append("the model runs eagerly, so nothing runs as a graph")
    if asked is True and not in_force:
        problems.append(f"Keras lowered jit_compile=True to False: {_refusal(model)}")
    if asked is False and in_force:
        problems.append("Keras uses XLA although jit_compile=False")
    if in_force and not compiled:
        problems.append("Keras says that it uses XLA, but XLA compiles nothing that it traced")
    return {
        "jit_compile_asked": asked,
        "jit_compile": in_force,
        "xla_functions": compiled,
        "executing_eagerly": False,
    }, problems


def placement(places: frozenset[str], device: str) -> tuple[dict[str, Any], list[str]]:
    """Where the operations of a first call ran, and what is wrong with it.

    Args:
        places: `ModeExecutable.places`.
        device: where the model is to run.
    """
    name = device.split("/")[-1]
    problems = [] if any(name in place for place in places) else [f"nothing ran on {device}"]
    return {"device": sorted(places), "elsewhere": []}, problems


def step_function(made: Any) -> Any:
    """The `tf.function` of one step in what Keras made: `model.train_function`; None without one.

    Reads the closure of Keras 3's, tried on 3.15.1; tf_keras's is a `tf.function` itself.
    """
    if hasattr(made, "experimental_get_tracing_count"):
        return made
    if not inspect.isfunction(made):
        return None
    inner = getattr(made, "__wrapped__", None)
    return step_function(inner or inspect.getclosurevars(made).nonlocals.get("one_step_on_data"))


def concrete_functions(function: Any) -> list[Any]:
    """What a `tf.function` traced so far.

    Uses a private method of TensorFlow, tried on 2.21.0: Keras does not keep what it traced.
    """
    return list(function._list_all_concrete_functions())


def _compiled(concrete: Any) -> int:
    """How many functions XLA compiles in a traced one, itself included."""
    attribute = concrete.function_def.attr.get("_XlaMustCompile")
    itself = attribute is not None and attribute.b
    return int(itself) + models.library_functions_with_xla(concrete)


def _refusal(model: Any) -> str:
    """Why Keras 3 does not use XLA: the layers that do not support it."""
    named = [
        f"{layer.name} ({type(layer).__name__})"
        for layer in models.all_layers(model)
        if not getattr(layer, "supports_jit", True)
    ]
    if not named:
        return "with deterministic operations or tf.distribute it never uses XLA"
    more = f" and {len(named) - 3} more layers" if len(named) > 3 else ""
    return f"supports_jit is False in {', '.join(named[:3])}{more}"
