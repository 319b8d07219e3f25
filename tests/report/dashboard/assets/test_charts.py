"""Texts of charts: titles, ranges, columns of several pairs; and charts that are hidden."""

from __future__ import annotations

import re

import pytest
from browser import Browser
from dashboard_page import (
    Show,
    bring,
    draw_everything,
    open_everything,
    saved_file,
    texts_of,
    tip_at,
    turn,
)
from synthetic_rows import pair_row

pytestmark = pytest.mark.browser


def tip_over(browser: Browser, chart: str, mark: str) -> str:
    """The tip for a mouse over the middle of a chart's first mark."""
    bring(browser, f"[data-chart={chart}] .canvas")
    x, y = browser.evaluate(
        f"""(({{left, top, width, height}}) => [left + width / 2, top + height / 2])(
          document.querySelector('[data-chart={chart}] [data-mark={mark}] :is(path, circle, rect)')
            .getBoundingClientRect())"""
    )
    return tip_at(browser, x, y)


def test_operations_without_a_throughput_make_no_chart(show: Show) -> None:
    unknown = {"throughput_samples_per_s": None, "baseline_throughput_samples_per_s": None}
    rows = [
        pair_row(number, 150.0 + number, model=f"m{number}", macs=1e9 * number) | unknown
        for number in range(1, 6)
    ]
    browser = show(rows, draw=draw_everything)
    assert not browser.evaluate("document.getElementById('flops').checkVisibility()")


def test_the_map_has_the_range_of_each_family_and_no_mean(show: Show) -> None:
    speedups = [1.2 + 0.1 * number for number in range(11)]
    rows = [
        pair_row(100 * place + number, 100 * speedup, model=f"{family}{number}", family=family)
        for place, (family, models) in enumerate([("Many", 11), ("Few", 7), ("Other", 3)])
        for number, speedup in enumerate(speedups[:models])
    ]
    browser = show(rows, draw=open_everything)
    cells = browser.evaluate(
        """[...document.querySelectorAll('[data-chart=where] tbody tr')].map((row) =>
          [...row.cells].map((cell) => cell.innerText.trim()))"""
    )
    assert cells == [
        ["Few", "1.20–1.80× (7)"],
        ["Many", "1.20–2.20× (11)"],
        ["Other", "1.20–1.40× (3)"],
    ]
    assert "over 7 configurations" in tip_over(browser, "where", "dot")


def test_of_very_many_lines_the_ends_are_drawn_and_the_table_has_all(show: Show) -> None:
    rows = [pair_row(number, 110 + number, model=f"m{number}") for number in range(200)]
    browser = show(rows)
    chart = "document.querySelector('[data-chart=pairs]')"
    assert "Of 200 lines those with the 60 highest" in browser.evaluate(f"{chart}.innerText")
    name, content = saved_file(browser, "pairs", "nth-child(2)")
    lines = content.decode().splitlines()
    assert (name, len(lines)) == ("pairs.csv", 201)
    assert lines[1].split(",")[1] == "3.09×"


def test_a_configuration_that_was_measured_again_is_a_line_over_time(show: Show) -> None:
    rows = [
        pair_row(day, rate, measured_at=f"2026-11-0{day}T12:00:00+00:00")
        | {"software": f"{made}, Keras 3", "commit": commit}
        for day, rate, made, commit in (
            (1, 120.0, "TF 1", "1a"),
            (3, 150.0, "TF 3", "2b"),
            (2, 130.0, "TF 2", "1a"),
            (4, 150.0, "TF 3", "3c"),
        )
    ]
    rows.append(pair_row(5, 90.0, model="vgg16"))
    browser = show(rows, draw=open_everything)
    words = browser.words("#series")
    assert "resnet50: from 1.20× (2026-11-01) to 1.50× (2026-11-04)" in words
    assert "1 configuration of 1 model · 2026-11-01 to 2026-11-04" in words
    assert words.index("TF 1, Keras") < words.index("TF 2, Keras 3, commit 1a")
    assert browser.evaluate("document.querySelectorAll('#series [data-mark=dot] path').length") == 4
    texts = texts_of(browser, "#series svg.plot text")
    news = [text for text in texts if re.search(r"TF|commit", text)]
    assert sorted(news) == ["TF 2", "TF 3, commit 2b", "commit 3c"]
    name, content = saved_file(browser, "series", "nth-child(2)")
    lines = content.decode().splitlines()
    assert (name, len(lines)) == ("series.csv", 5)
    assert lines[4].startswith('resnet50,2026-11-04 12:00,"TF 3, Keras 3, commit 3c"')


def test_the_pairs_chart_has_a_head_for_each_device_whose_names_begin_alike(show: Show) -> None:
    devices = [f"NVIDIA H100 80GB HBM3 MIG {size}g" for size in (1, 3)]
    rows = [pair_row(place, 150.0, device=device) for place, device in enumerate(devices)]
    browser = show(rows)
    texts = texts_of(browser, "[data-chart=pairs] svg text")
    assert [text for text in texts if "H100" in text] == devices


def test_a_filter_of_verdicts_says_in_the_title_how_many_are_shown(show: Show) -> None:
    rates = (150.0, 120.0, 90.0, 70.0, 50.0)
    rows = [pair_row(place, rate, model=f"m{place}") for place, rate in enumerate(rates)]
    browser = show(rows)
    title = "[data-chart=pairs] h3"
    said = "XLA is faster than graph in 2 of 5 configurations: from m0 1.50× to m4 0.500×"
    assert browser.words(title) == said
    turn(browser, [("verdict", "slower")])
    said = "XLA over graph, 3 of 5 configurations shown: from m2 0.900× to m4 0.500×"
    assert browser.words(title) == said
    assert "3 configurations of 3 models" in browser.words("[data-chart=pairs] .subject")


def test_on_paper_a_long_chart_is_in_parts_of_forty_lines_to_one_scale(show: Show) -> None:
    rows = [pair_row(number, 80.0 + number, model=f"m{number:03}") for number in range(100)]
    browser = show(rows)
    drawn = """[...document.querySelectorAll('[data-chart=pairs] svg.plot')].map((plot) => {
      const texts = [...plot.querySelectorAll('text')].map((one) => one.textContent);
      const tick = texts.find((text) => text.endsWith('×'));
      return [texts.filter((text) => /^m\\d+$/.test(text)), tick];
    })"""
    models = sorted(row["model"] for row in rows)
    ((whole, _),) = browser.evaluate(drawn)
    assert sorted(whole) == models
    assert browser.kind != "chromium" or browser.count_sheets() <= 3, "the first is full"
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    parts = browser.evaluate(drawn)
    assert [len(names) for names, _ in parts] == [33, 34, 33]
    assert sorted(name for names, _ in parts for name in names) == models
    assert len({tick for _, tick in parts}) == 1
    browser.evaluate("dispatchEvent(new Event('afterprint'))")
    browser.wait(f"{drawn}.length === 1")
