"""Progress of a trial on standard error.

A live block on a terminal, one plain line per event elsewhere. Drawing costs CPU time on the
machine that is being measured, so the block is redrawn when an event arrives, and twice a second
only in stages that are not timed.
"""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from xla_sweeps.report.figures import NONE, duration, percent
from xla_sweeps.report.terminal.live_block import LiveBlock, bar, eta, heading
from xla_sweeps.system.text import displayable
from xla_sweeps.trial.rounds import Progress

STAGES = {
    "import": "loading",
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


class TrialProgress(LiveBlock):
    """Follow one trial, `part` of several (`2 of 5`); `brief` is a line for each replicate."""

    def __init__(self, *, ui: str = "auto", part: str = "", brief: bool = False) -> None:
        super().__init__(ui, every_s=REDRAW_S)
        self._brief = brief
        self._part = f"{part}  " if part else ""
        self._started = self._stage_started = time.monotonic()
        self._title, self._log, self._replicates, self._replicate = "", "", 1, 0
        self._stage, self._subject = "", ""
        self._rounds: Progress | None = None
        self._is_timed = False

    def trial_started(self, title: str, *, replicates: int, log: Path) -> None:
        """A trial begins; the libraries' output goes to the log."""
        self._title = f"{self._part}{displayable(title)}"
        self._log, self._replicates = str(log), replicates
        self._started = time.monotonic()
        self.start()
        self.line("start", f"{self._title}  replicates={replicates}  log={log}")

    def stage(self, replicate: int, stage: str, mode: str | None, detail: str = "") -> None:
        """A stage begins."""
        self._replicate, self._stage, self._stage_started = replicate, stage, time.monotonic()
        self._subject = displayable(" ".join(word for word in (mode or "", detail) if word))
        self._rounds = None
        self._is_timed = stage == "measure"
        if not self._brief:
            self.line(stage, self._subject)
        self.redraw()

    def round_done(self, replicate: int, progress: Progress) -> None:
        """A Williams design is measured."""
        self._replicate, self._rounds = replicate, progress
        if not self._brief:
            self.line("rounds", f"{_rounds_words(progress)}  {_width(progress)}{_eta(progress)}")
        self.redraw()

    def replicate_done(self, replicate: int, status: str, message: str = "") -> None:
        """A replicate ended and is saved."""
        self._is_timed = False
        number = "" if self._brief else f"replicate {replicate + 1}  "
        text = f"{number}{status}  {displayable(message)}".rstrip()
        self.line("measured" if self._brief else "saved", text)
        self._stage, self._subject, self._rounds = "record", text, None
        self.redraw()

    def _still(self) -> tuple[str, str] | None:
        """The stage and how long it takes already; None while calls are timed."""
        if self._is_timed:
            return None
        since = duration(time.monotonic() - self._stage_started)
        return self._stage or "start", f"{self._subject}  {since} so far".lstrip()

    def block(self) -> Group:
        """The block, as it is now."""
        now = time.monotonic()
        replicate = f"replicate {self._replicate + 1}  " if self._replicates > 1 else ""
        head = heading(self._title, f"{replicate}{duration(now - self._started)}")
        word = STAGES.get(self._stage, self._stage) or "waiting for its turn"
        stage = Text(f"{word} ", style="cyan")
        stage.append(self._subject, style="bold cyan")
        if not self._is_timed:
            stage.append(f"  {duration(now - self._stage_started)}", style="dim")
        rows: list[RenderableType] = [head, stage]
        if self._rounds:
            done, total = self._rounds.measured, self._rounds.rounds_max
            count = _rounds_words(self._rounds) + _eta(self._rounds)
            rows += [bar(done, total, count, width=16), Text(_width(self._rounds))]
        rows.append(Text(f"log {self._log}", style="dim", overflow="fold"))
        return Group(*rows)


def _rounds_words(progress: Progress) -> str:
    if progress.measured == progress.rounds:
        return f"{progress.rounds}/{progress.rounds_max} rounds"
    return f"{progress.measured} measured, {progress.rounds} clean of {progress.rounds_max}"


def _width(progress: Progress) -> str:
    reached = progress.half_width
    width = NONE if reached is None else f"±{percent(reached)}"
    return f"half-width {width} (target ±{percent(progress.target)})"


def _eta(progress: Progress) -> str:
    return eta(*progress.remaining_s) if progress.remaining_s[1] else ""
