"""Rows as data frames, text and HTML: `to_pandas()`, or `polars.DataFrame(table)` and the like."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from xla_sweeps.schema.row import COLUMNS, precision_words

if TYPE_CHECKING:  # slow to import
    import pyarrow

SHOWN = (
    *("model", "resolution_px", "batch_size", "scenario", "precision", "tf32"),
    *("candidate", "baseline", "speedup", "speedup_low", "speedup_high", "verdict", "status"),
)
"""Columns of rows that are shown; a data frame has all."""

_IF_UNUSUAL = ("scenario", "precision", "tf32")
"""Columns that are shown where a row has another value than the usual one."""

SHOWN_ROWS = 40

DRAWN_ROWS = 16

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


class Mark(NamedTuple):
    """One speedup in a picture; values above 1 are faster, None where nothing was measured."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    verdict: str

    @property
    def ends(self) -> tuple[float, float]:
        """The interval, or the value alone where there is none."""
        value = self.value or 1.0
        return self.low or value, self.high or value


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
        drawn = picture([_mark(row) for row in self.arrow.slice(0, DRAWN_ROWS).to_pylist()])
        text = f"{STYLE}<div class=xlasw>{table_html(head, cells)}{drawn}{notes}</div>"
        return {"text/plain": repr(self), "text/html": text}

    def _cells(self) -> list[list[str]]:
        names = [name for name in self.shown if name in self.columns] or list(self.columns)
        rows = self.arrow.select(names).slice(0, SHOWN_ROWS).to_pylist()
        usual = {name: asked.usual for name in _IF_UNUSUAL if (asked := COLUMNS[name].asked)}
        same = [
            name
            for name in usual
            if self.shown and all(str(row.get(name)) == usual[name] for row in rows)
        ]
        names = [name for name in names if name not in same]
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


def _mark(row: Mapping[str, Any]) -> Mark:
    """A row of comparisons as a mark; any other row has no value."""
    asked = f"{row.get('model')} {row.get('resolution_px')} px b{row.get('batch_size')}"
    ends = (row.get("speedup_low"), row.get("speedup_high"))
    words = precision_words(str(row.get("precision", "")), bool(row.get("tf32")))
    name = " ".join([asked, str(row.get("candidate")), *words])
    return Mark(name, row.get("speedup"), *ends, str(row.get("verdict")))


def picture(marks: Sequence[Mark]) -> str:
    """An SVG of each speedup with its interval, on a logarithmic axis around 1."""
    drawn = [mark for mark in marks if mark.value]
    if not drawn:
        return ""
    reach = max(0.02, *(abs(math.log(end)) for mark in drawn for end in mark.ends)) * 1.1

    def place(value: float) -> float:
        return 390 + 150 * math.log(value) / reach

    height = 20 * len(drawn) + 22
    parts = [
        f'<line x1="390" x2="390" y1="0" y2="{height - 18}" stroke="var(--line)"/>',
        f'<text x="390" y="{height - 4}" text-anchor="middle" fill="var(--dim)">1×</text>',
    ]
    colours = {"faster": "var(--up)", "slower": "var(--down)"}
    for number, mark in enumerate(drawn):
        (low, high), y = mark.ends, 20 * number + 12
        colour = colours.get(mark.verdict, "var(--dim)")
        parts += [
            f'<text x="0" y="{y + 4}" fill="var(--ink)">{html.escape(mark.name[:36])}</text>',
            f'<line x1="{place(low):.1f}" x2="{place(high):.1f}" y1="{y}" y2="{y}" '
            f'stroke="{colour}" stroke-width="3"/>',
            f'<circle cx="{place(mark.value or 1):.1f}" cy="{y}" r="4" fill="{colour}"/>',
            f'<text x="550" y="{y + 4}" fill="var(--ink)">{mark.value:.2f}×</text>',
        ]
    return (
        f'<svg width="600" height="{height}" role="img" font-size="12" '
        f'aria-label="speedups with 95 % intervals">{"".join(parts)}</svg>'
    )
