"""The measuring process's channel to its parent, where nothing is timed."""

from __future__ import annotations

from typing import Any

from xla_sweeps.measure import protocol


class Heard:
    """A channel that keeps what was sent."""

    def __init__(self) -> None:
        self.events: list[protocol.Event] = []

    def send(self, event: protocol.Event) -> None:
        self.events.append(event)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"nothing is measured here: {name}")
