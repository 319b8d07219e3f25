"""Rows as data frames, text and HTML: `to_pandas()`, or `polars.DataFrame(table)` and the like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xla_sweeps.api.border import refusing
from xla_sweeps.errors import unknown_name
from xla_sweeps.report.figures import NONE
from xla_sweeps.schema.row import COLUMNS
from xla_sweeps.system.installation import install
from xla_sweeps.system.text import count_noun

if TYPE_CHECKING:  # slow to import
    import pyarrow

SHOWN = (
    *("model", "device", "resolution_px", "batch_size", "scenario", "precision", "tf32"),
    *("candidate", "baseline", "speedup", "speedup_low", "speedup_high", "verdict", "status"),
)
"""Columns of rows that are shown; a data frame has all."""

_IF_UNUSUAL = ("scenario", "precision", "tf32")
"""Columns that are shown where a row has another value than the usual one."""

SHOWN_ROWS = 40


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

    def to_pandas(self, columns: str = "all") -> Any:
        """Convert to a data frame of pandas, which must be installed; `short` has what is shown."""
        hint = f"{install('pandas')}, or use polars.DataFrame()"
        with refusing("to_pandas: no data frame", hint):
            if columns not in ("all", "short"):
                raise unknown_name("columns", str(columns), ("all", "short"))
            return (
                self.arrow.select(self._short) if columns == "short" else self.arrow
            ).to_pandas()

    def plot(self, path: str | Path = "speedups.svg") -> Path:
        """Save the sorted speedups of rows of results as an SVG; an error where there are none."""
        from xla_sweeps.report.export import write_chart
        from xla_sweeps.store.table import rows_of

        with refusing("plot: expected rows of results and the path of a file"):
            return write_chart(rows_of(self.arrow), Path(path))

    def __repr__(self) -> str:
        from xla_sweeps.report.terminal.notebook import rows_text

        return rows_text(self._cells(), self._footnotes())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        from xla_sweeps.report.terminal.notebook import rows_html

        page = rows_html(self._cells(), self._footnotes())
        return {"text/plain": repr(self), "text/html": page}

    @property
    def _short(self) -> list[str]:
        """Names of the columns that are shown."""
        return [name for name in self.shown if name in self.columns] or list(self.columns)

    def _cells(self) -> list[list[str]]:
        """Lines of the first rows, below their headings."""
        names = self._short
        rows = self.arrow.select(names).slice(0, SHOWN_ROWS).to_pylist()
        usual = {name: asked.usual for name in _IF_UNUSUAL if (asked := COLUMNS[name].asked)}
        same = [
            name
            for name in usual
            if self.shown and all(str(row.get(name)) == usual[name] for row in rows)
        ]
        if self.shown and len({row.get("device") for row in rows}) < 2:
            same.append("device")
        names = [name for name in names if name not in same]
        return [names, *([_cell(row[name]) for name in names] for row in rows)]

    def _footnotes(self) -> list[str]:
        more = len(self) - SHOWN_ROWS
        return [*([f"and {count_noun(more, 'more row')}"] if more > 0 else []), *self.notes]


def of_rows(rows: Sequence[Mapping[str, Any]], notes: Sequence[str] = ()) -> Table:
    """A table of rows as plain data."""
    import pyarrow

    return Table(pyarrow.Table.from_pylist(list(rows)), notes=tuple(notes))


def _cell(value: object) -> str:
    """A value as it is shown; figures with four digits."""
    if value is None:
        return NONE
    return f"{value:.4g}" if isinstance(value, float) else str(value)
