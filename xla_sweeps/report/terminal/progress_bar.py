"""A progress bar on standard error, for work of several steps in which nothing is measured."""

from __future__ import annotations

import time

from rich.progress import Progress

from xla_sweeps.report.terminal.console import duration, progress_console, say, ui_mode, warn
from xla_sweeps.system.text import displayable


class Steps:
    """Follows `total` steps; a context manager.

    Without a terminal it prints a line per step, unless it is `quiet`.

    Args:
        title: the work.
        total: number of steps; None if `follow` gives it later.
        quiet: print nothing without a terminal.
    """

    def __init__(self, title: str, total: int | None, *, quiet: bool = False) -> None:
        self._title, self._quiet = title, quiet
        self._started = time.monotonic()
        self._live = ui_mode("auto") == "live"
        self._console = progress_console()
        self._progress = Progress(console=self._console, transient=True, disable=not self._live)
        self._task = self._progress.add_task(title, total=total)

    def __enter__(self) -> Steps:
        self._progress.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._progress.stop()

    def begin(self, name: str) -> None:
        """A step begins."""
        self._started = time.monotonic()
        self._progress.update(self._task, description=f"{self._title}: {displayable(name)}")

    def end(self, name: str) -> None:
        """A step ended."""
        self._progress.advance(self._task)
        if not self._live and not self._quiet:
            took = duration(time.monotonic() - self._started)
            say(self._console, f"{self._title}: {displayable(name)}  {took}")

    def follow(self, done: int, total: int) -> None:
        """Set the number of finished steps and of all steps."""
        self._progress.update(self._task, completed=done, total=total)

    def warn(self, message: str) -> None:
        """Print a warning."""
        warn(message, self._console)
