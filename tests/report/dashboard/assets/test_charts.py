"""Texts of charts: titles, ranges, columns of several pairs; and charts that are hidden."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from browser import Browser
from dashboard_page import bring, draw_everything, tip_at, visit, write_page
from synthetic_rows import base_row, compared

pytestmark = pytest.mark.browser


def tip_over(browser: Browser, chart: str, mark: str) -> str:
    """The tip for a mouse over the middle of a chart's first mark."""
    bring(browser, f"[data-chart={chart}] .canvas")
    x, y = browser.evaluate(
        f"""(({{left, top, width, height}}) => [left + width / 2, top + height / 2])(
          document.querySelector('[data-chart={chart}] [data-mark={mark}] :is(path, rect)')
            .getBoundingClientRect())"""
    )
    return tip_at(browser, x, y)


def test_operations_without_a_throughput_make_no_chart(browser: Browser, tmp_path: Path) -> None:
    unknown = {"throughput_samples_per_s": None, "baseline_throughput_samples_per_s": None}
    rows = [
        base_row(trial_id=f"{number:016}", model=f"m{number}", macs=1e9 * number)
        | compared(100.0, 150.0 + number, 0.02)
        | unknown
        for number in range(1, 6)
    ]
    visit(browser, write_page(tmp_path / "page.html", rows))
    draw_everything(browser)
    assert browser.evaluate("document.documentElement.dataset.error ?? ''") == ""
    assert not browser.evaluate("document.getElementById('flops').checkVisibility()")
    assert browser.complaints == []


def test_a_column_of_several_configurations_says_how_many_and_their_range(
    browser: Browser, tmp_path: Path
) -> None:
    speedups = [2 + 0.01 * (number // 2) for number in range(1300)]
    rows = [
        base_row(trial_id=f"{number:016}", model=f"m{number}")
        | compared(100.0, 100 * speedup, 0.02)
        for number, speedup in enumerate(speedups)
    ]
    visit(browser, write_page(tmp_path / "page.html", rows))
    first, second = tip_over(browser, "pairs", "rect").splitlines()[:2]
    ends = [column * 1300 // 600 for column in range(601)]
    falling = sorted(speedups, reverse=True)
    assert first in {
        f"{stop - start} configurations, {falling[start]:.2f}× to {falling[stop - 1]:.2f}×"
        for start, stop in pairwise(ends)
    }
    assert second.startswith("In the middle: m")
    assert browser.complaints == []


FAMILIES = """[...document.querySelectorAll('#family-list tbody tr')].map((row) =>
  [row.cells[0].innerText, row.cells[2].innerText, row.querySelectorAll('.reach').length])"""


def test_families_have_the_range_of_8_of_10_or_of_few_models_of_all_and_no_interval(
    browser: Browser, tmp_path: Path
) -> None:
    speedups = [1.2 + 0.1 * number for number in range(11)]
    rows = [
        base_row(trial_id=f"{place}{number:015}", model=f"{family}{number}", family=family)
        | compared(100.0, 100 * speedup, 0.02)
        for place, (family, models) in enumerate([("Many", 11), ("Few", 7), ("Other", 3)])
        for number, speedup in enumerate(speedups[:models])
    ]
    visit(browser, write_page(tmp_path / "page.html", rows))
    draw_everything(browser)
    assert browser.evaluate(FAMILIES) == [
        ["Many", "1.30–2.10", 1],
        ["Few", "1.20–1.80", 1],
        ["Other", "1.20–1.40", 1],
    ]
    assert "interval" not in browser.evaluate("document.getElementById('family-list').innerText")
    assert "; 8 of 10 between 1.30–2.10" in tip_over(browser, "where", "cell")
