"""Progress on standard error: a block that is redrawn on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Self

from rich.console import RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from xla_sweeps.report.figures import duration
from xla_sweeps.report.terminal import console


class LiveBlock(ABC):
    """Show the progress of one thing: drawn where it is live, else as lines; a context manager."""

    def __init__(self, ui: str, *, every_s: float) -> None:
        self._mode = console.ui_mode(ui)
        self._console = console.progress_console()
        self._heart = console.Heartbeat(
            self._beat, every_s=every_s if self._mode == "live" else None
        )
        self._live = Live(self, console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self._heart.__exit__()
        self._live.stop()

    def __rich__(self) -> RenderableType:
        return self.block()

    @abstractmethod
    def block(self) -> RenderableType:
        """The block, as it is now."""

    @abstractmethod
    def _still(self) -> tuple[str, str] | None:
        """The event and text of a line after a long silence; None where there must be none."""

    def start(self) -> None:
        """Show the block."""
        if self._mode == "live":
            self._live.start(refresh=True)
        if self._mode != "quiet":
            self._heart.__enter__()

    def redraw(self) -> None:
        """Draw the block again, where it is live."""
        if self._live.is_started:
            self._live.refresh()

    def line(self, event: str, text: str) -> None:
        """Print an event as a line with the time, where progress is plain."""
        if self._mode == "plain":
            self._heart.note_line()
            stamp = time.strftime("%H:%M:%S")
            console.say(f"{stamp} {event:<8} {text}".rstrip(), console=self._console)

    def _beat(self) -> None:
        still = self._still()
        if still and self._mode == "live":
            self.redraw()
        elif still:
            self.line(*still)

    def warn(self, *messages: str) -> None:
        """Print warnings, in every mode."""
        console.warn(*messages, console=self._console)


def heading(title: str, right: str) -> Table:
    """A line with a title and, at its right end, a time."""
    table = Table.grid(expand=True)
    table.add_column(ratio=1)
    table.add_column(justify="right")
    table.add_row(Text(title, style="bold"), Text(right, style="dim"))
    return table


def bar(done: int, total: int, text: str, *, width: int) -> Table:
    """A bar with a text beside it."""
    table = Table.grid(padding=(0, 1))
    table.add_row(ProgressBar(total=total, completed=min(done, total), width=width), Text(text))
    return table


def eta(low_s: float, high_s: float) -> str:
    """The time left, as a range where its ends read differently."""
    low, high = duration(low_s), duration(high_s)
    return f"  eta {low}" + (f" to {high}" if high != low else "")
