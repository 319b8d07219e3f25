"""How numbers are written for people: speedups, intervals, times, sizes and counts. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

NONE = "—"

_UNITS = ((5400, 3600, "h"), (180, 60, "min"), (0.1, 1, "s"), (0, 0.001, "ms"))
"""Of a short duration: from how many seconds, how many seconds it has, and its word."""

_SMALL = 0.0995  # a ratio below it would lose digits with two places

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


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


def scale(value: float) -> str:
    """Three digits with a decimal prefix, to be followed by a unit: `8.37 G`."""
    least, prefix = next((each for each in _SCALES if value >= 0.9995 * each[0]), (1, ""))
    return f"{value / least:.3g} {prefix}"


def scale_count(count: float) -> str:
    """A count with one place and a decimal prefix: `25.6 M`, `2.3 k`, `65`."""
    least, prefix = next((each for each in _SCALES if count >= 0.99995 * each[0]), (1, ""))
    return f"{count / least:.1f} {prefix}" if prefix else f"{count:.0f}"


def digits(value: float | None, significant: int = 4) -> str:
    """A number with some significant digits, without an exponent or trailing zeros."""
    if value is None or not math.isfinite(value):
        return NONE
    power = math.floor(math.log10(abs(value) * (1 + 1e-9))) if value else 0
    places = max(0, min(8, significant - 1 - power))
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text


def millions(value: float | None) -> str:
    """A number of millions in a column: `3.50`, `25.6`."""
    return NONE if value is None else f"{value:.{2 if value < 10 else 1}f}"


def three_digits(value: float) -> str:
    """Three digits, with zeros in place of others: `0.0412`, `9.00`, `12,300`."""
    if abs(value) >= 999.5:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:#.3g}".rstrip(".")


def percent(share: float) -> str:
    """A share as a percentage with two significant digits: `1.2 %`, `71 %`."""
    return f"{digits(100 * share, 2)} %"


def confidence(level: float) -> str:
    """A level of confidence, rounded down so that none is certain: `98.3 %`, `99.9 %`."""
    return f"{math.floor(round(1e3 * level, 6)) / 10:g} %"


def decimals(value: float, places: int = 2, sign: str = "") -> str:
    """A number of a column whose decimal points are below each other: `1,234.50`."""
    return f"{value:{sign},.{places}f}"


def power(value: float) -> str:
    """One digit and a power of ten: `3e-6`, `0`."""
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    return f"{mantissa}e{int(exponent)}" if value else "0"


def times(value: float | None) -> str:
    """A ratio, such as a speedup; more places near 1, where they matter."""
    return NONE if value is None else f"{_ratio(value)}×"


def _ratio(value: float) -> str:
    """A ratio with two places; near 1 with three, below 0.1 with three digits."""
    if 0 < value < _SMALL:
        return f"{value:#.3g}" if value >= 1e-4 else power(value)
    off = abs(value - 1)
    places = next((n for n, least in enumerate((99.95, 9.995)) if value >= least), 2)
    return f"{value:.{3 if 0.0005 <= off < 0.0495 else places}f}"


def interval(
    low: float | None, high: float | None, show: Callable[[float], str] | None = None
) -> str:
    """Both bounds, of a ratio with equal places; "to" is between them where one is negative."""
    if low is None or high is None:
        return NONE
    near = max(abs(low - 1), abs(high - 1)) < 0.0995
    places = f"{{:.{3 if near else 1 if high >= 9.995 and low >= 0.995 else 2}f}}".format
    is_small = low > 0 and (low < _SMALL / 10 or high < _SMALL)
    show = show or (_ratio if is_small else places)
    return f"{show(low)}{' to ' if low < 0 else '–'}{show(high)}"


def with_bounds(
    value: float | None,
    low: float | None,
    high: float | None,
    show: Callable[[float], str] = number,
) -> str:
    """A figure with its interval in brackets: `12.30 (11.90–12.70)`."""
    return f"{NONE if value is None else show(value)} ({interval(low, high, show)})"


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


def call_time(seconds: float) -> str:
    """Three digits in seconds or milliseconds."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def short_duration(seconds: float) -> str:
    """Seconds with two significant digits, as the page writes them: `0.96 s`, `25 min`, `2.1 h`."""
    unit, word = next((unit, word) for least, unit, word in _UNITS if abs(seconds) >= least)
    return f"{digits(seconds / unit, 2)} {word}"


def size(count: float | None) -> str:
    """A readable number of bytes."""
    if count is None:
        return NONE
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
