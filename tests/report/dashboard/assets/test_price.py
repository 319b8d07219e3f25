"""The price of a million samples and the joules of one, as Python computes them."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from dashboard_page import Study, bring, turn, visit, write_page
from synthetic_rows import base_row, compared

from xla_sweeps.analysis.cost import costs_of
from xla_sweeps.analysis.energy import NOT_AVAILABLE
from xla_sweeps.report.dashboard.page import PACKAGE

pytestmark = pytest.mark.browser

LINES = "document.getElementById('price-lines').innerText"
TABLE = """[...document.querySelectorAll('#price-table tbody tr')].map((line) =>
  [...line.children].map((cell) => cell.textContent))"""
HEADS = """[...document.querySelectorAll('.grid thead th')].filter((head) =>
  head.checkVisibility()).map((head) => head.innerText)"""
SHOWN = "xlaSweeps.filtered().length"


@pytest.fixture
def priced(tmp_path: Path) -> Study:
    """Three trials, of which two have measured energy."""
    counted = {
        "joules_per_sample": 0.25,
        "joules_per_sample_low": 0.24,
        "joules_per_sample_high": 0.26,
        "baseline_joules_per_sample": 0.31,
        "idle_watts": 61.0,
        "energy": "GPU",
    }
    energies: list[dict[str, Any]] = [
        counted,
        counted | {"joules_per_sample": 2.5},
        {"energy": f"{NOT_AVAILABLE}no counter"},
    ]
    rows = [
        base_row(trial_id=f"{place:016}", batch_size=2**place) | compared(100.0, speed, 0.02) | more
        for place, (speed, more) in enumerate(zip((150.0, 300.0, 120.0), energies, strict=True))
    ]
    return write_page(tmp_path / "page.html", rows)


def test_a_price_is_kept_in_the_address_and_gives_pythons_figures(
    browser: Browser, priced: Study
) -> None:
    visit(browser, priced)
    bring(browser, "#price")
    assert "million" not in browser.evaluate(LINES)
    assert "Price of a million" not in browser.evaluate(HEADS)
    browser.click("#price")
    browser.write("2.5")
    browser.wait("location.hash.includes('price=2.5')")
    browser.wait("xlaSweeps.settled()")
    assert browser.evaluate("document.activeElement.id") == "price"
    costs = [costs_of(row, 2.5) for row in priced.rows]
    cheapest = min(costs, key=lambda cost: cost["cost_per_million"] or 0)
    lines = browser.evaluate(LINES)
    middle = sorted(cost["cost_per_million"] or 0 for cost in costs)[1]
    assert f"A million samples with XLA: {cheapest['cost_per_million']:.2f} to " in lines
    assert f"median {middle:.2f}." in lines
    browser.evaluate("document.getElementById('price-table').closest('details').open = true")
    first = browser.evaluate(TABLE)[0]
    low, high = (cheapest[f"cost_per_million_{end}"] or 0 for end in ("low", "high"))
    assert first[1] == f"{cheapest['cost_per_million']:.2f} ({low:.2f}–{high:.2f})"
    bring(browser, ".virtual")
    assert "Price of a million" in browser.evaluate(HEADS)
    turn(browser, [("price", "5")])
    assert f"{2 * middle:.2f}." in browser.evaluate(LINES)


def test_joules_stand_where_they_were_measured_and_the_reason_where_not(
    browser: Browser, priced: Study
) -> None:
    visit(browser, priced)
    bring(browser, "#price")
    lines = browser.evaluate(LINES)
    assert "A sample with XLA: 0.25 to 2.5 J, median 1.38 J, counted by GPU." in lines
    assert "not available for 1 configuration (no counter)." in lines
    browser.evaluate("document.getElementById('price-table').closest('details').open = true")
    table = browser.evaluate(TABLE)
    assert [line[2:] for line in table] == [
        ["2.5 (0.24–0.26)", "0.31", "61"],
        ["0.25 (0.24–0.26)", "0.31", "61"],
        ["not available"] * 3,
    ]


def test_a_price_that_is_none_is_refused_in_a_line(browser: Browser, priced: Study) -> None:
    visit(browser, priced)
    for price, said in (("-3", True), ("free", True), ("", False)):
        turn(browser, [("price", price), ("brush", "cost_per_million:-3:-2")])
        bring(browser, "#price")
        lines = browser.evaluate(LINES)
        assert ("A price is a number above 0, such as 2.5." in lines) == said
        assert "million" not in lines
        assert browser.evaluate(SHOWN) == 3, "nothing is filtered by a price that is not known"


def test_rows_are_filtered_by_price_and_by_joules(browser: Browser, priced: Study) -> None:
    visit(browser, priced, [("brush", "joules_per_sample:-1:0")])
    assert browser.evaluate(SHOWN) == 1
    costs = [costs_of(row, 3600)["cost_per_million"] or 0 for row in priced.rows]
    turn(browser, [("price", "3600"), ("brush", "cost_per_million:0:3.8")])
    assert browser.evaluate(SHOWN) == sum(cost < 10**3.8 for cost in costs)
    assert "price of a million" in browser.evaluate("document.getElementById('tokens').innerText")
    assert PACKAGE["costs"] == tuple(costs_of(priced.rows[0], 1.0))


def test_the_csv_file_has_the_prices_only_with_a_price(browser: Browser, priced: Study) -> None:
    for price, columns in (("", []), ("2", list(PACKAGE["costs"]))):
        visit(browser, priced, [("price", price)])
        bring(browser, "#csv")
        _, content = browser.download(lambda: browser.click("#csv"))
        lines = list(csv.DictReader(io.StringIO(content.decode())))
        assert [name for name in lines[0] if name.startswith("cost_")] == columns
        written = {line["trial_id"]: line for line in lines}
        for row in priced.rows:
            expected = costs_of(row, float(price or 1))
            for name in columns:
                assert float(written[row["trial_id"]][name]) == pytest.approx(
                    expected[name], rel=1e-4
                )
