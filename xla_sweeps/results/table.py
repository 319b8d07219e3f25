"""Comparison rows as a column table, with stable types: for Parquet, the page, and the rows kept beside the records.

The only place that knows how a row's fields are typed outside Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from xla_sweeps.schema.row import ComparisonRow

if TYPE_CHECKING:  # takes longer to import than many a command to run
    import pyarrow


@cache
def schema() -> pyarrow.Schema:
    """The columns of a row in their order, with types that do not depend on what the rows hold."""
    import pyarrow

    kinds = {
        str: pyarrow.string(),
        bool: pyarrow.bool_(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
    }
    return pyarrow.schema([(name, kinds[kind]) for name, kind in ComparisonRow.columns().items()])


def table_of(rows: Sequence[ComparisonRow]) -> pyarrow.Table:
    """Rows as a table; flags are one text, joined by spaces."""
    import pyarrow

    wanted = schema()
    columns = {name: [getattr(row, name) for row in rows] for name in wanted.names}
    columns["flags"] = [" ".join(flags) for flags in columns["flags"]]
    for name in ("verdict", "status"):
        columns[name] = [str(word) for word in columns[name]]
    return pyarrow.table(columns, schema=wanted)


def rows_of(table: pyarrow.Table) -> list[ComparisonRow]:
    """The rows of a table that `table_of` made."""
    from xla_sweeps.schema.measurement import Status
    from xla_sweeps.schema.row import Verdict

    rows = []
    for document in table.select(schema().names).to_pylist():
        document["flags"] = tuple(document["flags"].split())
        document["verdict"], document["status"] = (
            Verdict(document["verdict"]),
            Status(document["status"]),
        )
        rows.append(ComparisonRow(**document))
    return rows


def joined(tables: Iterable[pyarrow.Table]) -> pyarrow.Table:
    """Tables one after the other, an empty one for none."""
    import pyarrow

    parts = list(tables)
    return pyarrow.concat_tables(parts) if parts else schema().empty_table()
