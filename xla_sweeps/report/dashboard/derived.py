"""Columns of the page that no filter changes, computed from its other columns. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xla_sweeps.report.labels import TELLING
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.row import COLUMNS, QUESTION

if TYPE_CHECKING:
    import pyarrow

_NAMED_BY = (
    *("model", "resolution_px", "batch_size", "precision", "device", "candidate", "baseline"),
    "scenario",
)
"""Columns of a row's name, and the scenario: the page shows one at a time."""

_TOLD_APART_BY = ("results", *TELLING[:-1], "measured_at", TELLING[-1])
"""Columns that tell rows of one name apart, the plainest first."""

_CUT = {"measured_at": 16, "trial_id": 8}
"""Characters that are shown of a column."""


def with_derived(table: pyarrow.Table) -> pyarrow.Table:
    """The table with `break_even_images`, `suffix` and `suffix_asked`.

    `break_even_images` is infinite where compiling never pays back, and missing where that is not
    known. `suffix` is what tells a row from those of the same name, "" if there are none;
    `suffix_asked` tells only questions apart, of which each is drawn once.
    """
    import pyarrow

    calls, extra, speedup, samples = (
        table[name].cast("float64").to_numpy()
        for name in ("break_even_calls", "compile_s_extra", "speedup", "samples")
    )
    is_open = np.array(table["verdict"].to_pylist()) == str(Verdict.AMBIGUOUS)
    unknown = np.isnan(speedup) | np.isnan(extra) | is_open
    needed = np.where(unknown, np.nan, np.where(np.isnan(calls), np.inf, calls * samples))
    table = table.append_column("break_even_images", pyarrow.array(needed))
    asked = [name for name in _TOLD_APART_BY if name in QUESTION]
    for column, by in (("suffix", _TOLD_APART_BY), ("suffix_asked", asked)):
        texts = pyarrow.array(_suffixes(table, by), pyarrow.string())
        table = table.append_column(column, texts)
    return table


def _suffixes(table: pyarrow.Table, by: Sequence[str]) -> list[str]:
    """For each row as much of these columns as tells it from those of the same name."""
    columns = {name: table[name].to_pylist() for name in _NAMED_BY}
    groups: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, key in enumerate(zip(*columns.values(), strict=True)):
        groups[key].append(place)
    suffixes = [""] * table.num_rows
    several = [group for group in groups.values() if len(group) > 1]
    for name in by if several else ():
        values = table[name].to_pylist()
        for group in several:
            alike: defaultdict[str, set[str]] = defaultdict(set)
            texts = {place: _written(name, values[place]) for place in group}
            for place, text in texts.items():
                alike[suffixes[place]].add(text)
            for place, text in texts.items():
                if text and len(alike[suffixes[place]]) > 1:
                    suffixes[place] += f" · {text}"
    return suffixes


def _written(name: str, value: Any) -> str:
    if isinstance(value, float):
        value = f"{value:g}"
    asked = COLUMNS[name].asked if name in COLUMNS else None
    text = asked.write(value) if asked else str(value or "")
    return text.replace("T", " ")[: _CUT[name]] if name in _CUT else text
