"""Figures as people read them, and labels that distinguish rows with equal columns."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence

from xla_sweeps.schema.row import COLUMNS, QUESTION, ComparisonRow, value_of

NONE = "—"
"""Shown where there is no figure."""

TELLING = (
    *QUESTION,
    *("effort", "modes", "software", "driver", "environment_flags", "host", "trial_id"),
)
"""Columns that distinguish trials of one model and size, the plainest first."""

ID_CHARACTERS = 8

DEVICE_CHARACTERS = 18

CHARACTERS = 80
"""Maximum length of any other value: the variables of a machine may fill pages."""


def number(value: float | None) -> str:
    """A number with three or four significant digits."""
    if value is None or not math.isfinite(value):
        return NONE
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def times(value: float | None) -> str:
    """A ratio, such as a speedup."""
    return NONE if value is None else f"{value:.2f}×"


def interval(
    low: float | None, high: float | None, show: Callable[[float], str] = "{:.2f}".format
) -> str:
    """Both bounds, with "to" between them where the lower one is negative."""
    if low is None or high is None:
        return NONE
    return f"{show(low)}{' to ' if low < 0 else '–'}{show(high)}"


def short_device(name: str) -> str:
    """A device's name without its maker and the words that all of its kind have."""
    name = re.sub(r"^(NVIDIA|AMD|Intel\(R\)|Tesla|GeForce)\s+", "", name, flags=re.IGNORECASE)
    name = re.sub(r"(\s+\d+-Core)?\s+(CPU|Processor).*$", "", name, flags=re.IGNORECASE)
    return name if len(name) <= DEVICE_CHARACTERS else f"{name[: DEVICE_CHARACTERS - 1]}…"


def listed(words: Sequence[str]) -> str:
    """The words with commas and an "and": `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def distinctions(rows: Sequence[ComparisonRow], shown: Sequence[str]) -> list[str]:
    """Facts that each row needs beside the shown columns, such as `standard · graph,xla`, or "".

    Args:
        rows: rows of one table.
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
