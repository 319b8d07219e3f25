"""The headline rows of made-up trials."""

from __future__ import annotations

from typing import Any

from changed_rows import with_columns
from factories import failed_outcome, make_outcome, make_record

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import ComparisonRow

TIMES = {"eager": 0.4, "graph": 0.2, "xla": 0.1}


def headline(records: list[Record]) -> ComparisonRow:
    """The first of the trial's rows, XLA against graph mode where both are measured."""
    return summarize(records).comparisons[0]


def row(speedup: float | None, **changes: Any) -> ComparisonRow:
    """XLA against graph mode with this speedup, or failed; `changes` are columns."""
    if speedup is None:
        modes = {"graph": make_outcome(0.2), "xla": failed_outcome(Status.UNSUPPORTED_OP)}
        made = summarize([make_record({"graph": 0.2}, modes=modes)]).comparisons[0]
    else:
        made = summarize(
            [make_record({"graph": 0.2, "xla": 0.2 / speedup}, noise=0.001)]
        ).comparisons[0]
    return with_columns(made, **changes)
