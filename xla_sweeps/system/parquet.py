"""Check the size that a Parquet file states, before any of it is unpacked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.parquet

ROWS_OF_TRIAL = 144
"""More than the pairs of the modes that a trial may compare."""

MIN_ROWS = 100_000
"""Number that is always accepted: trials may have been removed."""

ROW_BYTES = 4096


def check_size(metadata: pyarrow.parquet.FileMetaData, trials: int) -> None:
    """Refuse a file that states more rows than this number of trials can have.

    Raises:
        ValueError: it does, or states more bytes than such rows need.
    """
    rows = max(MIN_ROWS, ROWS_OF_TRIAL * trials)
    values, size = [0] * metadata.num_columns, 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index in range(metadata.num_columns):
            column = group.column(index)
            values[index] += column.num_values
            size += column.total_uncompressed_size
    most = max(metadata.num_rows, *values)
    if most > rows or size > rows * ROW_BYTES:
        raise ValueError(
            f"holds {most:,} rows and {size / 2**20:,.0f} MiB unpacked, more than {trials:,} "
            "trials can have"
        )
