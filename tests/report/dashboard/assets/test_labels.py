"""Names and looks of figures: no two rows of one name, and doubt that is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from dashboard_page import Study, bring, draw_everything, open_all_details, visit, write_page
from synthetic_rows import base_row, compared

pytestmark = pytest.mark.browser

LABELS = """echarts.getInstanceByDom(document.querySelector('#answer-charts .canvas'))
  .getOption().yAxis[0].data"""

LOOKS = """echarts.getInstanceByDom(document.querySelector('#answer-charts .canvas'))
  .getZr().storage.getDisplayList(true).map(({style, shape}) => [style.text ?? '',
    style.fill ?? '', style.stroke ?? '', shape?.height ?? 0])"""


def measured(number: int, rate: float, **changes: Any) -> dict[str, Any]:
    return base_row(trial_id=f"{number:016}", **changes) | compared(100.0, rate, 0.02)


def again() -> list[dict[str, Any]]:
    """One question measured in five ways, and two others."""
    return [
        measured(1, 110.0),
        measured(2, 120.0, effort="quick", replicates=1, preliminary=1),
        measured(3, 130.0, software="TensorFlow 2.20.0, Keras 3.15.1"),
        measured(4, 140.0, modes="graph,xla"),
        measured(5, 150.0, scenario="detect"),
        measured(6, 160.0, model="vgg16", measured_at="2026-11-02T12:00:00+00:00"),
        measured(7, 155.0, measured_at="2026-11-03T12:00:00+00:00"),
    ]


def test_rows_that_share_their_settings_are_told_apart_and_counted_once(
    browser: Browser, tmp_path: Path
) -> None:
    page = write_page(tmp_path / "page.html", again())
    visit(browser, page)
    draw_everything(browser)
    labels = browser.evaluate(LABELS)
    assert len(set(labels)) == len(labels) == 7
    for words in ("detect", "quick", "TensorFlow 2.20.0", "graph,xla"):
        assert sum(f" · {words}" in label for label in labels) == 1, (words, labels)
    assert "vgg16" in labels, "which nothing shares its settings with"
    overview = browser.evaluate("xlaSweeps.overview()")
    assert (overview["pairs"], overview["models"]) == (3, 2)
    assert overview["geomean"] == pytest.approx(((1.55 * 1.5) ** 0.5 * 1.6) ** 0.5, rel=1e-4)
    assert "3 of 3 configurations, 4 measured again" in browser.evaluate(
        "document.getElementById('shown').innerText"
    )
    assert browser.complaints == []


@pytest.mark.parametrize(
    ("column", "value", "rows"),
    [
        ("effort", "quick", 1),
        ("scenario", "detect", 1),
        ("modes", "graph,xla", 1),
        ("software", "TensorFlow 2.21.0, Keras 3.15.1", 6),
    ],
)
def test_what_tells_rows_apart_is_a_filter(
    browser: Browser, tmp_path: Path, column: str, value: str, rows: int
) -> None:
    visit(browser, write_page(tmp_path / "page.html", again()), [(column, value)])
    assert browser.evaluate("xlaSweeps.rows()") == rows
    assert (
        browser.evaluate(f"document.querySelector('#filters [name=f-{column}]:checked').value")
        == value
    )


def doubtful() -> list[dict[str, Any]]:
    clean = [measured(n, 130.0 + 10 * n, model=f"m{n}") for n in (1, 2)]
    return [
        *clean,
        measured(3, 160.0, model="m3", preliminary=1, replicates=1),
        measured(4, 170.0, model="m4", status="contaminated"),
    ]


def test_preliminary_and_contaminated_figures_are_hollow_and_marked(
    browser: Browser, tmp_path: Path
) -> None:
    visit(browser, write_page(tmp_path / "page.html", doubtful()), [("theme", "light")])
    draw_everything(browser)
    looks = browser.evaluate(LOOKS)
    texts = [text for text, *_ in looks]
    for figure in ("▲ 1.70×~", "▲ 1.60×*", "▲ 1.50×", "▲ 1.40×"):
        assert figure in texts
    fills = [fill for _, fill, _, height in looks if height == 12]
    assert fills == ["#ffffff", "#ffffff", "#0072b2", "#0072b2"]
    legend = browser.evaluate("document.querySelector('#answer-charts .legend').innerText")
    assert "hollow: * fewer than 3 replicates: preliminary; ~ contaminated" in legend
    open_all_details(browser)
    words = browser.evaluate("document.body.innerText")
    assert words.count("1.70×~") >= 3, "in tables too"
    assert "1.50×*" not in words
    assert "1.50×~" not in words


def test_published_figures_of_one_mode_are_listed(browser: Browser, tmp_path: Path) -> None:
    alone = {
        "origin": "imported",
        "flags": "imported",
        "verdict": "ambiguous",
        "baseline": "eager",
        "throughput_samples_per_s": 321.0,
        "replicates": 1,
        "preliminary": 1,
    }
    rows = [
        measured(1, 130.0),
        *(base_row(trial_id=f"{n:016}", **alone, model=f"published{n}") for n in (2, 3)),
    ]
    page = write_page(tmp_path / "page.html", rows)
    visit(browser, page)
    assert browser.evaluate("document.getElementById('published').checkVisibility()")
    bring(browser, "#published")
    words = browser.evaluate("document.getElementById('published').innerText")
    assert "Not compared: 2 figures" in words
    choose_published(browser, page)


def test_modes_that_were_measured_alone_are_listed_and_no_pair(
    browser: Browser, tmp_path: Path
) -> None:
    alone = {"verdict": "none", "baseline": "", "throughput_samples_per_s": 321.0}
    rows = [measured(1, 130.0), base_row(trial_id=f"{2:016}", model="lonely", **alone)]
    visit(browser, write_page(tmp_path / "page.html", rows))
    bring(browser, "#published")
    words = browser.evaluate("document.getElementById('published').innerText")
    assert "Not compared: 1 figure" in words
    options = "[...document.querySelector('[name=f-baseline]').options].map(({value}) => value)"
    assert browser.evaluate(options) == ["graph"]
    visit(browser, write_page(tmp_path / "alone.html", rows[1:]))
    assert "No matching pair" in browser.evaluate("document.getElementById('answer').innerText")


def choose_published(browser: Browser, page: Study) -> None:
    """The baseline follows to one that was published, so that something is shown."""
    browser.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    browser.evaluate("document.querySelector('[name=f-origin]').focus()")
    browser.press("p")
    browser.wait("xlaSweeps.state.origin === 'imported'")
    assert browser.evaluate("xlaSweeps.state.baseline") == "eager"
    assert browser.evaluate("xlaSweeps.rows()") == 2
    assert browser.complaints == []


def test_a_mouse_over_every_chart_brings_no_complaint(browser: Browser, tmp_path: Path) -> None:
    rows = [
        row
        for device in ("A", "B")
        for n, row in enumerate(doubtful())
        for row in [
            row
            | {
                "device": f"GPU {device}",
                "trial_id": f"{device}{n:015}",
                "macs": 1e9 * (n + 1),
                "compile_s_extra": 5.0 + n,
                "break_even_calls": 100.0 * (n + 1),
            }
        ]
    ]
    visit(browser, write_page(tmp_path / "page.html", rows))
    draw_everything(browser)
    hosts = browser.evaluate("document.querySelectorAll('figure .canvas').length")
    seen = 0
    for number in range(hosts):
        browser.evaluate(
            f"document.querySelectorAll('figure .canvas')[{number}].id = 'canvas-{number}'"
        )
        if not browser.evaluate(f"document.getElementById('canvas-{number}').checkVisibility()"):
            continue
        seen += 1
        _, _, left, top, width, height = browser.place(f"#canvas-{number}")
        for across in range(1, 12):
            for down in range(1, 8):
                browser.hover_at(left + width * across / 12, max(0, top) + height * down / 8)
    assert seen >= 5
    assert browser.complaints == []
