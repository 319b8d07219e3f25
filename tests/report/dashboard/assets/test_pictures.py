"""Charts that leave the page: a picture is whole, says what it shows, and loads nothing."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from browser import PHONE, Browser
from dashboard_page import COMPARISON, Study, bring, draw_everything, visit, write_page
from synthetic_rows import EXPLOIT, WRONG, make_rows, pair_row

pytestmark = pytest.mark.browser

Studies = Callable[[int], Study]

CHARTS = ("pairs", "where", "flops", "cost", "series", "twins")

SVG = "{http://www.w3.org/2000/svg}"


def picture(browser: Browser, chart: str) -> ElementTree.Element:
    """The file that the button SVG of a chart saves."""
    bring(browser, f"[data-chart={chart}] .take")
    name, content = browser.download(
        lambda: browser.click(f"[data-chart={chart}] .take button:last-child")
    )
    assert name == f"{chart}.svg"
    return ElementTree.fromstring(content)


def words_of(root: ElementTree.Element) -> str:
    return " ".join(" ".join(text.itertext()) for text in root.iter(f"{SVG}text"))


def test_a_picture_says_what_over_what_where_when_and_of_how_many(
    browser: Browser, study: Studies
) -> None:
    visit(browser, study(900))
    draw_everything(browser)
    for chart in CHARTS:
        check_picture(browser, chart)
    assert browser.complaints == []


def check_picture(browser: Browser, chart: str) -> None:
    root = picture(browser, chart)
    words = words_of(root)
    figure = f"document.querySelector('[data-chart={chart}]')"
    for part in ("h3", ".subject"):
        shown = browser.evaluate(f"{figure}.querySelector('{part}').innerText")
        assert shown
        assert " ".join(shown.split()) in " ".join(words.split()), part
    over = {"twins": "graph_2 over graph", "flops": "Throughput of XLA at"}
    assert over.get(chart, "XLA over graph") in words
    device = {"series": "<i>A100</i>"}.get(chart, "AMD EPYC 9654")  # which it draws
    assert device in words
    assert "xla_sweeps" in words
    assert "TensorFlow" in words
    assert " · driver 570.86" in words
    assert "2026-11-" in words
    assert not {element.tag for element in root.iter()} & {
        f"{SVG}style",
        f"{SVG}image",
        f"{SVG}script",
    }
    assert root[0].tag == f"{SVG}rect", "a background, so that it can lie on any page"


def test_a_picture_and_a_print_are_light_on_a_dark_screen(browser: Browser, study: Studies) -> None:
    colour = "getComputedStyle(document.documentElement).getPropertyValue('--panel').trim()"
    visit(browser, study(300), dark=True)
    dark = browser.evaluate(colour)
    assert dark != "#ffffff"
    assert picture(browser, "pairs")[0].get("fill") == "#ffffff"
    assert browser.evaluate(colour) == dark
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert browser.evaluate(colour) == "#ffffff"
    browser.evaluate("dispatchEvent(new Event('afterprint'))")
    assert browser.evaluate(colour) == dark


def test_a_picture_says_what_it_leaves_out(browser: Browser, tmp_path: Path) -> None:
    rows = [pair_row(place, 120.0 + place, model=f"m{place}") for place in (1, 2)]
    rows.append(pair_row(3, 900.0, model="wrong") | WRONG)
    visit(browser, write_page(tmp_path / "page.html", rows))
    said = "1 configuration failed and has no mark."
    assert said in browser.words("[data-chart=pairs] figcaption")
    assert said in words_of(picture(browser, "pairs"))


def test_a_picture_of_two_folders_says_when_they_were_measured(
    browser: Browser, tmp_path: Path
) -> None:
    page = write_page(tmp_path / "compare.html", list(make_rows(12)), comparison=COMPARISON)
    visit(browser, page)
    draw_everything(browser)
    assert " Nov 2026" in words_of(picture(browser, "difference"))


def test_a_picture_from_a_phone_runs_over_no_edge(browser: Browser, study: Studies) -> None:
    visit(browser, study(900), size=PHONE)
    draw_everything(browser)
    saved = ElementTree.tostring(picture(browser, "pairs"), "unicode")
    ends, width = browser.evaluate(
        f"""(() => {{
          const saved = new DOMParser().parseFromString({json.dumps(saved)}, 'image/svg+xml');
          const svg = document.body.appendChild(document.adoptNode(saved.documentElement));
          return [[...svg.children].filter(({{localName}}) => localName === 'text').map((line) =>
            [line.getBBox().x + line.getBBox().width, line.textContent]),
            svg.width.baseVal.value];
        }})()"""
    )
    assert any("ambiguous" in text for _, text in ends)
    assert [text for end, text in ends if end > width] == []


@pytest.mark.each_browser
def test_an_image_is_copied_as_png_or_saved_where_the_clipboard_refuses(
    browser: Browser, study: Studies
) -> None:
    visit(browser, study(300))
    bring(browser, "[data-chart=pairs] .take")
    browser.evaluate(
        "Object.defineProperty(navigator, 'clipboard', {value: {write: async ([item]) => {"
        "globalThis.copied = await item.getType('image/png'); }}})"
    )
    browser.click("[data-chart=pairs] .take button:nth-child(3)")
    browser.wait("document.getElementById('toast').textContent === 'Image copied'")
    head = browser.evaluate("copied.arrayBuffer().then((all) => [...new Uint8Array(all)])")
    width, height = png_size(bytes(head))
    assert width > 1500
    assert height > 600
    browser.evaluate(
        "navigator.clipboard.write = async () => { throw new DOMException('no', 'NotAllowed'); }"
    )
    name, content = browser.download(
        lambda: browser.click("[data-chart=pairs] .take button:nth-child(3)")
    )
    assert name == "pairs.png"
    assert png_size(content) == (width, height)
    assert browser.complaints == []


def png_size(content: bytes) -> tuple[int, int]:
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    return width, height


HOSTILE = ("__proto__", "constructor", EXPLOIT, "a\x00b\x07c", "\ufffe", "{a|b}")


@pytest.fixture
def hostile(tmp_path: Path) -> Study:
    rows: list[dict[str, Any]] = []
    for n, text in enumerate(HOSTILE):
        for device in (text, "GPU"):
            names = {"model": text, "family": text, "device": device, "software": text}
            costs = {"macs": 1e9 * (n + 1), "compile_s_extra": 5.0 + n, "break_even_calls": 100.0}
            rows.append(pair_row(len(rows), 110.0 + 10 * n, **names, **costs))
    return write_page(tmp_path / "hostile.html", rows)


def test_hostile_names_make_well_formed_pictures_and_change_no_prototype(
    browser: Browser, hostile: Study
) -> None:
    visit(browser, hostile)
    draw_everything(browser)
    for chart in ("pairs", "where", "flops", "cost"):
        words = words_of(picture(browser, chart))
        assert chart in ("cost", "flops") or "__proto__" in words
    everything = (
        "(() => { const found = []; for (const name in {}) found.push(name); return found; })()"
    )
    assert browser.evaluate(everything) == []
    assert browser.evaluate("globalThis.exploited") is None
    assert browser.complaints == []
