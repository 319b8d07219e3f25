"""Labels that tell rows apart that would look alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from xla_sweeps.schema.row import COLUMNS, QUESTION, ComparisonRow, value_of

TELLING = (
    *QUESTION,
    *("effort", "modes", "software", "driver", "environment_flags", "host", "trial_id"),
)
"""Columns that tell trials of one model and size apart, the plainest first."""

ID_CHARACTERS = 8

CHARACTERS = 80
"""Of any other value: one machine's variables may fill pages."""


def distinctions(rows: Sequence[ComparisonRow], shown: Sequence[str]) -> list[str]:
    """What each row needs beside the columns that are shown, or "": `standard · graph,xla`.

    Args:
        rows: that stand in one table.
        shown: columns of the table.
    """
    alike: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        alike[tuple(value_of(row, name) for name in shown)].append(index)
    labels = [""] * len(rows)
    for group in alike.values():
        chosen: dict[int, tuple[str, ...]] = dict.fromkeys(group, ())
        for name in TELLING:
            end = ID_CHARACTERS if name == "trial_id" else CHARACTERS
            values = {index: _written(rows[index], name)[:end] for index in group}
            if len(set(chosen.values())) < len(group) and len(set(values.values())) > 1:
                chosen = {index: (*chosen[index], values[index]) for index in group}
        for index, facts in chosen.items():
            labels[index] = " · ".join(filter(None, facts))
    return labels


def _written(row: ComparisonRow, name: str) -> str:
    asked, value = COLUMNS[name].asked, value_of(row, name)
    return asked.write(value) if asked else str(value)
