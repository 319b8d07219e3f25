"""What the entry points of the engines' workers do; the parent of each is `trial.workers`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Any

from xla_sweeps.schema.backend import Backend
from xla_sweeps.trial import protocol
from xla_sweeps.worker.backend import Framework
from xla_sweeps.worker.replicate import Replicate
from xla_sweeps.worker.server import Channel


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An engine's entry point: called with a channel, it makes what answers requests.

    Nothing of the engine is loaded before a request asks for it.

    Attributes:
        backend: the engine's declaration.
        framework: class that satisfies `worker.backend.Framework`, as `module:Name` in its package.
        explain: function that explains a model, likewise.
    """

    backend: Backend
    framework: str
    explain: str

    def __call__(self, channel: Channel) -> Callable[[protocol.Request], protocol.Reply]:
        """Make what answers the requests of a channel, in order."""
        explain = partial(self._resolve, self.explain)
        title = self.backend.title
        return Replicate(self.load, channel.send, title=title, load_explain=explain).answer

    def load(self) -> Framework:
        """The engine, loaded."""
        framework: Framework = self._resolve(self.framework)()
        return framework

    def _resolve(self, name: str) -> Any:
        return resolve_name(f"xla_sweeps.backends.{self.backend.name}.{name}")
