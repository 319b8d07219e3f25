"""Figures that the page must show, computed a second time without the package's code."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scipy.stats import false_discovery_control

Row = dict[str, Any]
VERDICTS = ("faster", "slower", "equivalent", "ambiguous", "failed")


def overview(rows: Iterable[Row], baseline: str) -> dict[str, Any]:
    """Measured rows of XLA against one baseline, summed up."""
    mine = [
        row
        for row in rows
        if (row["origin"], row["candidate"], row["baseline"]) == ("measured", "xla", baseline)
    ]
    compared = [row for row in mine if row["speedup"] is not None]
    priced = [row for row in compared if row["compile_s_extra"] is not None]
    settled = [row for row in priced if row["verdict"] != "ambiguous"]
    p_values = [row["p_value"] for row in compared if row["p_value"] is not None]
    speedups = [row["speedup"] for row in compared]
    many = len({row["model"] for row in compared}) >= 8
    tenths = statistics.quantiles(speedups, n=10, method="inclusive") if many else [None]
    return {
        "pairs": len(mine),
        **{verdict: sum(row["verdict"] == verdict for row in mine) for verdict in VERDICTS},
        "compared": len(compared),
        "models": len({row["model"] for row in compared}),
        "geomean": _geomean(compared),
        "spread_low": tenths[0],
        "spread_high": tenths[-1],
        "discoveries": int(sum(false_discovery_control(p_values) <= 0.05)) if p_values else 0,
        "median_extra_compile_s": statistics.median(row["compile_s_extra"] for row in priced)
        if priced
        else None,
        "priced": len(settled),
        "median_break_even_calls": _median_or_never([row["break_even_calls"] for row in settled]),
        "never": sum(row["break_even_calls"] is None for row in settled),
        "families": [_family(name, mine) for name in sorted({row["family"] for row in mine})],
    }


def answers(rows: Iterable[Row]) -> list[Row]:
    """One row of what was asked: the most replicates, then the newest."""
    names = ("model", "source", "scenario", "resolution_px", "batch_size", "precision", "runtime")
    sides = ("device", "origin", "candidate", "baseline")
    rank = ("replicates", "measured_at", "trial_id")
    asked: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        asked.setdefault(tuple(row[name] for name in (*names, *sides)), []).append(row)
    return [max(same, key=lambda row: [row[name] for name in rank]) for same in asked.values()]


def ranked(
    rows: Iterable[Row], value: Callable[[Row], tuple[float | None, float | None, float | None]]
) -> list[tuple[int | None, Row]]:
    """Ranks and rows, the best first; None where there is no interval.

    A rank is shared while an interval reaches that of its group's leader.
    """
    figures = [(value(row), row) for row in rows]
    placed = sorted(
        ((figure, row) for figure, row in figures if figure[0] is not None),
        key=lambda pair: -(pair[0][0] or 0.0),
    )
    ranks: list[tuple[int | None, Row]] = []
    leader: tuple[int, float] | None = None
    for position, ((_, low, high), row) in enumerate(placed, start=1):
        if low is None or high is None:
            ranks.append((None, row))
            continue
        if leader is None or high < leader[1]:
            leader = (position, low)
        ranks.append((leader[0], row))
    return ranks


def throughput(row: Row) -> tuple[float | None, float | None, float | None]:
    """Images per second, with its interval."""
    return row["throughput_samples_per_s"], row["throughput_low"], row["throughput_high"]


def speedup(row: Row) -> tuple[float | None, float | None, float | None]:
    """Baseline latency / candidate latency, with its interval."""
    return row["speedup"], row["speedup_low"], row["speedup_high"]


def gained(row: Row) -> tuple[float | None, float | None, float | None]:
    """Images per second more than the baseline."""
    base = row["baseline_throughput_samples_per_s"]
    gains = [
        None if bound is None or base is None else base * (bound - 1) for bound in speedup(row)
    ]
    return gains[0], gains[1], gains[2]


def _family(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    mine = [row for row in rows if row["family"] == name]
    compared = [row for row in mine if row["speedup"] is not None]
    speedups = sorted(row["speedup"] for row in compared) or [None]
    if len({row["model"] for row in compared}) >= 8:
        speedups = statistics.quantiles(speedups, n=10, method="inclusive")
    return {
        "family": name,
        "n": len(compared),
        "models": len({row["model"] for row in compared}),
        "failed": sum(row["verdict"] == "failed" for row in mine),
        "geomean": _geomean(compared),
        "low": speedups[0],
        "high": speedups[-1],
        "share_slower": sum(row["verdict"] == "slower" for row in compared) / len(compared)
        if compared
        else 0.0,
    }


def _geomean(rows: Sequence[Row]) -> float | None:
    """The geometric mean of the speedups, a model as the unit."""
    models: dict[str, list[float]] = {}
    for row in rows:
        models.setdefault(row["model"], []).append(math.log(row["speedup"]))
    return math.exp(statistics.fmean(map(statistics.fmean, models.values()))) if rows else None


def _median_or_never(calls: Sequence[float | None]) -> float | None:
    if not calls:
        return None
    median = statistics.median(math.inf if value is None else value for value in calls)
    return median if math.isfinite(median) else None
