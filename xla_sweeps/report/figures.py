"""Figures as people read them, in the terminal and in W&B's report: numbers, ratios, intervals."""

from __future__ import annotations

import math
from collections.abc import Callable

NONE = "—"
"""Shown where there is no figure."""


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
