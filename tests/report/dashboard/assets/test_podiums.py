"""The podiums: the best rows of each device, whose ranks are shared where intervals overlap."""

from __future__ import annotations

import pytest
from dashboard_page import Show, bring, turn
from synthetic_rows import WRONG, base_row, compared, pair_row

pytestmark = pytest.mark.browser

RATES = {"a": (400.0, 0.05), "b": (390.0, 0.05), "c": (300.0, 0.05), "d": (290.0, 0.05)}
"""Throughput and half-width of the interval; `a` and `b` overlap, and so do `c` and `d`."""

PODIUMS = """[...document.querySelectorAll('#podium .podium')].map((box) => [
  box.querySelector('h3').textContent,
  [...box.querySelectorAll('tbody tr')].map((row) => [
    row.cells[0].textContent,
    row.cells[1].querySelector('button').textContent])])"""


def test_ranks_are_shared_where_intervals_overlap_and_kept_by_a_filter_of_names(show: Show) -> None:
    rows = [
        base_row(trial_id=f"{number:016}", model=model, batch_size=batch)
        | compared(100.0, rate, width)
        for number, (model, (rate, width), batch) in enumerate(
            [*((model, rate, 1) for model, rate in RATES.items()), ("e", (500.0, 0.05), 8)]
        )
    ]
    published = {"throughput_low": None, "throughput_high": None, "speedup_low": None}
    single = base_row(trial_id="f" * 16, model="no interval")
    rows.append(single | compared(100.0, 120.0, 0.02) | published)
    browser = show(rows)
    ranks = [["1", "a"], ["1", "b"], ["3", "c"], ["3", "d"]]
    for tab in ("throughput", "absolute", "percent"):
        turn(browser, [("tab", tab)])
        bring(browser, "#podium")
        ((device, lines),) = browser.evaluate(PODIUMS)
        assert device == rows[0]["device"]
        assert ["–", "no interval"] in lines
        assert [line for line in lines if line[0] != "–"] == ranks, tab
    assert "at 224 px, batch 1." in browser.words("#podium p.note")
    turn(browser, [("model", "d"), ("tab", "throughput")])
    bring(browser, "#podium")
    said = browser.words("#podium")
    assert "rank 3 of 5" in said


def test_a_mode_with_wrong_outputs_has_no_rank_and_no_point(show: Show) -> None:
    rows = [
        pair_row(place, 100.0 + place, model=f"net{place}", macs=1e9 * place) for place in (1, 2, 3)
    ]
    rows.append(pair_row(4, 900.0, model="wrong", macs=9e9) | WRONG)
    browser = show(rows)
    bring(browser, "#podium")
    ((_, lines),) = browser.evaluate(PODIUMS)
    assert [model for _, model in lines] == ["net3", "net2", "net1"]
    assert "1 that failed are not ranked." in browser.words("#podium p.note")
    bring(browser, "[data-chart=flops]")
    assert "3 configurations of 3 models" in browser.words("[data-chart=flops] .subject")
    turn(browser, [("model", "wrong")])
    assert browser.evaluate("document.getElementById('podium').checkVisibility()") is False
