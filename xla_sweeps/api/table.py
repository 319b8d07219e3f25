"""Rows as data frames, text and HTML: `to_pandas()`, or `polars.DataFrame(table)` and the like."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # slow to import
    import pyarrow

SHOWN = (
    *("model", "resolution_px", "batch_size", "candidate", "baseline", "speedup"),
    *("speedup_low", "speedup_high", "verdict", "status"),
)
"""Columns of rows that are shown; a data frame has all."""

SHOWN_ROWS = 60

STYLE = (
    "<style>.xlasw{--ink:#1b1b1b;--dim:#666;--line:#ccc;--up:#1a7f37;--down:#c62828;color:var(--ink);"
    "font:13px system-ui,sans-serif}"
    "body[data-jp-theme-light=false] .xlasw,body.vscode-dark .xlasw,html[theme=dark] .xlasw"
    "{--ink:#e6e6e6;--dim:#aaa;--line:#555;--up:#57d177;--down:#ff7b72}"
    ".xlasw table{border-collapse:collapse;margin:.4em 0}"
    ".xlasw th,.xlasw td{padding:2px 10px 2px 0;text-align:right;"
    "border-bottom:1px solid var(--line)}.xlasw th:first-child,"
    ".xlasw td:first-child{text-align:left}.xlasw .dim{color:var(--dim)}</style>"
)
"""Styles below one class; dark as the notebook is, not as the system is."""


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """Rows with named columns.

    Attributes:
        arrow: as a table of Arrow.
        shown: columns of the text and of the HTML; all for none.
        notes: caveats, and files that could not be used.
    """

    arrow: pyarrow.Table
    shown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.arrow.to_pylist())

    def __getitem__(self, number: int) -> dict[str, Any]:
        rows: list[dict[str, Any]] = self.arrow.slice(range(len(self))[number], 1).to_pylist()
        return rows[0]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.arrow.__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(self.arrow.column_names)

    def to_pandas(self) -> Any:
        """As a data frame of pandas, which must be installed."""
        return self.arrow.to_pandas()

    def __repr__(self) -> str:
        head, *cells = self._cells()
        widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (head, *cells)
        ]
        return "\n".join([*lines, *self._footnotes()])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        head, *cells = self._cells()
        notes = "".join(f"<p class=dim>{html.escape(line)}</p>" for line in self._footnotes())
        text = f"{STYLE}<div class=xlasw>{table_html(head, cells)}{notes}</div>"
        return {"text/plain": repr(self), "text/html": text}

    def _cells(self) -> list[list[str]]:
        names = [name for name in self.shown if name in self.columns] or list(self.columns)
        rows = self.arrow.select(names).slice(0, SHOWN_ROWS).to_pylist()
        return [names, *([text_of(row[name]) for name in names] for row in rows)]

    def _footnotes(self) -> list[str]:
        more = len(self) - SHOWN_ROWS
        return [*([f"and {more} more rows"] if more > 0 else []), *self.notes]


def of_rows(rows: Sequence[Mapping[str, Any]], notes: Sequence[str] = ()) -> Table:
    """A table of rows as plain data."""
    import pyarrow

    return Table(pyarrow.Table.from_pylist(list(rows)), notes=tuple(notes))


def table_html(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as HTML; every text is escaped."""
    titles = "".join(f"<th>{html.escape(title)}</th>" for title in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def text_of(value: object) -> str:
    """A value as it is shown; figures with four digits."""
    if value is None:
        return "—"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
