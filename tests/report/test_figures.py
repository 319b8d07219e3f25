"""How numbers are written."""

from __future__ import annotations

import pytest

from xla_sweeps.report.figures import duration, round_count, scale_count, short_duration, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.42, "0.4 s"),
        (12.3, "12 s"),
        (119.7, "2 min 00 s"),
        (200, "3 min 20 s"),
        (479.6, "8 min 00 s"),
        (7500, "2 h 05 min"),
        (14399, "4 h 00 min"),
    ],
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_sizes_are_readable() -> None:
    assert (size(None), size(3 * 2**20), size(1.5 * 2**30)) == ("—", "3 MiB", "1.50 GiB")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.00123, "1.2 ms"), (0.96, "0.96 s"), (1500, "25 min"), (7560, "2.1 h")],
)
def test_a_short_duration_has_two_digits(seconds: float, text: str) -> None:
    assert short_duration(seconds) == text


def test_counts_are_rounded_or_scaled() -> None:
    assert [round_count(count) for count in (9.6, 5432.1, 99_900)] == ["10", "5,400", "100,000"]
    assert [scale_count(count) for count in (65, 2_312, 25_600_000)] == ["65", "2.3 k", "25.6 M"]
