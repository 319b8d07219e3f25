"""The figures that the page shows, against a second computation from the same rows."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import page_oracle
import pytest
from browser import Browser
from dashboard_page import (
    Filters,
    Study,
    draw_everything,
    open_everything,
    selected,
    table_of,
    turn,
    visit,
    write_page,
)
from synthetic_rows import DEVICES, NASTY_DEVICE, NASTY_MODEL, base_row, compared

from xla_sweeps.analysis.overview import Overview, overview_of
from xla_sweeps.report.dashboard import build

pytestmark = pytest.mark.browser

Studies = Callable[[int], Study]

SELECTIONS: dict[str, Filters] = {
    "nothing": (),
    "against eager": [("baseline", "eager")],
    "one device": [("device", DEVICES[0].name)],
    "a nasty device": [("device", NASTY_DEVICE), ("baseline", "eager")],
    "two devices, one batch": [
        ("device", DEVICES[0].name),
        ("device", DEVICES[2].name),
        ("batch_size", "8"),
    ],
    "a family at two resolutions": [
        ("family", "ResNetV1"),
        ("resolution_px", "224"),
        ("resolution_px", "336"),
    ],
    "a precision of a source": [("precision", "float32"), ("source", "keras_hub")],
    "a search": [("model", "EfficientNet")],
    "one model exactly": [("model", "resnet50")],
    "a nasty model": [("model", NASTY_MODEL)],
    "the slower": [("verdict", "slower")],
    "the failed": [("verdict", "failed")],
    "failed and ambiguous": [("verdict", "failed"), ("verdict", "ambiguous"), ("family", "YOLOv8")],
    "published": [("origin", "imported"), ("baseline", "eager")],
    "published and measured": [("origin", "all"), ("baseline", "eager"), ("family", "ResNetV1")],
    "nothing that was measured": [("family", "ResNetV1"), ("model", "vgg16")],
}


def same(shown: Any, expected: Any, *, path: str = "") -> None:
    """Equal, but for the last digits of floats."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            same(shown[key], value, path=f"{path}.{key}")
    elif isinstance(expected, list):
        assert len(shown) == len(expected), path
        for place, (one, other) in enumerate(zip(shown, expected, strict=True)):
            same(one, other, path=f"{path}[{place}]")
    elif isinstance(expected, float):
        assert shown == pytest.approx(expected, rel=1e-6), path
    else:
        assert shown == expected, path


def ordered(overview: dict[str, Any]) -> dict[str, Any]:
    """With the families by name, whatever the page's order of letters is; all that the page has."""
    return {
        **{name: value for name, value in overview.items() if name != "discoveries"},
        "families": sorted(overview["families"], key=lambda family: str(family["family"])),
    }


def test_every_selection_shows_its_rows_and_their_figures(browser: Browser, study: Studies) -> None:
    page = study(5000)
    visit(browser, page)
    for name, filters in SELECTIONS.items():
        if filters:
            turn(browser, filters)
        places = selected(page.rows, filters)
        assert browser.evaluate("xlaSweeps.filtered()") == places, name
        assert (len(places) == 0) == (name == "nothing that was measured")
        unjudged = selected(page.rows, [one for one in filters if one[0] != "verdict"])
        answers = page_oracle.answers(page.rows[place] for place in unjudged)
        check_figures(browser, answers, filters)
    assert browser.complaints == []


def check_figures(browser: Browser, rows: Sequence[dict[str, Any]], filters: Filters) -> None:
    """The overview, the sentence of the answer and the chips are those of these rows.

    A filter on the verdict selects by the outcome, so it changes none of them.
    """
    side = dict(filters).get("baseline", "graph")
    counts = dict(
        browser.evaluate(
            "[...document.querySelectorAll('#verdicts .chip')].map((chip) => "
            "[chip.dataset.verdict, chip.querySelector('b').innerText])"
        )
    )
    for word in page_oracle.VERDICTS:
        assert counts[word] == f"{sum(row['verdict'] == word for row in rows):,}"
    shown = browser.evaluate("document.getElementById('answer-sentence').innerText")
    many = len({row["model"] for row in rows if row["speedup"] is not None}) >= 8
    pooled = "It depends on the device." not in shown
    assert ("8 of 10" in shown) == (many and pooled), shown
    if {("origin", "imported"), ("origin", "all")} & set(filters):
        return
    expected = page_oracle.overview(rows, side)
    same(ordered(browser.evaluate("xlaSweeps.overview()")), ordered(expected))
    if len(rows) > 1 and expected["geomean"] and pooled:
        (said,) = re.findall(r"typically ([\d.]+)× as fast as", shown)
        assert float(said) == pytest.approx(expected["geomean"], abs=0.006)


def test_unfiltered_figures_are_those_of_the_package(browser: Browser, study: Studies) -> None:
    """Whose were computed before the numbers were rounded for the file."""
    page = study(5000)
    visit(browser, page)
    assert isinstance(browser.evaluate("xlaSweeps.version"), str)
    table = table_of(page.rows)
    check_sums(browser, overview_of(build.answers(table), baseline="graph"))
    turn(browser, [("baseline", "eager")])
    check_sums(browser, overview_of(build.answers(table), baseline="eager"))


def check_sums(browser: Browser, sums: Overview) -> None:
    shown, given = ordered(browser.evaluate("xlaSweeps.overview()")), asdict(sums)
    for word in ("scenario", "baseline", "candidate", "discoveries"):
        del given[word]
    for name, value in given.items():
        if isinstance(value, float):
            assert shown[name] == pytest.approx(value, rel=1e-4), name
        else:
            assert shown[name] == value, name


