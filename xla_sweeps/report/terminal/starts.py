"""Show what the parts of a cold start or the calls of new shapes take, mode by mode."""

from __future__ import annotations

from rich.table import Table

from xla_sweeps.report.figures import NONE, number
from xla_sweeps.report.terminal import console
from xla_sweeps.schema.row import TrialSummary
from xla_sweeps.system.text import displayable

_MOST_PARTS = 8
"""Columns that a terminal has place for."""

_PARTS = ("interpreter", "import", "build", "load", "trace", "compile", "call")


def starts_table(summary: TrialSummary) -> Table | None:
    """A line for each mode: median seconds of each part, and its cache; None of other scenarios."""
    parts = {
        mode.label: dict(word.split("=") for word in mode.columns.start_parts.split())
        for mode in summary.modes
        if mode.columns.start_parts
    }
    if not parts:
        return None
    present = dict.fromkeys(name for each in parts.values() for name in each)
    named = [name for name in _PARTS if name in present] or list(present)
    if len(named) > _MOST_PARTS:
        return None
    cached = summary.trial.compile_cache != "off"
    columns = [*named, *(["cache, MiB"] if cached else [])]
    heading = "call, s" if summary.trial.shapes else "start, s"
    table = console.empty_table(heading, *columns, right=columns)
    for mode in summary.modes:
        if own := parts.get(mode.label):
            cells = [number(float(own[name])) if name in own else NONE for name in named]
            cells += [number((mode.columns.cache_bytes or 0) / 2**20)] if cached else []
            table.add_row(mode.label, *cells)
    return table


def cache_note(summary: TrialSummary) -> str:
    """A line on starts with a damaged cache, by mode; "" where none was tried."""
    ends = {mode.label: mode.columns.damaged_cache for mode in summary.modes}
    told = [f"{label}: {displayable(end)}" for label, end in ends.items() if end]
    return f"with a damaged cache   {'; '.join(told)}" if told else ""
