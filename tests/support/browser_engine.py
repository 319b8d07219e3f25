"""What the drivers of Chromium and Firefox share."""

from __future__ import annotations

from dataclasses import dataclass, field

TIMEOUT_S = 120.0
"""Limit of one command: a page of 100,000 rows on a busy machine blocks its thread for seconds."""


class BrowserError(Exception):
    """The browser, or the page in it, did not do what it was told."""


@dataclass(slots=True)
class Seen:
    """Messages and requests of a page since it was opened."""

    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
