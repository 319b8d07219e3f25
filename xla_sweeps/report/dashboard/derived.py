"""Columns of the page that no filter changes, computed from its other columns. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xla_sweeps.report.labels import TELLING, told_apart
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.row import QUESTION

if TYPE_CHECKING:
    import pyarrow

_NAMED_BY = (
    *("model", "resolution_px", "batch_size", "precision", "device", "candidate", "baseline"),
    "scenario",
)
"""Columns of a row's name, and the scenario: the page shows one at a time."""

_TOLD_APART_BY = ("results", *TELLING[:-1], "measured_at", TELLING[-1])
"""Columns that tell rows of one name apart, the plainest first."""


DERIVED_TEXTS, DERIVED_NUMBERS = ("suffix", "suffix_asked"), ("break_even_images",)


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
        values = {name: table[name].to_pylist() for name in (*_NAMED_BY, *by)}
        told = [text and f" · {text}" for text in told_apart(values, _NAMED_BY, by)]
        table = table.append_column(column, pyarrow.array(told, pyarrow.string()))
    return table
