"""A progress bar for work of several steps that nothing is measured in, on standard error."""

from __future__ import annotations

import os
import time
from types import TracebackType

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from xla_sweeps.report.terminal.console import displayable, duration, progress_console, ui_mode


class Steps:
    """Follows `total` steps; a context manager.

    Without a terminal it prints a line a step, unless it is `quiet`.

    Args:
        title: what is done.
        total: how many steps; None where `follow` says it later.
        quiet: no lines without a terminal.
    """

    def __init__(self, title: str, total: int | None, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._console = progress_console()
        self._started = time.monotonic()
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        live = ui_mode("auto", os.environ) == "live" and total != 0
        self._progress = Progress(*columns, console=self._console, transient=True, disable=not live)
        self._live, self._title = live, title
        self._task = self._progress.add_task(title, total=total)

    def __enter__(self) -> Steps:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def begin(self, name: str) -> None:
        """A step begins."""
        self._started = time.monotonic()
        self._progress.update(self._task, description=f"{self._title}: {displayable(name)}")

    def end(self, name: str, *, count: int = 1) -> None:
        """A step ended, or several."""
        self._progress.advance(self._task, count)
        if not self._live and not self._quiet:
            took = duration(time.monotonic() - self._started)
            self._console.print(Text(f"{self._title}: {displayable(name)}  {took}"), soft_wrap=True)

    def follow(self, done: int, total: int) -> None:
        """So many of so many steps are done."""
        self._progress.update(self._task, completed=done, total=total)

    def warn(self, message: str) -> None:
        """Something a person should know now."""
        self._console.print(
            Text(f"warning: {displayable(message)}", style="yellow"), soft_wrap=True
        )
