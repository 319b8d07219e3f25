"""What charts say of the rows: titles, ranges, columns of several pairs; and when there is none."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from browser import Browser
from dashboard_page import bring, draw_everything, visit, write_page
from synthetic_rows import base_row, compared

pytestmark = pytest.mark.browser


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


def test_a_column_of_several_pairs_says_how_many_and_their_range(
    browser: Browser, tmp_path: Path
) -> None:
    speedups = [2 + 0.01 * (number // 2) for number in range(1300)]
    rows = [
        base_row(trial_id=f"{number:016}", model=f"m{number}")
        | compared(100.0, 100 * speedup, 0.02)
        for number, speedup in enumerate(speedups)
    ]
    visit(browser, write_page(tmp_path / "page.html", rows))
    bring(browser, "[data-chart=pairs] .canvas")
    x, y = browser.evaluate(
        "((box) => [box.left + box.width / 3, box.bottom - 60])"
        "(document.querySelector('[data-chart=pairs] svg').getBoundingClientRect())"
    )
    browser.hover_at(x - 1, y)
    browser.hover_at(x, y)
    browser.wait("!document.getElementById('tip').hidden", timeout_s=5)
    first, second = browser.evaluate("document.getElementById('tip').innerText").splitlines()[:2]
    ends = [column * 1300 // 600 for column in range(601)]
    falling = sorted(speedups, reverse=True)
    assert first in {
        f"{stop - start} pairs, {falling[start]:.2f}× to {falling[stop - 1]:.2f}×"
        for start, stop in pairwise(ends)
    }
    assert second.startswith("In the middle: m")
    assert browser.complaints == []
