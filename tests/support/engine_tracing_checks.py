"""Models that compute something else where they are traced, for `engine_checks.py`."""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable
from typing import Any

import keras
from engine_desk import ENGINE, PLANTED, Desk, network

from xla_sweeps.schema.trial import Precision


def is_jitted(values: Any) -> bool:
    """True within `jax.jit`; gradients alone wrap the numbers themselves."""
    while hasattr(values, "primal"):
        values = values.primal
    return isinstance(values, pkgutil.resolve_name("jax.core:Tracer"))


TRACES: dict[str, Callable[[Any], bool]] = {
    "tensorflow": lambda values: not pkgutil.resolve_name("tensorflow:executing_eagerly")(),
    "jax": is_jitted,
    "torch": lambda values: pkgutil.resolve_name("torch.compiler:is_compiling")(),
}
"""Questions whether a call with these values is being traced."""


class Traced(keras.layers.Layer):  # type: ignore[misc]
    """Scales its values a little more where it is traced."""

    def call(self, values: Any) -> Any:
        return values * (1 + PLANTED if TRACES[ENGINE](values) else 1.0)


class TracedGradient(keras.layers.Layer):  # type: ignore[misc]
    """Passes its values on, and scales their gradient a little more where it is traced."""

    def call(self, values: Any) -> Any:
        more = PLANTED if TRACES[ENGINE](values) else 0.0
        return values + more * (values - keras.ops.stop_gradient(values))


def changed_by_tracing() -> Any:
    """The modes' statuses, of models that compute something else where they are traced."""
    given = (
        ("call", Traced, Precision.FLOAT32),
        ("train_step", TracedGradient, Precision.FLOAT32),
        ("predict", Traced, Precision.MIXED_BFLOAT16),
    )
    desks = [
        Desk(functools.partial(network, kind), name, precision=precision)
        for name, kind, precision in given
    ]
    return [desk.statuses() for desk in desks]
