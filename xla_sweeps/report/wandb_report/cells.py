"""The cells of a report's tables: figures and names as text. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from xla_sweeps.report.advice import SYMBOLS, marks
from xla_sweeps.report.labels import distinctions
from xla_sweeps.report.wandb_report.markdown import escape
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import ComparisonRow

BAR_CELLS = 12
BARS_PER_DOUBLING = 4

NONE = "—"

VERDICTS: dict[str, str] = {
    verdict: f"{SYMBOLS[verdict]} {verdict}" for verdict in Verdict if verdict is not Verdict.NONE
}


def who(row: ComparisonRow) -> list[str]:
    """The row's model, resolution, batch size and device."""
    return [
        escape(row.trial.model),
        str(row.trial.resolution_px),
        str(row.trial.batch_size),
        escape(row.trial.device),
    ]


def names(rows: Sequence[ComparisonRow], *shown: str) -> list[str]:
    """Each row's model, with what tells it from others that look alike in the columns shown."""
    told = distinctions(rows, ("model", *shown))
    return [
        escape(" · ".join(filter(None, (row.trial.model, facts))))
        for row, facts in zip(rows, told, strict=True)
    ]


def speedup(row: ComparisonRow) -> str:
    """The row's speedup, marked where it is preliminary or contaminated."""
    contaminated = row.status is Status.CONTAMINATED
    marked = marks(preliminary=row.speedup.preliminary, contaminated=contaminated)
    return times(row.speedup.value) + escape(marked)


def bar(speedup: float) -> str:
    """A bar of the speedup's logarithm."""
    cells = min(BAR_CELLS, round(BARS_PER_DOUBLING * abs(math.log2(speedup))))
    return f"{'▲' if speedup >= 1 else '▼'} {'█' * cells}" if cells else "·"


def times(value: float | None) -> str:
    """A ratio, a speedup for example."""
    return NONE if value is None else f"{value:.2f}×"


def interval(
    low: float | None, high: float | None, show: Callable[[float | None], str] | None = None
) -> str:
    """Both bounds; negative ones are joined by a word."""
    if low is None or high is None:
        return NONE
    first, last = (show(low), show(high)) if show else (f"{low:.2f}", f"{high:.2f}")
    return f"{first} to {last}" if low < 0 else f"{first}–{last}"


def number(value: float | None) -> str:
    """A number with three significant digits, or all digits of its integer part."""
    if value is None or not math.isfinite(value):
        return NONE
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def calls(row: ComparisonRow) -> str:
    """After how many calls the time to compile is paid back."""
    calls, low, high = (
        row.speedup.break_even_calls,
        row.speedup.break_even_low,
        row.speedup.break_even_high,
    )
    if calls is None:
        return NONE if row.speedup.verdict is Verdict.AMBIGUOUS else "never"
    return number(calls) + (f" ({number(low)}–{number(high)})" if low and high else "")


def percent(share: float | None) -> str:
    """A share."""
    return NONE if share is None else f"{share:.0%}"


def percent_of(values: Sequence[Any]) -> str:
    """The median of percentages."""
    return f"{statistics.median(values):.1f} %" if values else NONE
