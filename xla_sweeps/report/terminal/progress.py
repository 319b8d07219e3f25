"""Progress of a trial and of a sweep on standard error.

A block that is redrawn on a terminal, one plain line per event elsewhere. Drawing costs CPU time on
the machine that is being measured, so a trial's block is redrawn when an event arrives, and twice a
second only in stages that are not timed.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from xla_sweeps.report.figures import NONE, duration, percent
from xla_sweeps.report.terminal import console
from xla_sweeps.system.files import tail
from xla_sweeps.system.text import count_noun, displayable
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

LAST = 5
TAIL_BYTES = 2048

_KEPT = ("results_dir", "tracker", "ui")
"""Options of a trial that say where it is kept and shown."""

INCONCLUSIVE = ("locked", "contaminated", "infra", "interrupted", "killed", "stopped", "lost")
"""Outcomes that are no result: the trial is measured again."""


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
        self._log, self._replicates = displayable(log), replicates
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


class SweepProgress(LiveBlock):
    """Follow one sweep on some slots, others may follow; a context manager."""

    def __init__(self, title: str, slots: Sequence[str], *, ui: str = "auto") -> None:
        super().__init__(ui, every_s=1.0)
        self._title = displayable(title)
        self._started = time.monotonic()
        self._jobs: dict[str, tuple[str, Path, float] | None] = dict.fromkeys(slots)
        self._last: deque[Text] = deque(maxlen=LAST)
        self._done, self._total = 0, 0
        self._counts: Mapping[str, int] = {}
        self._left: tuple[float, float] | None = None
        self._left_at = self._started
        self._busy = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def running(self, slot: str, what: str, log: Path) -> None:
        """A job starts on a slot."""
        self._jobs[slot] = (trial_name(displayable(what)), log, time.monotonic())
        self.line("start", f"{slot}  {displayable(what)}  log={log}")

    def show_end(self, slot: str, what: str, outcome: str, detail: str, figure: str = "") -> None:
        """A job ended with an outcome and its speedup; the least important words come last."""
        job = self._jobs.get(slot)
        took = duration(time.monotonic() - job[2]) if job else ""
        self._jobs[slot] = None
        facts = (figure, took, trial_name(displayable(what)), displayable(detail))
        text = "  ".join(filter(None, facts))
        style = "green" if outcome == "ok" else "yellow" if outcome in INCONCLUSIVE else "red"
        line = Text(f"{outcome:<12}  ", style=style, no_wrap=True, overflow="ellipsis")
        self._last.append(line.append(text, style="default"))
        whole = text.replace(facts[2], displayable(what), 1)
        self.line("end", f"{slot}  {outcome}  {whole}")

    def progress(
        self,
        done: int,
        total: int,
        counts: Mapping[str, int],
        *,
        left_s: tuple[float, float] | None,
        busy: str = "",
    ) -> None:
        """Show the number of finished trials by outcome, the time left, and contaminated trials."""
        self._done, self._total, self._left = done, total, left_s
        self._left_at = time.monotonic()
        self._counts = {word: count for word, count in counts.items() if word != "missing"}
        self.line(
            "sweep", f"{done}/{count_noun(total, 'trial')}  {words_of(self._counts)}{self._eta()}"
        )
        if busy != self._busy:
            self.line("busy", displayable(busy) or "no longer")
        self._busy = busy

    def _still(self) -> tuple[str, str]:
        """Jobs on the devices, their stages, and the time left; `start` had its options."""
        jobs = [
            f"{slot}  {_subject(job[0])}  {_stage(job[1])}"
            for slot, job in list(self._jobs.items())
            if job
        ]
        return "still", ("; ".join(jobs[:4]) or self._busy or "idle") + self._eta()

    def _eta(self) -> str:
        if self._left is None or self._done >= self._total:
            return ""
        since = time.monotonic() - self._left_at
        low, high = (max(0.0, seconds - since) for seconds in self._left)
        return eta(low, high)

    def block(self) -> Group:
        """The block, as it is now."""
        head = heading(self._title, duration(time.monotonic() - self._started))
        rows: list[RenderableType] = [head]
        if self._total:
            count = f"{self._done}/{count_noun(self._total, 'trial')}{self._eta()}"
            rows.append(bar(self._done, self._total, count, width=24))
            rows.append(Text(words_of(self._counts), style="dim"))
        if self._busy:
            rows.append(Text(displayable(self._busy), style="yellow"))
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(no_wrap=True, style="cyan")
        for share in (3, 2):
            table.add_column(no_wrap=True, overflow="ellipsis", ratio=share)
        for slot, job in list(self._jobs.items())[:16]:
            if job is None:
                table.add_row(slot or "queue", Text("idle", style="dim"), "")
            else:
                stage = f"{duration(time.monotonic() - job[2])}  {_stage(job[1])}"
                table.add_row(slot, Text(job[0]), Text(stage, style="dim"))
        rows.append(table)
        rows += list(self._last)
        return Group(*rows)


def trial_name(words: str) -> str:
    """A trial's words shortened, as `resnet50 224 px b4`; where they are kept is left out."""
    values = dict(word.split("=", 1) for word in words.split() if "=" in word)
    if "model" not in values:
        return words
    forms = {"model": "{}", "resolution": "{} px", "batch_size": "b{}"}
    parts = [form.format(values.pop(key)) for key, form in forms.items() if key in values]
    others = (f"{key}={value}" for key, value in values.items() if key not in _KEPT)
    return " ".join([*parts, *others])


def _subject(name: str) -> str:
    return " ".join(takewhile(lambda word: "=" not in word, name.split())) or name


def words_of(counts: Mapping[str, int]) -> str:
    """Number of trials of each end, the most first."""
    return "  ".join(
        f"{count} {word}" for word, count in sorted(counts.items(), key=lambda pair: -pair[1])
    )


def _stage(log: Path) -> str:
    """A job's stage: the last line of its plain progress, without the time."""
    lines = tail(log, limit=TAIL_BYTES).splitlines()
    line = next((line for line in reversed(lines) if line[2:3] == ":"), "")
    text, _, _ = line.partition(" ")[2].partition("  eta ")  # the sweep has its own
    return displayable(" ".join(text.split())[:60])


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
