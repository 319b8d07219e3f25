"""What the entry points of the engines' workers do; the parent of each is `trial.workers`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name
from typing import Any

from xla_sweeps.schema.backend import Backend
from xla_sweeps.trial import protocol
from xla_sweeps.worker import server
from xla_sweeps.worker.replicate import Replicate


def serve(backend: Backend, *, framework: str, explainer: str) -> None:
    """Serve the parent of an engine's worker, and load nothing of it before a request asks for it.

    `framework` names a class that satisfies `worker.backend.Framework`, as `module:Name` in the
    engine's package; `explainer` a subclass of `Explainer`, likewise.
    """

    def load(name: str) -> Any:
        return resolve_name(f"xla_sweeps.backends.{backend.name}.{name}")

    def make_answer(channel: server.Channel) -> Callable[[protocol.Request], protocol.Reply]:
        return Replicate(
            lambda: load(framework)(),
            channel.send,
            title=backend.title,
            load_explain=lambda: partial(load(explainer).explain_job, load(framework)()),
        ).answer

    server.main(make_answer)
