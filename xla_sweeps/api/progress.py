"""Progress of a trial or a sweep for a person in a notebook, or on standard error elsewhere.

A notebook's line is drawn at most twice a second, and never while a block is timed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from xla_sweeps.api.border import refusing
from xla_sweeps.errors import unknown_name
from xla_sweeps.system.text import displayable

PAUSE_S = 0.5

CHOICES = ("auto", "none")

SHOWN = ("start", "stage", "running", "saved", "end")
"""Events that are drawn: none that come between timed blocks."""


@refusing("progress: cannot be read")
def follower(progress: str | bool) -> Callable[[Mapping[str, Any]], None]:
    """A function that shows events of `ui=json`.

    `auto` (or True) is a line in a notebook, and else stages on a terminal; `none` is False.

    Raises:
        ConfigError: it is none of them.
    """
    if isinstance(progress, bool):
        progress = "auto" if progress else "none"
    if not isinstance(progress, str) or progress not in CHOICES:
        raise unknown_name("progress", str(progress), CHOICES)
    if progress == "none":
        return lambda event: None
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None and hasattr(shell, "kernel"):
        from IPython.display import display

        return Line(display)
    return _print_stage if sys.stderr.isatty() else lambda event: None


class Line:
    """A line of a notebook that is drawn again, by IPython's `display`."""

    def __init__(
        self, display: Callable[..., Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._display, self._clock = display, clock
        self._handle: Any = None
        self._title, self._drawn = "", -PAUSE_S

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Show an event; those between timed blocks are not shown."""
        kind = event["event"]
        if kind == "start":
            self._title = displayable(event["title"])
        elif kind == "progress":
            self._title = f"{event['done']} of {event['total']} trials"
        if kind not in SHOWN:
            return
        now = self._clock()
        if now - self._drawn < PAUSE_S and kind != "end":
            return
        self._drawn = now
        text = "" if kind == "end" else " · ".join(filter(None, (self._title, _stage_of(event))))
        shown = {"text/plain": text}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def _stage_of(event: Mapping[str, Any]) -> str:
    words = (event.get(key) for key in ("stage", "mode", "trial", "status", "detail"))
    return displayable(" ".join(str(word) for word in words if word)) or "starting"


def _print_stage(event: Mapping[str, Any]) -> None:
    if event["event"] in ("stage", "running"):
        print(f"xla-sweeps: {_stage_of(event)}", file=sys.stderr)
