"""Progress of a sweep on standard error.

A live table of devices on a terminal, one plain line per event elsewhere.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Self

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from xla_sweeps.report.figures import duration
from xla_sweeps.report.terminal.live_block import LiveBlock, bar, eta, heading
from xla_sweeps.system.files import tail
from xla_sweeps.system.text import count_noun, displayable

LAST = 5
TAIL_BYTES = 2048

_KEPT = ("results_dir", "tracker", "ui")
"""Options of a trial that say where it is kept and shown."""

INCONCLUSIVE = ("locked", "contaminated", "infra", "interrupted", "stopped", "lost")
"""Outcomes that are no result: the trial is measured again."""


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
        """What runs on each device, its stage, and the time left; `start` had its options."""
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
