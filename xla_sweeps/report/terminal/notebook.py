"""Trials and tables of rows as a notebook shows them: the terminal's tables as HTML."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from rich.console import Console, RenderableType
from rich.jupyter import JUPYTER_HTML_FORMAT
from rich.table import Table
from rich.text import Text

from xla_sweeps.report.advice import flag_notes
from xla_sweeps.report.row_cells import RIGHT
from xla_sweeps.report.terminal.console import COLOURS, PLAIN, PLAIN_WIDTH, UNBOUNDED
from xla_sweeps.report.terminal.tables import modes_table
from xla_sweeps.schema.row import TrialSummary
from xla_sweeps.system.text import displayable


def rows_text(lines: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """Lines of cells, the first of headings, in columns, and notes below them."""
    text = _record(_rows_table(lines), *map(displayable, notes)).export_text()
    return "\n".join(line.rstrip() for line in text.splitlines())


def rows_html(lines: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """The same as HTML."""
    return _html(_rows_table(lines), *map(displayable, notes))


def trial_html(summary: TrialSummary, sentence: str, verdict: str) -> str:
    """A trial's answer, modes, failures and caveats as HTML; no script, nothing from elsewhere."""
    notes = dict.fromkeys(note for row in summary.comparisons for note in flag_notes(row))
    reasons = [
        Text(displayable(f"{mode.label}: {mode.failure.message}"[:300]), style=COLOURS["failed"])
        for mode in summary.modes
        if mode.failure
    ]
    return _html(
        Text(displayable(sentence[:1000]), style=f"bold {COLOURS[verdict]}"),
        modes_table(replace(summary, modes=summary.modes[:20])),
        *reasons[:5],
        *(Text(displayable(f"Note: {note}."[:500]), style="dim") for note in notes),
    )


def _rows_table(lines: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in lines[0]:
        side: Literal["right", "left"] = "right" if heading in RIGHT else "left"
        table.add_column(displayable(heading), no_wrap=True, justify=side)
    for line in lines[1:]:
        table.add_row(*map(displayable, line))
    return table


def _html(*parts: RenderableType) -> str:
    """HTML in the notebook's own colours, with the text of others escaped."""
    console = _record(*parts)
    return console.export_html(inline_styles=True, code_format=JUPYTER_HTML_FORMAT)


def _record(*parts: RenderableType) -> Console:
    file = io.StringIO()
    console = Console(
        file=file, width=UNBOUNDED, record=True, force_terminal=True, force_jupyter=False, **PLAIN
    )
    for part in parts:
        console.print(part, width=None if isinstance(part, Table) else PLAIN_WIDTH)
    return console
