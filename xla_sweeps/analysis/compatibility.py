"""Count the trials whose candidate compiles, agrees with eager and is faster. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status

CHECK = "check"
"""The effort of trials that are measured for this."""

COLUMNS = (
    *("model", "source", "resolution_px", "params", "macs", "candidate", "baseline", "status"),
    *("verdict", "speedup", "speedup_low", "speedup_high", "compile_s", "failure_message"),
)
"""Columns of `results` that are shown of each trial."""

NEEDED = (*COLUMNS, "failed_mode")

AGREEING = (Status.OK, Status.CONTAMINATED)

COMPILED = (*AGREEING, Status.WRONG_RESULT, Status.UNVERIFIABLE, Status.NONDETERMINISTIC)

REFUSED = (Status.UNSUPPORTED_OP, Status.DYNAMIC_SHAPE, Status.TRACE_ERROR, Status.COMPILE_ERROR)
"""Statuses of a mode that cannot be compiled; of any other failure that is not known."""

Row = Mapping[str, Any]
"""A headline row by column, of `NEEDED` at least."""


def with_own_status(row: Row) -> dict[str, Any]:
    """The row with the status of its candidate: that of a row may be the baseline's."""
    failed = row["failed_mode"]
    ran = failed != row["candidate"] and (not failed or row["compile_s"] is not None)
    return {**row, "status": str(Status.OK if ran else row["status"])}


def rank(row: Row) -> int:
    """Place of what is wrong: 0 refused, 1 not known, 2 differs, 3 slower, 4 nothing."""
    problems = (
        row["status"] in REFUSED,
        row["status"] not in COMPILED,
        row["status"] not in AGREEING,
        row["verdict"] == Verdict.SLOWER,
    )
    return (*problems, True).index(True)


def counts_of(rows: Sequence[Row]) -> Counter[str]:
    """Number of rows by verdict, and of those that `compile`, `agree` or are `refused`."""
    counts = Counter(str(row["verdict"]) for row in rows)
    counts["compile"] = sum(row["status"] in COMPILED for row in rows)
    counts["agree"] = sum(row["status"] in AGREEING for row in rows)
    counts["refused"] = sum(row["status"] in REFUSED for row in rows)
    return counts
