"""The recipes of CONTRIBUTING.md for columns and rules, done in a copy of the package."""

from __future__ import annotations

import csv
import io
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from factories import make_record
from paths import ROOT
from programs import run_program

from xla_sweeps.store.store import Store

Edit = tuple[str, str]
"""A line of a file, and what stands in its place."""

COLUMN: Mapping[str, Edit] = {
    "schema/columns.py": (
        "    jit_compile: str = as_column(",
        '    trace_ms: float | None = as_number("tracing", unit="ms", figure="trace")\n'
        '    trace_low_ms: float | None = as_bound("lower")\n'
        '    trace_high_ms: float | None = as_bound("upper")\n'
        "    jit_compile: str = as_column(",
    ),
    "analysis/interval.py": ("BUILT_IN = {", 'BUILT_IN = {\n    "trace": (0.1, 0.1),'),
    "analysis/measured.py": (
        '            "prepare": [',
        '            "trace": [outcome.trace_s for outcome in outcomes],\n            "prepare": [',
    ),
}
RULE: Mapping[str, Edit] = {
    "analysis/interval.py": (
        "    variance = (worth * expected + (replicates - 1) * between) / freedom",
        "    variance = np.array([max(one.values) - min(one.values) for one in figures]) ** 2",
    ),
}


def rows_after(edits: Mapping[str, Edit], folder: Path) -> dict[str, str]:
    """The row of a kept trial, by a copy of the package with these edits."""
    shutil.copytree(
        ROOT / "xla_sweeps", folder / "xla_sweeps", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name, (before, after) in edits.items():
        path = folder / "xla_sweeps" / name
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, name
        path.write_text(text.replace(before, after), encoding="utf-8")
    for number in range(3):
        Store(folder / "results").save(make_record(noise=0.01, seed=number, replicate=number))
    own = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    words = ("-m", "xla_sweeps", "results", "--format", "csv")
    shown = run_program(sys.executable, *words, cwd=folder, more=own)
    (row,) = csv.DictReader(io.StringIO(shown.stdout))
    return row


@pytest.mark.parametrize(
    ("heading", "edits"),
    [("Add a column with an interval: three files", COLUMN), ("rule: one file", RULE)],
)
def test_a_recipe_names_the_files_that_it_takes(heading: str, edits: Mapping[str, Edit]) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = text.partition(heading)[2].partition("\n## ")[0]
    assert recipe
    named = dict.fromkeys(re.findall(r"`((?:schema|analysis)/\w+\.py)`", recipe))
    assert [*named] == [*edits]
    assert len(edits) == {"three files": 3, "one file": 1}[heading.partition(": ")[2]]


@pytest.mark.exhaustive
def test_three_files_make_a_column_with_an_interval_and_one_a_rule(tmp_path: Path) -> None:
    row = rows_after(COLUMN, tmp_path / "column")
    for side in ("", "baseline_"):
        low, value, high = (float(row[f"{side}trace_{end}ms"]) for end in ("low_", "", "high_"))
        assert value == pytest.approx(500)
        assert low < value < high
    other = rows_after(RULE, tmp_path / "rule")
    assert row["speedup"] == other["speedup"]
    assert (row["speedup_low"], row["call_low_ms"]) != (other["speedup_low"], other["call_low_ms"])
