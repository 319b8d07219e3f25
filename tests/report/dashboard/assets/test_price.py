"""The price of a million samples and the joules of one, as Python computes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl

import pytest
from browser import Browser
from dashboard_page import Show, Study, bring, saved_lines, turn, visit, write_page
from synthetic_rows import WRONG, pair_row

from xla_sweeps.analysis.cost import COSTS, per_million
from xla_sweeps.analysis.measured import NOT_AVAILABLE
from xla_sweeps.report.dashboard.page import PACKAGE

pytestmark = pytest.mark.browser

LINES = "#price-lines"
HEADS = """[...document.querySelectorAll('.grid thead th')].filter((head) =>
  head.checkVisibility()).map((head) => head.innerText)"""


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
        pair_row(place, speed, batch_size=2**place) | more
        for place, (speed, more) in enumerate(zip((150.0, 300.0, 120.0), energies, strict=True))
    ]
    return write_page(tmp_path / "page.html", rows)


def test_a_price_stays_in_the_address_and_gives_pythons_figures(show: Show, priced: Study) -> None:
    browser = show(priced)
    bring(browser, "#price")
    assert "million" not in browser.words(LINES)
    assert "Price of a million" not in browser.evaluate(HEADS)
    browser.click("#price")
    browser.write("2.5")
    browser.wait("location.hash.includes('price=2.5')")
    browser.wait("xlaSweeps.settled()")
    assert browser.evaluate("document.activeElement.id") == "price"
    costs = [
        {name: per_million(row[rate], 2.5) for name, rate in COSTS.items()} for row in priced.rows
    ]
    cheapest = min(costs, key=lambda cost: cost["cost_per_million"] or 0)
    lines = browser.words(LINES)
    most_expensive = max(cost["cost_per_million"] or 0 for cost in costs)
    assert f"A million samples with XLA: {cheapest['cost_per_million']:.2f} to " in lines
    assert f" to {most_expensive:.3g}." in lines
    turn(browser, [("price", "2.5"), ("columns", "cost")])
    bring(browser, ".virtual")
    assert "Price of a million" in browser.evaluate(HEADS)
    turn(browser, [("price", "5")])
    assert f" to {2 * most_expensive:.3g}." in browser.words(LINES)


def test_joules_stand_where_they_were_measured_else_the_reason(show: Show, priced: Study) -> None:
    browser = show(priced)
    bring(browser, "#price")
    lines = browser.words(LINES)
    assert "A sample with XLA: 0.250 to 2.50 J, counted by GPU." in lines
    assert "not available for 1 configuration (no counter)." in lines
    turn(browser, [("columns", "cost"), ("sort", "joules_per_sample")])
    bring(browser, ".virtual")
    heads = browser.evaluate(HEADS)
    assert {"J/img", "Baseline J/img", "Memory"} <= {*heads}
    assert not {"Price of a million", "p50 (ms)"} & {*heads}


def test_a_mode_with_wrong_outputs_has_no_price_and_no_joules_in_the_lines(show: Show) -> None:
    joules = {"joules_per_sample": 0.25, "energy": "GPU"}
    wrong = pair_row(2, 900.0, model="wrong") | WRONG | joules | {"joules_per_sample": 0.01}
    rows = [pair_row(1, 200.0) | joules, wrong]
    browser = show(rows, [("price", "2.5")])
    bring(browser, "#price")
    price = per_million(rows[0]["throughput_samples_per_s"], 2.5)
    assert browser.words(LINES) == (
        f"A million samples with XLA: {price:#.3g}. A sample with XLA: 0.250 J, counted by GPU."
    )


def test_a_price_that_is_none_is_refused_in_a_line(browser: Browser, priced: Study) -> None:
    visit(browser, priced)  # Chromium warns of the word in a field of numbers
    for price, said in (("-3", True), ("free", True), ("", False)):
        turn(browser, [("price", price)])
        bring(browser, "#price")
        lines = browser.words(LINES)
        assert ("A price is a number above 0, such as 2.5." in lines) == said
        assert "million" not in lines


def test_the_csv_file_has_the_prices_only_with_a_price(show: Show, priced: Study) -> None:
    for price, columns in (("", []), ("2", list(PACKAGE["costs"]))):
        browser = show(priced, [("price", price)])
        lines = saved_lines(browser)
        assert [name for name in lines[0] if name.startswith("cost_")] == columns
        written = {line["trial_id"]: line for line in lines}
        for row in priced.rows:
            for name in columns:
                expected = per_million(row[COSTS[name]], float(price))
                assert float(written[row["trial_id"]][name]) == pytest.approx(expected, rel=1e-4)


def test_each_device_has_its_own_price_and_none_has_no_amount(show: Show, tmp_path: Path) -> None:
    names = ("AMD EPYC 9654", "NVIDIA H100 80GB HBM3", "NVIDIA T4")
    rows = [pair_row(place, 150.0, device=device) for place, device in enumerate(names)]
    page = write_page(tmp_path / "page.html", rows)
    browser = show(page)
    bring(browser, "#price")
    labels = """[...document.querySelectorAll('.budget label')].filter((one) =>
      one.checkVisibility()).map((one) => one.innerText.trim())"""
    shorts = [device.removeprefix("AMD ").removeprefix("NVIDIA ") for device in names]
    assert browser.evaluate(labels) == [f"Price per hour of {device}" for device in shorts]
    for place, price in ((1, "3"), (0, "0.5")):
        browser.click(f"#price-{place}" if place else "#price")
        browser.write(price)
        browser.wait(f"[...xlaSweeps.state.price].includes('{price} {names[place]}')")
        browser.wait("xlaSweeps.settled()")
    costs = [
        per_million(row["throughput_samples_per_s"], price)
        for row, price in zip(rows, (0.5, 3.0), strict=False)
    ]
    amounts = [
        f"with XLA on {name}: {cost:#.3g}." for name, cost in zip(shorts, costs, strict=False)
    ]
    lines = browser.words(LINES)
    assert lines == " ".join(f"A million samples {amount}" for amount in amounts)
    address = browser.evaluate("location.hash.slice(1)")
    assert parse_qs(address)["price"] == [f"3 {names[1]}", f"0.5 {names[0]}"]
    show(page, parse_qsl(address))
    bring(browser, "#price")
    assert browser.words(LINES) == lines
    written = {line["device"]: line for line in saved_lines(browser)}
    assert written[names[2]]["cost_per_million"] == ""
    assert float(written[names[1]]["cost_per_million"]) == pytest.approx(costs[1], rel=1e-4)
    turn(browser, [("price", "4")])
    said = "A price holds for one device: give it beside its name."
    assert browser.words(LINES) == said
    turn(browser, [("price", "4"), ("device", names[2])])
    assert browser.evaluate(labels) == ["Price per hour"]
    assert "A million samples with XLA: " in browser.words(LINES)
