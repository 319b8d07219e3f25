"""The packed form: its bytes, its precision, and unusual texts and numbers."""

from __future__ import annotations

import gzip
import json
import math
import struct
from typing import Any

import pyarrow
import pytest
from dashboard_data import unpack
from hypothesis import given, settings
from hypothesis import strategies as some

from xla_sweeps.report.dashboard.build import pack

LARGEST = 3.4e38
"""From about here a number no longer fits 32 bits."""

SMALLEST = 1.2e-38


def table(**columns: list[Any]) -> pyarrow.Table:
    """Columns of texts and of numbers; None for no number."""
    kinds = {"x": pyarrow.float64(), "word": pyarrow.string()}
    return pyarrow.table(
        {name: pyarrow.array(cells, kinds[name]) for name, cells in columns.items()}
    )


def test_the_layout_is_fixed() -> None:
    packed = pack(table(word=["xla", "graph", "xla"], x=[1.0, -2.5, None]), {"title": "t"})
    raw = gzip.decompress(packed)
    (length,) = struct.unpack("<I", raw[:4])
    assert length % 4 == 0, "the arrays begin at a multiple of their items' size"
    assert json.loads(raw[4 : 4 + length]) == {
        "rows": 3,
        "columns": [{"name": "word", "values": ["xla", "graph"]}, {"name": "x"}],
        "meta": {"title": "t"},
    }
    assert raw[4 + length :] == struct.pack("<3I2fI", 0, 1, 0, 1.0, -2.5, 0x7FC00000)
    assert packed[4:8] == b"\0\0\0\0", "no time of writing: the same rows give the same file"


@given(some.lists(some.none() | some.floats(allow_nan=False, allow_infinity=False, width=64)))
def test_numbers_are_packed_with_four_and_a_half_digits(values: list[float | None]) -> None:
    columns, _ = unpack(pack(table(x=values), {}))
    for value, restored in zip(values, columns["x"], strict=True):
        if value is None or abs(value) > 1.01 * LARGEST:
            assert restored is None
        elif abs(value) >= LARGEST:
            assert restored is None or restored == pytest.approx(value, rel=2**-15)
        elif abs(value) >= SMALLEST:
            assert restored == pytest.approx(value, rel=2**-16 + 2**-23, abs=0)
        else:
            assert restored == pytest.approx(0.0, abs=2 * SMALLEST)


@settings(max_examples=30)
@given(some.lists(some.text(some.characters(codec="utf-8"))))
def test_any_text_is_unpacked_unchanged(values: list[str]) -> None:
    columns, meta = unpack(pack(table(word=values), {"words": values}))
    assert columns["word"] == values
    assert meta["words"] == values


def test_small_whole_numbers_are_exact() -> None:
    values = [float(number) for number in range(65_537)]
    columns, _ = unpack(pack(table(x=values), {}))
    assert columns["x"] == values


def test_a_lone_surrogate_does_not_break_the_page() -> None:
    """A file name that is no UTF-8 reaches Python with lone surrogates."""
    columns, meta = unpack(pack(table(word=["c"]), {"problems": ["a\udce9b"]}))
    assert columns == {"word": ["c"]}
    (problem,) = meta["problems"]
    assert problem.startswith("a")
    assert problem.endswith("b")


def test_no_rows_and_no_columns_are_packed_too() -> None:
    assert unpack(pack(table(), {"a": None})) == ({}, {"a": None})
    assert unpack(pack(table(x=[], word=[]), {})) == ({"x": [], "word": []}, {})


def test_numbers_too_large_for_the_page_are_packed_as_missing() -> None:
    numbers = [math.inf, -math.inf, 1e300, 3.4028234e38, 0.0, -0.0]
    columns, _ = unpack(pack(table(x=numbers), {}))
    assert columns["x"] == [math.inf, -math.inf, None, None, 0.0, -0.0]


def test_values_that_json_lacks_are_refused_in_the_metadata() -> None:
    with pytest.raises(ValueError, match="JSON"):
        pack(table(), {"x": math.nan})
