"""Pack rows into gzipped columns that a browser reads without parsing.

Layout, before gzip: the length of the header (4 bytes, little-endian), the header (JSON, UTF-8,
padded with blanks to a multiple of 4 bytes), then the columns in the header's order, 4 bytes a row:
codes into the header's `values`, or, of a column without them, 32-bit floats, NaN for none.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

KEPT_BITS = 15
"""Mantissa bits of a number, so that it compresses: a relative error of at most 2**-16."""

_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Coded:
    """A column of texts as codes into its values."""

    codes: npt.NDArray[np.integer[Any]]
    values: Sequence[Any]


Column = npt.NDArray[np.float64] | Coded


def pack(columns: Mapping[str, Column], meta: Mapping[str, Any], *, rows: int) -> bytes:
    """The columns and their metadata as gzipped bytes.

    Args:
        columns: by name, texts as codes; NaN for no number.
        meta: plain data for the header, under `meta`.
        rows: length of each column.
    """
    described: list[dict[str, Any]] = []
    content: list[bytes] = []
    for name, column in columns.items():
        if isinstance(column, Coded):
            described.append({"name": name, "values": list(column.values)})
            content.append(column.codes.astype("<u4").tobytes())
        else:
            described.append({"name": name})
            content.append(_rounded(column).tobytes())
    document = {"rows": rows, "columns": described, "meta": meta}
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A file name need not be UTF-8: its lone surrogates become question marks.
    header = text.encode(errors="replace")
    header += b" " * (-len(header) % 4)
    return gzip.compress(
        b"".join([len(header).to_bytes(4, "little"), header, *content]), _LEVEL, mtime=0
    )


def _rounded(column: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    """The bits of each value as a 32-bit float, rounded to the mantissa bits that are kept."""
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(column, dtype="<f4")
    dropped = 23 - KEPT_BITS
    bits = single.view("<u4")
    rounded = (bits + np.uint32(1 << (dropped - 1))) & ~np.uint32((1 << dropped) - 1)
    return np.where(np.isfinite(rounded.view("<f4")), rounded, np.uint32(0x7FC00000))
