"""`xla-sweeps compare`: two results folders against each other, shown or written, with an exit code for CI."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from xla_sweeps import analysis, difference, results
from xla_sweeps import where as filters
from xla_sweeps.difference import Difference
from xla_sweeps.errors import StoreError, unknown_name
from xla_sweeps.matching import Side
from xla_sweeps.terminal.differences import show_difference, show_failures

_COLUMNS = tuple(field.name for field in fields(difference.Change))


def between(first: Path, second: Path, *, where: str | None = None) -> Difference:
    """What changed from one results folder to another.

    Args:
        first: A, what is compared with.
        second: B, what is in question.
        where: a filter (`where.compile`); a trial is meant where any of its rows is.

    Raises:
        StoreError: a folder has no records, or nothing is in either that the filter means.
    """
    is_meant = filters.compile(where) if where is not None else None
    sides = []
    for folder, other in ((first, second), (second, first)):
        records, summaries = results.load(folder)
        if is_meant:
            summaries = {
                trial: summary
                for trial, summary in summaries.items()
                if any(is_meant(analysis.row_dict(row)) for row in summary.comparisons)
            }
        name = folder.resolve().name
        title = str(folder) if name == other.resolve().name else name
        sides.append(Side(title=title, records=records, summaries=summaries))
    if not any(side.summaries for side in sides):
        raise StoreError(f"compare: no trial of {first} or {second} fits --where {where}")
    return difference.difference_of(*sides)


def show(
    first: Path, second: Path, *, form: str, output: Path | None, fail_on: Sequence[str], where: str | None = None
) -> int:
    """Compare and show; exit code 1 where one of the conditions is met (`difference.FAIL_ON`)."""
    for condition in fail_on:
        if condition not in difference.FAIL_ON:
            raise unknown_name("condition of --fail-on", condition, difference.FAIL_ON)
    found = between(first, second, where=where)
    rows = [difference.change_dict(change) for change in found.changes]
    if form == "csv":
        results.write_text(results.csv_text(rows, _COLUMNS), output)
    elif form == "json" or output is not None:
        document = {**difference.as_section(found), "rows": rows, "notes": list(found.notes)}
        results.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", output)
    else:
        show_difference(found)
    met = difference.failures(found, fail_on)
    show_failures(met)
    return 1 if met else 0
