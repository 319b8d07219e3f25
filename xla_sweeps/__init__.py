"""Measure what XLA buys a Keras vision model, on your hardware, with statistics that hold up.

`measure`, `results`, `compare`, `sweep` and `explain` are functions; see docs/python.md. Three of
them share the name of a package, which can be called for that reason.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xla_sweeps.api.functions import compare, explain, measure, results, sweep
    from xla_sweeps.api.table import Table
    from xla_sweeps.api.trial import Trial
    from xla_sweeps.errors import ConfigError, XlaSweepsError

__version__ = "0.1.0"

_PACKAGES = ("measure", "results", "sweep")

_FUNCTIONS = dict.fromkeys((*_PACKAGES, "compare", "explain"), "xla_sweeps.api.functions") | {
    "Trial": "xla_sweeps.api.trial",
    "Table": "xla_sweeps.api.table",
    "ConfigError": "xla_sweeps.errors",
    "XlaSweepsError": "xla_sweeps.errors",
}

__all__ = [
    "ConfigError",
    "Table",
    "Trial",
    "XlaSweepsError",
    "compare",
    "explain",
    "measure",
    "results",
    "sweep",
]


class _Package(ModuleType):
    """A package that is a function too."""

    def __call__(self, *positional: Any, **named: Any) -> Any:
        return self.__wrapped__(*positional, **named)

    @property
    def __wrapped__(self) -> Any:
        """The function, whose signature is shown."""
        _, _, name = self.__name__.rpartition(".")
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)


class _Face(ModuleType):
    """This module: a package of a function's name can be called, in whatever order it is loaded."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _PACKAGES and type(value) is ModuleType:
            value.__class__ = _Package
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    """A function or type of `api`, loaded when it is first used."""
    if name in _PACKAGES:
        return importlib.import_module(f"xla_sweeps.{name}")
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_FUNCTIONS]


sys.modules[__name__].__class__ = _Face
