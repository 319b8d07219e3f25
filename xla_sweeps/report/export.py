"""Answers as text, JSON, CSV, Parquet and SVG."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.report.chart import speedup_chart
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.system.files import replace_whole
from xla_sweeps.system.text import displayable

if TYPE_CHECKING:
    import pyarrow


FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""Characters at whose sight a spreadsheet takes a cell for a formula; the last ones are wide."""


def write_text(text: str, output: Path | None) -> None:
    """Write to a file, as `replace`, or to standard output, where a terminal gets no controls."""
    if output is not None:
        replace(output, text.encode())
    elif sys.stdout.isatty():
        sys.stdout.write("".join(f"{displayable(line)}\n" for line in text.splitlines()))
    else:
        cast(Any, sys.stdout).reconfigure(encoding="utf-8")
        sys.stdout.write(text)


def write_json(document: object, output: Path | None) -> None:
    """Write data as JSON in ASCII, as `write_text`; a number that is not finite becomes null."""
    text = json.dumps(document, default=msgspec.to_builtins)
    finite = json.loads(text, parse_constant=lambda _: None)
    write_text(json.dumps(finite, indent=1) + "\n", output)


def require_writable(output: Path | None) -> None:
    """Refuse (StoreError) a file that cannot be written, before its content is computed."""
    if output is None:
        return
    if output.is_dir():
        raise StoreError(f"cannot write {output}: it is a folder")
    if not output.parent.is_dir():
        raise StoreError(f"cannot write {output}: there is no folder {output.parent}")
    device = output.exists() and not output.is_file()
    if not os.access(output if device else output.resolve().parent, os.W_OK):
        raise StoreError(f"cannot write {output}: Permission denied")


def csv_text(documents: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """CSV with stable columns; an apostrophe quotes what a spreadsheet would take for a formula."""
    lines = [",".join(columns)]
    lines += [",".join(_cell(document.get(name)) for name in columns) for document in documents]
    return "\n".join(lines) + "\n"


def write_parquet(table: pyarrow.Table, output: Path) -> None:
    """Write rows to a Parquet file, as `replace`."""
    import pyarrow.parquet

    buffer = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, buffer, store_schema=False)
    replace(output, buffer.getvalue())


def write_chart(rows: Sequence[ComparisonRow], output: Path) -> Path:
    """Save the sorted speedups of rows as an SVG file, as `replace`; returns its path.

    Raises:
        ConfigError: the file is to be no SVG, or no row has a speedup.
    """
    if output.suffix.lower() != ".svg":
        raise ConfigError(f"{output}: expected a file ending in .svg (rsvg-convert makes a PNG)")
    if not any(row.speedup.value for row in rows):
        raise ConfigError("no row has a speedup: measure a pair of modes first")
    replace(output, speedup_chart(rows).encode())
    return output


def replace(output: Path, content: bytes) -> None:
    """Replace a file whole, or write to a pipe or a device.

    Raises:
        StoreError: that fails; what a file held before is still there.
    """
    try:
        output.parent.stat()  # a folder that is missing may be a typing error
        if output.exists() and not output.is_file():
            output.write_bytes(content)  # a pipe or a device: there is nothing to keep
        else:
            replace_whole(output.resolve(), content)
    except OSError as error:
        raise StoreError(f"cannot write {output}: {error.strerror or error}") from error


def _cell(value: object) -> str:
    if not isinstance(value, str):
        return "" if value is None else str(value)
    text = f"'{value}" if value.startswith(FORMULAS) else value
    quoted = text.replace('"', '""')
    return f'"{quoted}"' if set(text) & set(',;"\r\n') else text
