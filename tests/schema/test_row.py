"""Columns of comparison rows: documented, and of one type each."""

from __future__ import annotations

import os
from dataclasses import replace

from changed_rows import with_columns
from factories import make_record
from paths import ROOT

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.row import COLUMNS, row_dict, row_of

BEGIN, END = (f"<!-- columns: {word} -->" for word in ("begin", "end"))


def columns_markdown() -> str:
    """The table of columns in docs/results.md."""
    lines = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{column.name}` | {column.kind.__name__} | {column.unit} | {column.meaning} |"
        for column in COLUMNS.values()
    ]
    return "\n".join(lines)


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
    row = summarize([make_record({"graph": 0.2, "xla": 0.1}, noise=0.01)]).comparisons[0]
    assert list(COLUMNS) == list(row_dict(row))
    assert row_of(row_dict(row)) == row
    assert with_columns(row, speedup=2.0).speedup.value == 2.0
    assert all(column.meaning for column in COLUMNS.values())
    texts: dict[str, type] = dict.fromkeys(("model", "verdict", "flags"), str)
    kinds = {**texts, "headline": bool, "replicates": int, "speedup": float, "params": int}
    assert {name: COLUMNS[name].kind for name in kinds} == kinds


def test_a_flag_in_a_row_is_its_word_without_the_note() -> None:
    (row, *_) = summarize([make_record({"graph": 0.2, "xla": 0.1})]).comparisons
    told = replace(row, flags=("no_float64_reference: it has a dropout layer", "drift"))
    assert row_of(row_dict(told)).flags == ("no_float64_reference", "drift")
