"""Names and looks of figures: no two rows of one name, and doubt that is seen."""

from __future__ import annotations

from typing import Any

import pytest
from dashboard_page import Show, bring, draw_everything, open_everything, texts_of, tip_at, turn
from synthetic_rows import base_row, pair_row

pytestmark = pytest.mark.browser

LABELS = "#answer-charts [data-mark='y-axis tick label'] text"

LOOKS = """[...document.querySelectorAll("#answer-charts svg [data-mark=dot] path")]
  .map((bar) => [bar.getAttribute("fill"), bar.getAttribute("stroke")])"""


def again() -> list[dict[str, Any]]:
    """One question measured in five ways, and two others, one of which in another scenario."""
    return [
        pair_row(1, 110.0),
        pair_row(2, 120.0, effort="quick", replicates=1),
        pair_row(3, 130.0, software="TensorFlow 2.20.0, Keras 3.15.1"),
        pair_row(4, 140.0, modes="graph,xla"),
        pair_row(5, 150.0, scenario="detect"),
        pair_row(6, 160.0, model="vgg16", measured_at="2026-11-02T12:00:00+00:00"),
        pair_row(7, 155.0, measured_at="2026-11-03T12:00:00+00:00"),
    ]


def test_rows_of_the_same_settings_are_drawn_once_and_told_apart_by_filters(show: Show) -> None:
    browser = show(again(), draw=draw_everything)
    assert texts_of(browser, LABELS) == ["resnet50", "vgg16"], "each once"
    overview = browser.evaluate("xlaSweeps.overview()")
    assert (overview["pairs"], overview["models"]) == (2, 2)
    assert overview["geomean"] == pytest.approx((1.55 * 1.6) ** 0.5, rel=1e-4)
    assert "2 of 2 configurations, 4 measured again" in browser.words("#shown")
    for column, value, rows in (
        ("effort", "quick", 1),
        ("modes", "graph,xla", 1),
        ("software", "TensorFlow 2.21.0, Keras 3.15.1", 5),
    ):
        turn(browser, [(column, value)])
        assert browser.evaluate("xlaSweeps.rows()") == rows, column
        chosen = f"document.querySelector('#filters [name=f-{column}]:checked').value"
        assert browser.evaluate(chosen) == value


def test_batches_a_call_tell_rows_apart(show: Show) -> None:
    rows = [pair_row(n, 110.0 + n, batches=n) for n in (1, 4)]
    browser = show(rows, draw=draw_everything)
    assert texts_of(browser, LABELS) == [f"resnet50 · {n} batches a call" for n in (1, 4)]


def test_options_of_tensorflow_tell_rows_apart_wherever_settings_do(show: Show) -> None:
    rows = [
        pair_row(10 * batch + place, rate + batch, batch_size=batch, runtime=runtime)
        for place, (runtime, rate) in enumerate([("", 110.0), ("onednn=false", 150.0)])
        for batch in (1, 8, 32)
    ]
    browser = show(rows, draw=draw_everything)
    note = browser.words("#answer-rows > .note")
    assert note == "2 more configurations: choose batch and options above."
    heads = "[...document.querySelectorAll('.grid th')].map((head) => head.dataset.column)"
    assert "runtime" in browser.evaluate(heads)
    for value, word in (("", "defaults"), ("onednn=false", "onednn=false")):
        turn(browser, [("runtime", value), ("batch_size", "8")])
        assert browser.evaluate("xlaSweeps.rows()") == 1
        assert word in browser.evaluate("document.getElementById('tokens').textContent")
        said = browser.words("#answer-sentence")
        assert ("with onednn=false" in said) == bool(value)


def doubtful() -> list[dict[str, Any]]:
    clean = [pair_row(n, 130.0 + 10 * n, model=f"m{n}") for n in (1, 2)]
    return [
        *clean,
        pair_row(3, 160.0, model="m3", replicates=1),
        pair_row(4, 170.0, model="m4", status="contaminated"),
    ]


