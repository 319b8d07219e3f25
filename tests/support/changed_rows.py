"""Rows with other values in some columns."""

from __future__ import annotations

from typing import Any

from xla_sweeps.schema.row import COLUMNS, ComparisonRow, row_dict, row_of


def with_columns(row: ComparisonRow, **changes: Any) -> ComparisonRow:
    """The row with other values in these columns."""
    unknown = changes.keys() - COLUMNS.keys()
    if unknown:
        raise ValueError(f"no column {', '.join(sorted(unknown))}")
    return row_of({**row_dict(row), **changes})
