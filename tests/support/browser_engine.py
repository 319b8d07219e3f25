"""The protocol of a test's browser, which Chromium and Firefox implement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

TIMEOUT_S = 120.0
"""Limit of one command: a page of 100,000 rows on a busy machine blocks its thread for seconds."""


class BrowserError(Exception):
    """The browser, or the page in it, did not do what it was told."""


@dataclass(slots=True)
class Seen:
    """Messages and requests of a page since it was opened."""

    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


class Engine(Protocol):
    """One running browser with one page."""

    seen: Seen

    def open(
        self, url: str, *, size: tuple[int, int], dark: bool, before: str, fresh: bool
    ) -> None:
        """Leave the page for another that shares no script's state; return once it has loaded.

        Args:
            url: its address.
            size: of the viewport, CSS pixels.
            dark: whether the system prefers dark colours.
            before: JavaScript that runs before the page's own.
            fresh: in a process and with a history of its own, which costs a second.
        """

    def evaluate(self, expression: str) -> str | None:
        """A string, or the promise of one."""

    def press(self, chord: str) -> None:
        """Press and release a key, by the `key` value of its event; `Shift+Tab` holds the first."""

    def write(self, text: str) -> None:
        """Type into the element that has the focus."""

    def pointer(self, kind: str, x: float, y: float) -> None:
        """`move`, `down` or `up` of the mouse, in CSS pixels of the viewport."""

    def download(self, start: Callable[[], None]) -> tuple[str, bytes]:
        """The name and the content of the file that `start` makes the page save."""

    def screenshot(self, path: Path) -> None:
        """Save the whole page as a PNG."""
