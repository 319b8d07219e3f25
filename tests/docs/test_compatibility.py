"""The compatibility table in docs/: complete, and consistent with the catalog."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

from xla_sweeps.analysis.compatibility import COLUMNS
from xla_sweeps.config import catalog
from xla_sweeps.report.compatibility import markdown_text

DOCS = ROOT / "docs"

ENTRIES = catalog.load_catalog()

Rows = dict[tuple[str, str], dict[str, Any]]


def rows_of(path: Path) -> Rows:
    """The table's rows by model and source; speedups are numbers, all else is text."""
    with path.open(encoding="utf-8") as stream:
        rows: list[dict[str, Any]] = list(csv.DictReader(stream))
    for row in rows:
        row |= {key: float(row[key]) for key in row if key.startswith("speedup") and row[key]}
    return {(row["model"], row["source"]): row for row in rows}


ROWS = rows_of(DOCS / "compatibility.csv")

NATIVE = rows_of(ROOT / "benchmarks" / "results" / "native_sizes.csv")
"""Parameters and multiply-accumulates at up to 384 px, which are published for native sizes."""


def test_the_table_has_no_model_that_the_catalog_lacks() -> None:
    assert set(ROWS) <= {
        (name, source) for name, entry in ENTRIES.items() for source in entry.sources
    }


def test_the_page_and_the_table_are_what_the_command_writes() -> None:
    text = (DOCS / "compatibility.md").read_text(encoding="utf-8")
    assert markdown_text(list(ROWS.values())) in text
    assert {tuple(row) for row in ROWS.values()} == {(*COLUMNS, "rmse_rel")}


def scale(model: str, source: str) -> float:
    """Ratio of the native image's pixels to those of the measured one."""
    return (ENTRIES[model].resolution / int(NATIVE[model, source]["resolution_px"])) ** 2


WITH_MACS = {
    key: published
    for key, row in NATIVE.items()
    if row["macs"]
    and (published := ENTRIES[key[0]].published_in(key[1]))
    and published.gmacs is not None
    # Convolutions alone scale with area, where both sizes are multiples of the stride.
    if scale(*key) == 1 or ENTRIES[key[0]].family == "YOLOv8"
}

WITH_PARAMS = {
    key: published
    for key, row in NATIVE.items()
    # Positions are parameters too, where there are some.
    if row["params"] and (published := ENTRIES[key[0]].published_in(key[1])) and scale(*key) == 1
}


def test_most_of_the_table_is_compared_with_what_is_published() -> None:
    assert len(WITH_MACS) >= 150
    assert len(WITH_PARAMS) >= 225


def test_multiply_accumulates_are_the_published_ones_or_a_note_says_why_not() -> None:
    for key, published in WITH_MACS.items():
        counted = scale(*key) * int(NATIVE[key]["macs"]) / 1e9
        assert counted == pytest.approx(published.gmacs, rel=0.03) or published.gmacs_note, (
            f"{key}: {counted:.3f} G instead of {published.gmacs} G, and no note says why"
        )


def test_a_models_size_is_the_same_in_every_source_to_within_what_is_published() -> None:
    for key, published in WITH_PARAMS.items():
        printed = 10.0 ** -len(f"{published.params_million:g}".partition(".")[2])
        tolerance = max(0.02 * published.params_million, printed)
        built = int(NATIVE[key]["params"]) / 1e6
        is_equal = built == pytest.approx(published.params_million, abs=tolerance)
        assert is_equal or published.params_note, (key, built)
