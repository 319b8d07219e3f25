"""Pack rows into gzipped columns that a browser unpacks without parsing.

Layout, before gzip: the length of the header (4 bytes, little-endian), the header (JSON, UTF-8),
    then the planes of each column in the header's order. Plane k holds byte k, from the lowest, of
    every value; like bytes compress well.

- `category`: unsigned codes of 1, 2 or 4 bytes into the header's `values`.
- `number`: 32-bit floats with the lower mantissa bits cleared (`KEPT_BITS`), NaN for none. The
  lowest plane, always zero, is left out: three planes.
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
"""Mantissa bits of a number: a relative error of at most 2**-16, four digits and a half."""

_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Coded:
    """A column of texts as codes into its values."""

    codes: npt.NDArray[np.integer[Any]]
    values: Sequence[Any]

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.codes)


Column = npt.NDArray[np.float64] | Coded | Sequence[Any]


def pack(columns: Mapping[str, Column], meta: Mapping[str, Any]) -> bytes:
    """The columns and their metadata as gzipped bytes.

    Args:
        columns: of equal length, by name; an array of floats is numeric (NaN: none), anything else
            is text.
        meta: plain data for the header, under `meta`.

    Raises:
        ValueError: columns of different lengths.
    """
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"columns of different lengths: {sorted(lengths)}")
    described: list[dict[str, Any]] = []
    planes: list[bytes] = []
    for name, column in columns.items():
        if isinstance(column, np.ndarray):
            described.append({"name": name, "kind": "number", "bytes": 3})
            planes.append(_number_planes(column))
        else:
            coded = column if isinstance(column, Coded) else _coded(column)
            codes, values = coded.codes, list(coded.values)
            width = 1 if len(values) <= 2**8 else 2 if len(values) <= 2**16 else 4
            described.append({"name": name, "kind": "category", "bytes": width, "values": values})
            planes.append(_planes(codes.astype("<u4"), range(width)))
    document = {
        "version": 1,
        "rows": lengths.pop() if lengths else 0,
        "columns": described,
        "meta": meta,
    }
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    header = text.encode(
        errors="replace"
    )  # a file name need not be UTF-8: its lone surrogates become question marks
    return gzip.compress(
        b"".join([len(header).to_bytes(4, "little"), header, *planes]), _LEVEL, mtime=0
    )


def _number_planes(column: npt.NDArray[np.float64]) -> bytes:
    """The three upper bytes of each value, rounded to the mantissa bits that are kept."""
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(column, dtype="<f4")
    dropped = 23 - KEPT_BITS
    bits = single.view("<u4")
    rounded = (bits + np.uint32(1 << (dropped - 1))) & ~np.uint32((1 << dropped) - 1)
    return _planes(
        np.where(np.isfinite(rounded.view("<f4")), rounded, np.uint32(0x7FC00000)), range(1, 4)
    )


def _planes(values: npt.NDArray[np.uint32], places: Sequence[int]) -> bytes:
    return b"".join(
        ((values >> np.uint32(8 * place)) & np.uint32(0xFF)).astype(np.uint8).tobytes()
        for place in places
    )


def _coded(column: Sequence[Any]) -> Coded:
    """Codes by first appearance, and the values in their order."""
    order: dict[Any, int] = {}
    codes = np.fromiter(
        (order.setdefault(value, len(order)) for value in column), np.uint32, len(column)
    )
    return Coded(codes, list(order))
