"""Columns that the page's data has, and its script does not compute."""

from __future__ import annotations

import gzip
import json
import math
from typing import Any

from dashboard_page import table_of
from synthetic_rows import base_row, compared

from xla_sweeps.report.dashboard import build
from xla_sweeps.report.dashboard.derived import with_derived


def test_images_to_break_even_are_infinite_for_never_and_missing_where_it_is_open() -> None:
    costs = {"compile_s_extra": 9.0, "break_even_calls": 10.0, "batch_size": 4, "samples": 4}
    rows = [
        base_row(**costs) | compared(100.0, 150.0, 0.01),
        base_row(**{**costs, "break_even_calls": None}) | compared(100.0, 50.0, 0.01),
        base_row(**costs) | compared(100.0, 101.0, 0.2) | {"verdict": "ambiguous"},
    ]
    images = with_derived(table_of(rows))["break_even_images"].to_pylist()
    assert images[:2] == [40.0, math.inf]
    assert math.isnan(images[2])
    assert math.isinf(
        build._rounded(with_derived(table_of(rows))["break_even_images"].to_numpy()).view("<f4")[1]
    )


def test_a_suffix_tells_rows_of_one_name_apart_by_the_plainest_column() -> None:
    same = base_row(trial_id="0" * 16, effort="quick", results="A") | compared(100.0, 150.0, 0.01)
    changes: tuple[dict[str, Any], ...] = (
        {"modes": "eager,graph,xla"},
        {"modes": "graph,xla"},
        {"effort": "standard"},
        {"trial_id": "f" * 16, "effort": "standard"},
        {"results": "B"},
        {"model": "another"},
        {"runtime": "xla_flags.x=1"},
    )
    table = with_derived(table_of([same | change for change in changes]))
    assert table["suffix"].to_pylist() == [
        " · A · quick · eager,graph,xla",
        " · A · quick · graph,xla",
        " · A · standard · 00000000",
        " · A · standard · ffffffff",
        " · B",
        "",
        " · A · xla_flags.x=1",
    ]
    assert set(table["suffix_asked"].to_pylist()) == {"", " · xla_flags.x=1"}


def test_devices_have_short_names_in_the_data() -> None:
    rows = [base_row(device="AMD EPYC 9654 96-Core Processor") | compared(100.0, 150.0, 0.01)]
    raw = gzip.decompress(build.pack(table_of(rows), {}))
    header = json.loads(raw[4 : 4 + int.from_bytes(raw[:4], "little")])
    assert header["short"] == {"AMD EPYC 9654 96-Core Processor": "EPYC 9654"}
