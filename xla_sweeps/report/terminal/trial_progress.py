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

from xla_sweeps.report.terminal.console import duration, progress_console, ui_mode
from xla_sweeps.system.text import displayable

STAGES = {
    "import": "loading TensorFlow",
    "build": "building the model",
    "trace": "tracing",
    "compile": "compiling",
    "verify": "verifying",
    "warmup": "warming up",
    "measure": "measuring",
    "record": "saving",
}

REDRAW_S = 0.5


class TrialProgress:
    """Follows one trial; a context manager.

    Args:
        ui: `auto`, `live`, `plain` or `quiet` (warnings only).
    """

    def __init__(self, *, ui: str = "auto") -> None:
        self._mode = ui_mode(ui, os.environ)
        self._console = progress_console()
        self._live: Live | None = None
        self._started = self._stage_started = time.monotonic()
        self._title, self._log, self._replicates, self._replicate = "", "", 1, 0
        self._stage, self._subject = "", ""
        self._rounds: tuple[int, int] | None = None
        self._detail = ""
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
        self._title, self._log, self._replicates = displayable(title), str(log), replicates
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
        if self._subject and self._stage == stage and detail == "latency":
            self._rounds = None
        self._replicate, self._stage, self._stage_started = replicate, stage, time.monotonic()
        self._subject = displayable(" ".join(word for word in (mode or "", detail) if word))
        self._detail = ""
        self._rounds = None
        if stage == "measure":
            self._timed.set()
        else:
            self._timed.clear()
        self._line(stage, self._subject)
        self._draw()

    def round_done(
        self,
        *,
        replicate: int,
        round: int,
        rounds_max: int,
        half_width: float | None,
        target: float,
        remaining_s: tuple[float, float] | None,
    ) -> None:
        """A Williams square of rounds is measured."""
        self._replicate, self._rounds = replicate, (round, rounds_max)
        width = "—" if half_width is None else f"±{half_width:.2%}"
        self._detail = f"{width} (target ±{target:.2%})"
        if remaining_s and remaining_s[1] > 0:
            low, high = (duration(seconds) for seconds in remaining_s)
            self._detail += f"  eta {low}" + (f" to {high}" if high != low else "")
        self._line("rounds", f"{round}/{rounds_max}  half-width {self._detail}")
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
            bar.add_row(
                ProgressBar(total=self._rounds[1], completed=self._rounds[0], width=16),
                Text(f"round {self._rounds[0]}/{self._rounds[1]}  {self._detail}"),
            )
            rows.append(bar)
        rows.append(Text(f"log {self._log}", style="dim", overflow="fold"))
        return Group(*rows)
