"""The compatibility table in docs/: complete, and consistent with the catalog."""

from __future__ import annotations

import csv

import pytest
from paths import ROOT

from xla_sweeps.config import catalog

DOCS = ROOT / "docs"

ENTRIES = catalog.load_catalog()

with (DOCS / "compatibility.csv").open(encoding="utf-8") as stream:
    ROWS = {(row["model"], row["source"]): row for row in csv.DictReader(stream)}


def test_the_table_has_no_model_that_the_catalog_lacks() -> None:
    assert set(ROWS) <= {
        (name, source) for name, entry in ENTRIES.items() for source in entry.sources
    }


def test_the_page_is_written_from_the_table() -> None:
    page = (DOCS / "compatibility.md").read_text(encoding="utf-8")
    for (model, source), row in ROWS.items():
        assert f"\n## {source}\n" in page
        assert f"\n| {model} | {row['px']} | " in page
    assert "tensorflow 2." in page


@pytest.mark.parametrize(("model", "source"), [key for key, row in ROWS.items() if row["macs"]])
def test_multiply_accumulates_are_the_published_ones_or_a_note_says_why_not(
    model: str, source: str
) -> None:
    row, entry = ROWS[model, source], ENTRIES[model]
    published = entry.published_in(source)
    if published is None:
        return
    # Run smaller than native, convolutions alone scale with area where both sizes are multiples of
    # the stride.
    scale = (entry.resolution / int(row["px"])) ** 2
    if published.gmacs is None or (scale != 1 and entry.family != "YOLOv8"):
        return
    counted = scale * int(row["macs"]) / 1e9
    same = counted == pytest.approx(published.gmacs, rel=0.03)
    assert same or published.gmacs_note, (
        f"{counted:.3f} G instead of {published.gmacs} G, and no word why"
    )


@pytest.mark.parametrize(("model", "source"), [key for key, row in ROWS.items() if row["params"]])
def test_a_models_size_is_the_same_in_every_source_to_within_what_is_published(
    model: str, source: str
) -> None:
    row, entry = ROWS[model, source], ENTRIES[model]
    published = entry.published_in(source)
    if published is None:
        return
    if int(row["px"]) != entry.resolution:  # positions are parameters too, where there are some
        return
    printed = 10.0 ** -len(f"{published.params_million:g}".partition(".")[2])
    tolerance = max(0.02 * published.params_million, printed)
    assert (
        int(row["params"]) / 1e6 == pytest.approx(published.params_million, abs=tolerance)
        or published.params_note
    )