def test_no_filter_on_an_outcome_changes_the_answer(browser: Browser, study: Studies) -> None:
    page = study(900)
    visit(browser, page)
    parts = [f"document.getElementById('answer-{part}').innerText" for part in ("sentence", "rows")]
    before = [browser.evaluate(part) for part in parts]
    whole = len(page_oracle.answers(page.rows[place] for place in selected(page.rows, ())))
    for outcome in (("verdict", "failed"), ("brush", "speedup:0.1:9"), ("verdict", "slower")):
        turn(browser, [outcome])
        assert [browser.evaluate(part) for part in parts] == before, outcome
        said = browser.evaluate("document.getElementById('answer-sub').innerText")
        assert f"The answer counts all {whole:,}; of single ones" in said


def test_the_median_break_even_is_in_calls_and_counts_never(
    browser: Browser, study: Studies
) -> None:
    page = study(5000)
    filters = [("device", DEVICES[0].name)]
    visit(browser, page, filters)
    rows = [
        row
        for row in page_oracle.answers(page.rows[place] for place in selected(page.rows, filters))
        if row["speedup"] is not None and row["verdict"] != "ambiguous"
    ]
    calls = sorted(
        math.inf if row["break_even_calls"] is None else row["break_even_calls"] for row in rows
    )
    middle = (calls[(len(calls) - 1) // 2] + calls[len(calls) // 2]) / 2
    words = browser.evaluate("document.getElementById('answer-sentence').innerText")
    number, unit = words.split("half pay it back within ")[1].split()[:2]
    assert unit == "calls,"
    assert f"{calls.count(math.inf):,} never do" in words
    assert float(number.replace(",", "")) == pytest.approx(middle, rel=0.06)


def test_noise_and_clocks_are_lines_over_all_rows(browser: Browser, study: Studies) -> None:
    page = study(5000)
    visit(browser, page)
    draw_everything(browser)
    words = browser.evaluate("document.getElementById('trust-lines').innerText")
    rows = [page.rows[place] for place in selected(page.rows, ())]
    noise = [row["cv_percent"] for row in rows if row["cv_percent"]]
    assert f"vary by {statistics.median(noise):.2g} %" in words
    assert f"in {sum(cv > 5 for cv in noise):,} of {len(noise):,} measurements" in words
    pairs = [
        (row["within_percent"], row["between_percent"])
        for row in rows
        if row["within_percent"] and row["between_percent"]
    ]
    above = sum(between > within for within, between in pairs)
    assert f"In {above:,} of {len(pairs):,} measurements" in words
    clocks = [row["sm_clock_mhz_low"] for row in rows if row["sm_clock_mhz_low"]]
    assert f"lowest clocks were {min(clocks):,.0f} to {max(clocks):,.0f} MHz" in words


def test_the_map_counts_what_failed_and_what_was_skipped(browser: Browser, tmp_path: Path) -> None:
    lost = {"verdict": "failed", "failed_mode": "xla"}
    rows = [
        base_row(trial_id="1" * 16) | compared(100.0, 132.0, 0.02),
        base_row(trial_id="2" * 16, batch_size=8, status="oom_gpu", **lost),
        base_row(trial_id="3" * 16, batch_size=32, status="skipped", **lost),
        base_row(trial_id="4" * 16, resolution_px=96, status="skipped", **lost),
    ]
    visit(browser, write_page(tmp_path / "page.html", rows, planned=8, trials=4))
    open_everything(browser)
    words = browser.evaluate("document.getElementById('where').innerText")
    assert "1.32× (1, 1 failed, 1 skipped)" in words
    assert re.search(r"resnet50\s+1 skipped\s+1.32×", words)
    assert "4 of 8 planned trials are in this file (50 %)" in words


def test_lines_over_resolution_join_rows_of_one_model_that_differ_in_nothing_else(
    browser: Browser, tmp_path: Path
) -> None:
    rows = [
        base_row(trial_id=f"{n:016}", model=model, resolution_px=px, batch_size=batch)
        | compared(100.0, rate, 0.02)
        for n, (model, px, batch, rate) in enumerate(
            [
                ("resnet50", 96, 1, 110.0),
                ("resnet50", 224, 1, 150.0),
                ("resnet50", 224, 8, 170.0),
                ("vgg16", 336, 1, 700.0),
            ]
        )
    ]
    page = write_page(tmp_path / "page.html", rows)
    visit(browser, page)
    assert not browser.evaluate("document.getElementById('compare').checkVisibility()")
    visit(browser, page, [("model", "resnet50")])
    draw_everything(browser)
    labels = browser.evaluate(
        "[...document.querySelectorAll('#compare figure')]"
        ".filter((one) => one.checkVisibility())"
        ".map((one) => one.querySelector('h3').textContent)"
    )
    assert labels == [
        "By resolution: resnet50 · batch 1: 1.10× at 96 px, 1.50× at 224 px",
        "By batch size: resnet50 · 224 px: 1.50× at 1, 1.70× at 8",
    ]
    assert browser.complaints == []


def test_operations_that_are_only_a_lower_bound_are_marked(
    browser: Browser, tmp_path: Path
) -> None:
    rows = [
        base_row(trial_id=f"{number:016}", model=f"m{number}", macs=macs, macs_at_least=unknown)
        | compared(100.0, 150.0 + number, 0.02)
        for number, (macs, unknown) in enumerate([(1.5e9, 0), (4.5e9, 1), (7.5e9, 0)])
    ]
    visit(browser, write_page(tmp_path / "page.html", rows))
    open_everything(browser)
    shown = browser.evaluate("document.body.innerText").split()
    assert "9" in shown[shown.index("≥") :][1]
    assert shown.count("≥") == 1
    assert {"3", "15"} <= set(shown)
