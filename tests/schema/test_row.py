"""Columns of comparison rows: documented, and of one type each."""

from __future__ import annotations

import os
from dataclasses import fields

from paths import ROOT

from xla_sweeps.report.export import columns_markdown
from xla_sweeps.schema.row import COLUMNS, ComparisonRow

BEGIN, END = (f"<!-- columns: {word} -->" for word in ("begin", "end"))


def test_the_document_lists_every_column_as_it_is_declared() -> None:
    """`UPDATE_DOCS=1 scripts/test tests/schema` writes the table again."""
    path = ROOT / "docs" / "results.md"
    before, _, rest = path.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    table, _, after = rest.partition(f"\n{END}")
    if os.environ.get("UPDATE_DOCS"):
        table = columns_markdown()
        path.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    assert table == columns_markdown()


def test_every_column_has_a_meaning_and_one_plain_type() -> None:
    assert list(COLUMNS) == [field.name for field in fields(ComparisonRow)]
    assert all(column.meaning for column in COLUMNS.values())
    kinds = {
        "model": str,
        "headline": bool,
        "replicates": int,
        "speedup": float,
        "verdict": str,
        "flags": str,
        "params": int,
    }
    assert {name: COLUMNS[name].kind for name in kinds} == kinds
