"""Measure what XLA buys a Keras vision model, on your hardware, with statistics that hold up.

`measure`, `results`, `rounds`, `compare`, `sweep` and `explain` are functions; see docs/python.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from xla_sweeps.version import __version__

if TYPE_CHECKING:
    from xla_sweeps.api.functions import compare, explain, measure, results, rounds, sweep
    from xla_sweeps.api.table import Table
    from xla_sweeps.api.trial import Trial
    from xla_sweeps.errors import ConfigError, XlaSweepsError

_MODULES = {
    "measure": "api.functions",
    "results": "api.functions",
    "rounds": "api.functions",
    "compare": "api.functions",
    "sweep": "api.functions",
    "explain": "api.functions",
    "Trial": "api.trial",
    "Table": "api.table",
    "ConfigError": "errors",
    "XlaSweepsError": "errors",
}

__all__ = [
    "ConfigError",
    "Table",
    "Trial",
    "XlaSweepsError",
    "__version__",
    "compare",
    "explain",
    "measure",
    "results",
    "rounds",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """A function or type of the package, loaded when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"xla_sweeps.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
