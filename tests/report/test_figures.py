"""How numbers are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from xla_sweeps.report import figures

WRITTEN: list[tuple[Callable[..., str], dict[Any, str]]] = [
    (
        figures.duration,
        {0.42: "0.4 s", 12.3: "12 s", 119.7: "2 min 00 s", 200: "3 min 20 s", 479.6: "8 min 00 s"},
    ),
    (figures.duration, {7500: "2 h 05 min", 14399: "4 h 00 min"}),
    (
        figures.short_duration,
        {0: "0 ms", 0.00123: "1.2 ms", 0.96: "0.96 s", 1500: "25 min", 7560: "2.1 h"},
    ),
    (figures.call_time, {0.125: "125 ms", 2.084: "2.08 s"}),
    (figures.size, {None: "—", 3 * 2**20: "3 MiB", 1.5 * 2**30: "1.50 GiB"}),
    (figures.round_count, {9.6: "10", 5432.1: "5,400", 99_900: "100,000"}),
    (figures.scale_count, {65: "65", 2_312: "2.3 k", 25_600_000: "25.6 M", 999_960: "1.0 M"}),
    (
        figures.scale,
        {0: "0 ", 999: "999 ", 8.366e9: "8.37 G", 97_300_000: "97.3 M", 999.7e6: "1 G"},
    ),
    (figures.percent, {0.01: "1 %", 0.0123: "1.2 %", 0.714: "71 %", 1.25: "125 %", 0: "0 %"}),
    (figures.confidence, {0.98: "98 %", 0.983: "98.3 %", 0.9961: "99.6 %", 0.99999: "99.9 %"}),
    (
        figures.times,
        {1.0: "1.00×", 1.0004: "1.00×", 1.02: "1.020×", 0.951: "0.951×", 1.38: "1.38×"},
    ),
    (figures.times, {12.34: "12.3×", 123.4: "123×", None: "—"}),
    (figures.times, {0.0041: "0.00410×", 0.0123: "0.0123×", 0.0996: "0.10×", 3e-6: "3e-6×"}),
    (figures.power, {0: "0", 3.4e-6: "3e-6"}),
]


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [(write, value, text) for write, texts in WRITTEN for value, text in texts.items()],
)
def test_each_number_is_written_for_people(
    write: Callable[..., str], value: float | None, text: str
) -> None:
    assert write(value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1.34, 1.42, "1.34–1.42"),
        (0.98, 1.06, "0.980–1.060"),
        (8.18, 21.76, "8.2–21.8"),
        (-0.1, 0.2, "-0.10 to 0.20"),
        (0.012, 0.014, "0.0120–0.0140"),
        (0.04, 12.0, "0.04–12.00"),
        (0.004, 0.9, "0.00400–0.90"),
        (0.06, 0.9, "0.06–0.90"),
        (None, 1.0, "—"),
    ],
)
def test_bounds_of_a_ratio_have_equal_places(
    low: float | None, high: float | None, text: str
) -> None:
    assert figures.interval(low, high) == text
