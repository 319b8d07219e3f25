"""The packed form: its bytes, its precision, and unusual texts and numbers."""

from __future__ import annotations

import gzip
import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from dashboard_data import unpack
from hypothesis import given
from hypothesis import strategies as some

from xla_sweeps.report.dashboard.pack import Coded, pack

LARGEST = 3.4e38
"""From about here a number no longer fits 32 bits."""

SMALLEST = 1.2e-38


def floats(*values: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


def test_the_layout_is_fixed() -> None:
    """Pages of other versions read the same bytes: change the version, not the meaning."""
    packed = pack(
        {"mode": ["xla", "graph", "xla"], "speedup": floats(1.0, -2.5, math.nan)}, {"title": "t"}
    )
    raw = gzip.decompress(packed)
    (length,) = struct.unpack("<I", raw[:4])
    assert json.loads(raw[4 : 4 + length]) == {
        "version": 1,
        "rows": 3,
        "columns": [
            {"name": "mode", "kind": "category", "bytes": 1, "values": ["xla", "graph"]},
            {"name": "speedup", "kind": "number", "bytes": 3},
        ],
        "meta": {"title": "t"},
    }
    # 1.0 = 3f800000, -2.5 = c0200000, NaN = 7fc00000: the planes from the second lowest byte up.
    assert raw[4 + length :] == bytes([0, 1, 0]) + bytes.fromhex("0000008020c03fc07f")
    assert packed[4:8] == b"\0\0\0\0", "no time of writing: the same rows give the same file"


def test_a_column_that_comes_as_codes_is_packed_as_its_texts_would_be() -> None:
    coded = Coded(np.array([0, 1, 0, 2], np.int32), ["xla", "graph", ""])
    assert pack({"mode": coded}, {}) == pack({"mode": ["xla", "graph", "xla", ""]}, {})
    with pytest.raises(ValueError, match="different lengths"):
        pack({"mode": coded, "x": floats(1.0)}, {})


def test_the_codes_of_many_values_take_two_and_four_bytes() -> None:
    for count, width in ((256, 1), (257, 2), (65_536, 2), (65_537, 4)):
        values = [str(number) for number in range(count)]
        packed = pack({"word": values, "last": floats(*[0.0] * (count - 1), 7.0)}, {})
        raw = gzip.decompress(packed)
        (length,) = struct.unpack("<I", raw[:4])
        assert json.loads(raw[4 : 4 + length])["columns"][0]["bytes"] == width
        assert len(raw) == 4 + length + (width + 3) * count
        columns, _ = unpack(packed)
        assert columns["word"] == values
        assert columns["last"][-1] == 7.0


@given(some.lists(some.none() | some.floats(allow_nan=False, allow_infinity=False, width=64)))
def test_numbers_are_packed_with_four_and_a_half_digits(values: list[float | None]) -> None:
    column = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    columns, _ = unpack(pack({"x": column}, {}))
    for value, restored in zip(values, columns["x"], strict=True):
        if value is None or abs(value) > 1.01 * LARGEST:
            assert restored is None
        elif abs(value) >= LARGEST:
            assert restored is None or restored == pytest.approx(value, rel=2**-15)
        elif abs(value) >= SMALLEST:
            assert restored == pytest.approx(value, rel=2**-16 + 2**-23, abs=0)
        else:
            assert restored == pytest.approx(0.0, abs=2 * SMALLEST)


@given(some.lists(some.text(some.characters(codec="utf-8"))))
def test_any_text_is_unpacked_unchanged(values: list[str]) -> None:
    columns, meta = unpack(pack({"word": values}, {"words": values}))
    assert columns["word"] == values
    assert meta["words"] == values


def test_small_whole_numbers_are_exact() -> None:
    values = [float(number) for number in range(65_537)]
    columns, _ = unpack(pack({"x": floats(*values)}, {}))
    assert columns["x"] == values


def test_a_lone_surrogate_does_not_break_the_page() -> None:
    """A file name that is no UTF-8 reaches Python with lone surrogates."""
    columns, meta = unpack(pack({"log": ["a\udce9b", "c"]}, {"problems": ["\ud800"]}))
    assert columns["log"][0].startswith("a")
    assert columns["log"][0].endswith("b")
    assert columns["log"][1] == "c"
    assert len(meta["problems"]) == 1


def test_no_rows_and_no_columns_are_packed_too() -> None:
    assert unpack(pack({}, {"a": None})) == ({}, {"a": None})
    assert unpack(pack({"x": floats(), "word": []}, {})) == ({"x": [], "word": []}, {})


def test_infinite_and_too_large_numbers_are_packed_as_missing() -> None:
    columns, _ = unpack(
        pack({"x": floats(math.inf, -math.inf, 1e300, 3.4028234e38, 0.0, -0.0)}, {})
    )
    assert columns["x"] == [None, None, None, None, 0.0, 0.0]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        pack({"x": floats(1.0), "word": []}, {})


def test_values_that_json_lacks_are_refused_in_the_metadata() -> None:
    with pytest.raises(ValueError, match="JSON"):
        pack({}, {"x": math.nan})
