"""What charts say of the rows: titles, ranges, columns of several pairs; and when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import Browser
from dashboard_page import draw_everything, visit, write_page
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
