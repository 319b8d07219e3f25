"""What the entry points of the engines' workers do; the parent of each is `trial.workers`."""

from __future__ import annotations

from functools import partial
from pkgutil import resolve_name

from xla_sweeps.schema.backend import Backend
from xla_sweeps.worker.replicate import Replicate
from xla_sweeps.worker.server import MakeAnswer


def answers_of(backend: Backend, *, framework: str, explain: str) -> MakeAnswer:
    """Makes what answers requests; nothing of the engine is loaded before one asks for it.

    Args:
        backend: its declaration.
        framework: class that satisfies `worker.backend.Framework`, as `module:Name` in its package.
        explain: function that explains a model, likewise.
    """
    package = f"xla_sweeps.backends.{backend.name}"
    return lambda channel: (
        Replicate(
            lambda: resolve_name(f"{package}.{framework}")(),
            channel.send,
            title=backend.title,
            load_explain=partial(resolve_name, f"{package}.{explain}"),
        ).answer
    )
