"""Texts that the terminal shows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from rich.console import Console

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report.terminal.tables import show_rows, show_trial
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import ComparisonRow, TrialSummary


def text_shown(show: Callable[..., object], *given: Any, **named: Any) -> str:
    """Text that a function writes to standard output."""
    with redirect_stdout(StringIO()) as out:
        show(*given, **named)
    return out.getvalue()


def trial_text(trial: Record | TrialSummary, **places: str) -> str:
    """The end of a trial of one record, or of these."""
    summary = trial if isinstance(trial, TrialSummary) else summarize([trial])
    return text_shown(show_trial, summary, places=places)


def block_text(screen: Any) -> str:
    """The block of a progress in a terminal of 80 columns."""
    return text_shown(Console(width=80).print, screen.block())


def rows_text(*rows: ComparisonRow) -> str:
    return text_shown(show_rows, rows)