def test_contaminated_figures_are_hollow_and_marked(show: Show) -> None:
    browser = show(doubtful(), draw=draw_everything)
    texts = texts_of(browser, "#answer-charts svg text")
    for figure in ("▲ 1.70×~", "▲ 1.60×", "▲ 1.50×", "▲ 1.40×"):
        assert figure in texts
    blue = "#0072b2"
    hollow, full = ["#ffffff", blue], [blue, blue]
    assert browser.evaluate(LOOKS) == [full, full, full, hollow]
    legend = browser.words("#answer-charts .legend")
    assert "hollow: ~ contaminated" in legend
    open_everything(browser)
    words = browser.words("body")
    assert words.count("1.70×~") >= 3, "in tables too"
    assert "1.60×*" in words, "of one replicate"
    assert "1.50×~" not in words


def test_figures_of_one_mode_are_listed_and_are_no_pair(show: Show) -> None:
    alone = {"verdict": "none", "baseline": "", "throughput_samples_per_s": 321.0}
    published: dict[str, Any] = {"origin": "imported", "flags": "imported", "verdict": "ambiguous"}
    published |= {"throughput_samples_per_s": 321.0, "replicates": 1, "baseline": "eager"}
    lonely = base_row(trial_id=f"{4:016}", model="lonely", **alone)
    rows = [
        pair_row(1, 130.0),
        *(base_row(trial_id=f"{n:016}", **published, model=f"published{n}") for n in (2, 3)),
        lonely,
    ]
    browser = show(rows)
    bring(browser, "#published")
    words = browser.words("#published")
    assert "Not compared: 3 figures" in words
    options = "[...document.querySelector('[name=f-pair]').options].map(({value}) => value)"
    assert browser.evaluate(options) == ["xla/graph"], "of the pairs that were measured"
    browser.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    browser.evaluate("document.querySelector('[name=f-origin]').focus()")
    browser.press("p")
    browser.wait("xlaSweeps.state.origin === 'imported'")
    assert browser.evaluate("xlaSweeps.state.baseline") == "eager", "the pair follows"
    assert browser.evaluate(options) == ["xla/eager"]
    assert browser.evaluate("xlaSweeps.rows()") == 2
    show([lonely])
    assert "No matching configuration" in browser.words("#answer")


def two_devices() -> list[dict[str, Any]]:
    return [
        row
        | {
            "device": f"GPU {device}",
            "trial_id": f"{device}{n:015}",
            "macs": 1e9 * (n + 1),
            "compile_s_extra": 5.0 + n,
            "break_even_calls": 100.0 * (n + 1),
        }
        for device in ("A", "B")
        for n, row in enumerate(doubtful())
    ]


CENTRES = """[...document.querySelectorAll(
  '[data-chart={}] [data-mark={}] :is(path, circle, rect)')]
  .map((mark) => mark.getBoundingClientRect())
  .map(({{left, top, width, height}}) => [left + width / 2, top + height / 2])"""


SPEEDUPS = {"1.40×", "1.50×", "1.60×", "1.70×~"}

IN_TIPS = {
    ("pairs", "dot"): SPEEDUPS,
    ("where", "dot"): {
        "1.40× over 1 configuration",
        "1.60× over 1 configuration",
        "1.70×~ over 1 configuration",
    },
    ("flops", "dot"): {"140 img/s", "150 img/s", "160 img/s", "170 img/s~"},
    ("cost", "dot"): SPEEDUPS,
}


@pytest.mark.each_browser
def test_a_mouse_over_each_mark_of_a_chart_brings_its_figure(show: Show) -> None:
    browser = show(two_devices(), draw=draw_everything)
    for (chart, marks), words in IN_TIPS.items():
        bring(browser, f"[data-chart={chart}] .canvas")
        said = {tip_at(browser, x, y) for x, y in browser.evaluate(CENTRES.format(chart, marks))}
        for figure in words:
            assert any(figure in text for text in said), (chart, figure, said)
