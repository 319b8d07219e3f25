"""Columns of comparison rows: documented, and of one type each."""

from __future__ import annotations

import re
from dataclasses import fields

from paths import ROOT

from xla_sweeps.schema.row import ComparisonRow


def test_every_column_is_documented_once_in_order_and_nothing_else() -> None:
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    table = text.partition("| column | unit | meaning |")[2].partition("\n\n")[0]
    named = [
        name
        for line in table.splitlines()
        for name in re.findall(r"`(\w+)`", line.partition(" | ")[0])
    ]
    assert sorted(named) == sorted(field.name for field in fields(ComparisonRow))
    assert len(set(named)) == len(named)


def test_columns_have_one_plain_type_each() -> None:
    kinds = ComparisonRow.columns()
    assert list(kinds) == [field.name for field in fields(ComparisonRow)]
    assert {
        name: kinds[name]
        for name in ("model", "headline", "replicates", "speedup", "verdict", "flags", "params")
    } == {
        "model": str,
        "headline": bool,
        "replicates": int,
        "speedup": float,
        "verdict": str,
        "flags": str,
        "params": int,
    }
