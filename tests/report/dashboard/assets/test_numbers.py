"""The figures that the page shows are those of the package, whatever is selected."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from browser import Browser
from dashboard_page import (
    Filters,
    Show,
    Studies,
    answers_of,
    draw_everything,
    open_everything,
    selected,
    sums_of,
    turn,
)
from synthetic_rows import DEVICES, NASTY_DEVICE, NASTY_MODEL, Row, base_row, compared, pair_row

pytestmark = pytest.mark.browser

VERDICTS = ("faster", "slower", "equivalent", "ambiguous", "failed")

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


def test_every_selection_shows_its_rows_and_their_figures(show: Show, study: Studies) -> None:
    page = study(1200)
    browser = show(page)
    for name, filters in SELECTIONS.items():
        if filters:
            turn(browser, filters)
        places = selected(page.rows, filters)
        assert browser.evaluate("xlaSweeps.filtered()") == places, name
        assert (len(places) == 0) == (name == "nothing that was measured")
        check_figures(browser, answers_of(page.rows, filters), filters)


def check_figures(browser: Browser, rows: list[Row], filters: Filters) -> None:
    """The overview and the chips are those of these rows.

    A filter on the verdict selects by the outcome, so it changes none of them.
    """
    draw_everything(browser)
    counts = dict(
        browser.evaluate(
            "[...document.querySelectorAll('#verdicts .chip')].map((chip) => "
            "[chip.dataset.verdict, chip.querySelector('b').textContent])"
        )
    )
    for word in VERDICTS if rows else ():
        assert counts[word] == f"{sum(row['verdict'] == word for row in rows):,}"
    if {("origin", "imported"), ("origin", "all")} & set(filters):
        return
    sums = sums_of(rows, dict(filters).get("baseline", "graph"))
    shown = browser.evaluate("xlaSweeps.overview()")
    for name, value in asdict(sums).items():
        if name in ("scenario", "baseline", "candidate", "not_measured"):
            continue
        if name.startswith("spread"):
            continue
        about = pytest.approx(value, rel=1e-6) if isinstance(value, float) else value
        assert shown[name] == about, name


def test_no_filter_on_an_outcome_changes_the_answer(show: Show, study: Studies) -> None:
    page = study(900)
    browser = show(page)
    parts = ("#answer-sentence", "#answer-rows")
    before = [browser.words(part) for part in parts]
    whole = len(answers_of(page.rows))
    for outcome in (("verdict", "failed"), ("verdict", "slower")):
        turn(browser, [outcome])
        assert [browser.words(part) for part in parts] == before, outcome
        said = browser.words("#answer-sub")
        assert f"The answer counts all {whole:,}; of single ones" in said


def test_the_map_counts_what_failed_and_what_was_skipped(show: Show) -> None:
    lost = {"verdict": "failed", "failed_mode": "xla"}
    rows = [
        pair_row(1, 132.0),
        base_row(trial_id="2" * 16, batch_size=8, status="oom_gpu", **lost),
        base_row(trial_id="3" * 16, batch_size=32, status="skipped", **lost),
        base_row(trial_id="4" * 16, resolution_px=96, status="skipped", **lost),
    ]
    browser = show(rows, planned=8, trials=4, draw=open_everything)
    words = browser.words("#where")
    assert "1.32× (1, 1 failed, 2 skipped)" in words


def test_operations_that_are_only_a_lower_bound_are_marked(show: Show) -> None:
    rows = [
        pair_row(number, 150.0 + number, model=f"m{number}", macs=macs, macs_at_least=unknown)
        for number, (macs, unknown) in enumerate([(1.5e9, 0), (4.5e9, 1), (7.5e9, 0)])
    ]
    browser = show(rows, draw=open_everything)
    shown = browser.words("body").split()
    assert "9" in shown[shown.index("≥") :][1]
    assert shown.count("≥") == 1
    assert {"3.00", "15.0"} <= set(shown)


def test_every_figure_has_three_digits(show: Show) -> None:
    rows = [
        base_row(trial_id=f"{number:016}", batch_size=number, latency_p50_ms=p50, compile_s=2.0)
        | compared(100.0, rate, 0.0001)
        for number, (rate, p50) in enumerate([(104.7, 9.0), (95.0, 89.92), (1234.0, 3.5)], start=1)
    ]
    browser = show(rows, draw=open_everything)
    words = set(browser.words("main").split())
    assert {"1.05×", "0.950×", "12.3×", "9.00", "89.9", "3.50", "1.23", "2.00"} <= words
    assert not {"1.047×", "0.95×", "9", "89.92", "3.5"} & words
