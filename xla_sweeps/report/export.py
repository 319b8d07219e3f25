"""Rows as CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xla_sweeps.errors import StoreError
from xla_sweeps.results import table
from xla_sweeps.schema.row import ComparisonRow


def write_text(text: str, output: Path | None) -> None:
    """To a file, or to standard output.

    Raises:
        StoreError: the file cannot be written.
    """
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {output}: {error.strerror or error}") from error


def csv_text(documents: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """CSV with stable columns.

    Texts that a spreadsheet would take for a formula are quoted with an apostrophe.
    """
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    for document in documents:
        writer.writerow(
            {
                key: f"'{value}"
                if isinstance(value, str) and value[:1] in ("=", "+", "-", "@")
                else value
                for key, value in document.items()
            }
        )
    return buffer.getvalue()


def write_parquet(rows: Sequence[ComparisonRow], output: Path) -> None:
    """Rows as a Parquet file.

    Raises:
        StoreError: it cannot be written.
    """
    import pyarrow.parquet

    try:
        pyarrow.parquet.write_table(table.table_of(rows), output)
    except OSError as error:
        raise StoreError(f"cannot write {output}: {error.strerror or error}") from error
