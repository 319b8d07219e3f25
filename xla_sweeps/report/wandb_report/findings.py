"""Compute a report's findings, in words: who gains, who loses, what it costs. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from xla_sweeps.analysis.overview import Overview, geometric_mean, overview
from xla_sweeps.report.wandb_report.cells import interval, number, speedup, times
from xla_sweeps.report.wandb_report.markdown import escape
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.modes import call_of
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.system.text import counted

NO_COST = "No pair has a compile time."


def findings(pairs: Sequence[ComparisonRow]) -> list[str]:
    """At most three sentences.

    Args:
        pairs: of one setting.
    """
    found = overview(pairs)
    said = _families(found), _models(pairs), cost(found)
    return [text for text in said if text and text != NO_COST]


def cost(found: Overview) -> str:
    """What compiling costs, and when that pays back."""
    if found.median_extra_compile_s is None:
        return NO_COST
    text = f"In the median, preparation takes {number(found.median_extra_compile_s)} s longer"
    if not found.priced:
        return f"{text} with XLA."
    calls = found.median_break_even_calls
    text += (
        f" with XLA and pays back after {number(calls)} {call_of(found.scenario)}s."
        if calls is not None
        else " with XLA, and for at least half of the pairs it never pays back."
    )
    return f"{text} It never pays back for {found.never:,} of {found.priced:,} pairs."


def mobilenets(pairs: Sequence[ComparisonRow]) -> str:
    """How the MobileNets' arithmetic compares with that of the other models, or "".

    Args:
        pairs: of one setting.
    """
    groups: dict[bool, list[ComparisonRow]] = {True: [], False: []}
    for row in pairs:
        if row.trial.macs and row.candidate.throughput_samples_per_s and row.speedup.value:
            groups["mobilenet" in row.trial.model.lower()].append(row)
    if not all(groups.values()):
        return ""
    rates: dict[bool, float] = {}
    speedups: dict[bool, float | None] = {}
    for is_mobile, rows in groups.items():
        rates[is_mobile] = statistics.median(map(_gmacs_per_s, rows))
        speedups[is_mobile], _ = geometric_mean(
            [row.speedup.value or math.nan for row in rows], [row.trial.model for row in rows]
        )
    return (
        f"The median of {counted(len(groups[True]), 'MobileNet')} is {number(rates[True])} billion "
        f"multiply-accumulates a second with XLA, of {counted(len(groups[False]), 'other model')} "
        f"{number(rates[False])}: {times(rates[True] / rates[False])} as many. XLA makes the "
        f"MobileNets {times(speedups[True])} as fast, the others {times(speedups[False])}."
    )


def _gmacs_per_s(row: ComparisonRow) -> float:
    return (row.trial.macs or 0) * (row.candidate.throughput_samples_per_s or 0.0) / 1e9


def _families(found: Overview) -> str:
    """Which family gains most, and which least."""
    known = sorted(
        ((item.geomean, item) for item in found.families if item.geomean is not None),
        key=lambda pair: -pair[0],
    )
    if len(known) < 2:
        return ""
    (high, best), (low, worst) = known[0], known[-1]
    return (
        f"{escape(best.family)} {'gains most' if high >= 1 else 'loses least'}, {times(high)} over "
        f"{counted(best.models, 'model')}; {escape(worst.family)} "
        f"{'gains least' if low >= 1 else 'loses most'}, {times(low)} over "
        f"{counted(worst.models, 'model')}."
    )


def _models(pairs: Sequence[ComparisonRow]) -> str:
    """Which model is faster by most, and which slower; only those whose verdict says so."""
    if not pairs:
        return ""
    parts = []
    for verdict, sign in ((Verdict.FASTER, 1), (Verdict.SLOWER, -1)):
        rows = [row for row in pairs if row.speedup.verdict is verdict]
        row = max(rows, key=lambda item: sign * (item.speedup.value or 0.0), default=None)
        parts.append(
            f"{verdict} by most: {escape(row.trial.model)}, {speedup(row)} "
            f"(95 % {interval(row.speedup.low, row.speedup.high)})"
            if row
            else f"{verdict}: no model"
        )
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
