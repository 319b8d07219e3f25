"""Call a model's layers within something that notes which one it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from xla_sweeps.backends.keras.building import title

Scope = Callable[[str], AbstractContextManager[object]]
"""Begins something under a name."""


@contextmanager
def calls_within(layers: Sequence[Any], scope: Scope) -> Iterator[None]:
    """Meanwhile, call each layer within a scope that is named `name (Class)`."""
    wrapped = []
    for layer in layers:
        own = vars(layer).get("call")  # tf_keras gives some layers a call of their own
        try:
            object.__setattr__(layer, "call", _within(scope, title(layer), layer.call))
        except (AttributeError, TypeError):  # its class does not let it be wrapped
            continue
        wrapped.append((layer, own))
    try:
        yield
    finally:
        for layer, own in wrapped:
            if own is None:
                object.__delattr__(layer, "call")
            else:
                object.__setattr__(layer, "call", own)


def _within(scope: Scope, name: str, call: Any) -> Any:
    def within(*values: Any, **named: Any) -> Any:
        with scope(name):
            return call(*values, **named)

    return within
