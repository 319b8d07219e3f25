"""Comparison rows of made-up pairs, and the sections of a report of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from changed_rows import with_columns
from factories import make_record

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report.wandb_report.text import sections
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import ComparisonRow

SWEEP: dict[str, Any] = {"gave_up": {}, "stopped": None, "results_dir": Path("r"), "again": "x"}
"""Arguments of `show_sweep` beside the rows and how many there are."""

(ROW,) = [
    row
    for row in summarize([make_record({"graph": 0.2, "xla": 0.1}, noise=0.01)]).comparisons
    if (row.baseline.mode, row.candidate.mode) == ("graph", "xla")
]


def pair(number: int = 1, speedup: float = 2.0, **changes: Any) -> ComparisonRow:
    """XLA against graph mode; `changes` are columns."""
    verdict = Verdict.FASTER if speedup > 1 else Verdict.SLOWER
    fields: dict[str, Any] = {
        "trial_id": f"{number:016x}",
        "model": f"net{number}",
        "speedup": speedup,
        "speedup_low": speedup * 0.99,
        "speedup_high": speedup * 1.01,
        "speedup_percent": 100 * (speedup - 1),
        "verdict": verdict,
        "throughput_samples_per_s": 100 * speedup,
        "throughput_low": 99 * speedup,
        "throughput_high": 101 * speedup,
    }
    return with_columns(ROW, **{**fields, **changes})


def failed(number: int, **changes: Any) -> ComparisonRow:
    """The same where XLA failed."""
    lost = (
        *("speedup", "speedup_low", "speedup_high", "speedup_percent", "throughput_low"),
        *("throughput_samples_per_s", "absolute_speedup_samples_per_s", "throughput_high"),
    )
    told = {
        "verdict": Verdict.FAILED,
        "status": Status.UNSUPPORTED_OP,
        "failed_mode": "xla",
        "failure_message": "no kernel",
    }
    return with_columns(pair(number), **{**dict.fromkeys(lost), **told, **changes})


def text_of(key: str, rows: Sequence[ComparisonRow], trials: int = 3) -> str:
    """The text of one section of a report."""
    texts: list[str] = [one["text"] for one in sections(rows, trials) if one["key"] == key]
    return texts[0]
