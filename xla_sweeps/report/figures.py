"""How numbers are written for people: speedups, intervals, times, sizes and counts. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

NONE = "—"
"""Shown where there is no figure."""

_UNITS = ((5400, 3600, "h"), (180, 60, "min"), (0.1, 1, "s"), (0, 0.001, "ms"))
"""Of a short duration: from how many seconds, how many seconds it has, and its word."""


def number(value: float | None) -> str:
    """A number with three or four significant digits."""
    if value is None or not math.isfinite(value):
        return NONE
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def round_count(count: float) -> str:
    """A count with two significant digits: 5,400."""
    if count < 100:
        return f"{count:.0f}"
    step = 10 ** (len(f"{count:.0f}") - 2)
    return f"{round(count / step) * step:,.0f}"


def scale_count(count: float) -> str:
    """A count with one place and a prefix: `25.6 M`, `2.3 k`, `65`."""
    for scale, prefix in ((1e6, "M"), (1e3, "k")):
        if count >= scale:
            return f"{count / scale:.1f} {prefix}"
    return f"{count:.0f}"


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


def duration(seconds: float) -> str:
    """A duration that passes: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    seconds = round(seconds)
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min {seconds % 60:02} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min"


def short_duration(seconds: float) -> str:
    """Seconds with two significant digits, as the page writes them: `0.96 s`, `25 min`, `2.1 h`."""
    unit, word = next((unit, word) for least, unit, word in _UNITS if abs(seconds) >= least)
    value = seconds / unit
    places = max(0, 1 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:.{places}f}"
    return f"{text.rstrip('0').rstrip('.') if places else text} {word}"


def size(count: float | None) -> str:
    """A readable number of bytes."""
    if count is None:
        return NONE
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
