"""Rows as data frames, text and HTML: `to_pandas()`, or `polars.DataFrame(table)` and the like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xla_sweeps.api.border import refusing
from xla_sweeps.errors import unknown_name
from xla_sweeps.report.figures import NONE
from xla_sweeps.system.installation import install
from xla_sweeps.system.text import count_noun

if TYPE_CHECKING:  # slow to import
    import pyarrow

SHORT = (
    *("model", "device", "resolution_px", "batch_size", "scenario", "precision", "tf32"),
    *("candidate", "baseline", "speedup", "speedup_low", "speedup_high", "verdict", "status"),
)
"""Columns of rows of results in a short data frame."""

SHOWN_ROWS = 40


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """Rows with named columns.

    Attributes:
        arrow: as a table of Arrow.
        short: columns of a short data frame; all for none.
        notes: caveats, and files that could not be used.
        lines: headings and cells to show in place of the columns, unless it is rows of results.
    """

    arrow: pyarrow.Table
    short: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    lines: Sequence[Sequence[str]] = ()

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

    def to_pandas(self, columns: str = "all") -> Any:
        """Convert to a data frame of pandas, which must be installed; `short` has the main ones."""
        hint = f"{install('pandas')}, or use polars.DataFrame()"
        with refusing("to_pandas: no data frame", hint):
            if columns not in ("all", "short"):
                raise unknown_name("columns", str(columns), ("all", "short"))
            return self.arrow.select(
                list(self.short) if columns == "short" and self.short else self.columns
            ).to_pandas()

    def plot(self, path: str | Path = "speedups.svg") -> Path:
        """Save the sorted speedups of rows of results as an SVG; an error where there are none."""
        from xla_sweeps.report.export import write_chart
        from xla_sweeps.store.table import rows_of

        with refusing("plot: expected rows of results and the path of a file"):
            return write_chart(rows_of(self.arrow), Path(path))

    def __repr__(self) -> str:
        from xla_sweeps.report.terminal.notebook import rows_text

        return rows_text(*self._cells())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        from xla_sweeps.report.terminal.notebook import rows_html

        return {"text/plain": repr(self), "text/html": rows_html(*self._cells())}

    def _cells(self) -> tuple[list[Sequence[str]], list[str]]:
        """Lines of the first rows, below their headings, and the notes below them."""
        first = self.arrow.slice(0, SHOWN_ROWS)
        notes: list[str] = []
        if self.short:
            from xla_sweeps.report.row_cells import table_of_rows
            from xla_sweeps.store.table import rows_of

            headings, cells, notes = table_of_rows(rows_of(first))
            lines: list[Sequence[str]] = [headings, *cells]
        else:
            plain = ([_cell(value) for value in row.values()] for row in first.to_pylist())
            lines = [*self.lines[: SHOWN_ROWS + 1]] or [self.columns, *plain]
        more = len(self) - SHOWN_ROWS
        notes += [f"and {count_noun(more, 'more row')}"] if more > 0 else []
        return lines, [*notes, *self.notes]


def _cell(value: object) -> str:
    """A value as it is shown; figures with four digits."""
    if value is None:
        return NONE
    return f"{value:.4g}" if isinstance(value, float) else str(value)
