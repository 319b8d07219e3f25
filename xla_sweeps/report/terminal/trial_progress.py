"""Progress of a trial on standard error.

A live block on a terminal, one plain line per event elsewhere. Drawing costs CPU time on the
machine that is being measured, so the block is redrawn when an event arrives, and twice a second
only in stages that are not timed.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from xla_sweeps.measure.protocol import Progressed
from xla_sweeps.report.terminal.console import duration, progress_console, ui_mode
from xla_sweeps.system.text import displayable

STAGES = {
    "import": "loading TensorFlow",
    "build": "building the model",
    "trace": "tracing",
    "compile": "compiling",
    "verify": "verifying",
    "wait": "waiting",
    "warmup": "warming up",
    "measure": "measuring",
    "record": "saving",
}

REDRAW_S = 0.5


class TrialProgress:
    """Follows one trial; a context manager.

    Args:
        ui: `auto`, `live`, `plain` or `quiet` (warnings only).
        part: which of several trials it is, such as `2 of 5`, or "".
    """

    def __init__(self, *, ui: str = "auto", part: str = "") -> None:
        self._part = f"{part}  " if part else ""
        self._mode = ui_mode(ui, os.environ)
        self._console = progress_console()
        self._live: Live | None = None
        self._started = self._stage_started = time.monotonic()
        self._title, self._log, self._replicates, self._replicate = "", "", 1, 0
        self._stage, self._subject = "", ""
        self._rounds: Progressed | None = None
        self._timed = threading.Event()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> TrialProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def trial_started(self, title: str, *, replicates: int, log: Path) -> None:
        """A trial begins; the libraries' output goes to the log."""
        self._title = f"{self._part}{displayable(title)}"
        self._log, self._replicates = str(log), replicates
        self._started = time.monotonic()
        if self._mode == "live":
            self._live = Live(
                self._block(), console=self._console, auto_refresh=False, transient=True
            )
            self._live.start()
            self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._ticker.start()
        self._line("start", f"{self._title}  replicates={replicates}  log={log}")

    def stage(self, replicate: int, stage: str, mode: str | None, detail: str = "") -> None:
        """A stage begins."""
        self._replicate, self._stage, self._stage_started = replicate, stage, time.monotonic()
        self._subject = displayable(" ".join(word for word in (mode or "", detail) if word))
        self._rounds = None
        if stage == "measure":
            self._timed.set()
        else:
            self._timed.clear()
        self._line(stage, self._subject)
        self._draw()

    def round_done(self, replicate: int, progress: Progressed) -> None:
        """A Williams square of rounds is measured."""
        self._replicate, self._rounds = replicate, progress
        self._line("rounds", f"{_counted(progress)}  {_width(progress)}{_eta(progress)}")
        self._draw()

    def replicate_done(self, replicate: int, status: str, message: str = "") -> None:
        """A replicate ended and is saved."""
        self._timed.clear()
        text = f"replicate {replicate + 1}  {status}  {displayable(message)}".rstrip()
        self._line("saved", text)
        self._stage, self._subject, self._rounds = "record", text, None
        self._draw()

    def warn(self, message: str) -> None:
        """Print a warning, in every mode."""
        self._console.print(
            Text(f"warning: {displayable(message)}", style="yellow"), soft_wrap=True
        )

    def close(self) -> None:
        """Remove the live block."""
        self._closed.set()
        if self._ticker is not None:
            self._ticker.join()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _line(self, event: str, text: str) -> None:
        if self._mode == "plain":
            stamp = time.strftime("%H:%M:%S")
            self._console.print(Text(f"{stamp} {event:<8} {text}".rstrip()), soft_wrap=True)

    def _draw(self) -> None:
        with self._lock:
            if self._live is not None:
                self._live.update(self._block(), refresh=True)

    def _tick(self) -> None:
        """Update the elapsed time, except while calls are timed."""
        while not self._closed.wait(REDRAW_S):
            if not self._timed.is_set():
                self._draw()

    def _block(self) -> Group:
        now = time.monotonic()
        head = Table.grid(expand=True)
        head.add_column(ratio=1)
        head.add_column(justify="right")
        replicate = f"replicate {self._replicate + 1}  " if self._replicates > 1 else ""
        head.add_row(
            Text(self._title, style="bold"),
            Text(f"{replicate}{duration(now - self._started)}", style="dim"),
        )
        stage = Text(f"{STAGES.get(self._stage, self._stage)} ", style="cyan")
        stage.append(self._subject, style="bold cyan")
        if not self._timed.is_set():
            stage.append(f"  {duration(now - self._stage_started)}", style="dim")
        rows: list[RenderableType] = [head, stage]
        if self._rounds:
            bar = Table.grid(padding=(0, 1))
            done, total = self._rounds.measured, self._rounds.rounds_max
            bar.add_row(
                ProgressBar(total=total, completed=min(done, total), width=16),
                Text(_counted(self._rounds) + _eta(self._rounds)),
            )
            rows += [bar, Text(_width(self._rounds))]
        rows.append(Text(f"log {self._log}", style="dim", overflow="fold"))
        return Group(*rows)


def _counted(progress: Progressed) -> str:
    """How many rounds are measured, and how many of them are clean, where that is not all."""
    if progress.measured == progress.rounds:
        return f"{progress.rounds}/{progress.rounds_max} rounds"
    return f"{progress.measured} measured, {progress.rounds} clean of {progress.rounds_max}"


def _width(progress: Progressed) -> str:
    width = "—" if progress.half_width is None else f"±{progress.half_width:.2%}"
    return f"half-width {width} (target ±{progress.target:.2%})"


def _eta(progress: Progressed) -> str:
    if not progress.remaining_s[1]:
        return ""
    low, high = (duration(seconds) for seconds in progress.remaining_s)
    return f"  eta {low}" + (f" to {high}" if high != low else "")
