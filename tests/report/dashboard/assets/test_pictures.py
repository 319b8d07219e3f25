"""Charts that leave the page: a picture is whole, says what it shows, and loads nothing."""

from __future__ import annotations

import json
import struct
from typing import Any
from xml.etree import ElementTree

import pytest
from browser import PHONE, Browser
from dashboard_page import COMPARISON, Show, bring, draw_everything, saved_file
from synthetic_rows import EXPLOIT, WRONG, make_rows, pair_row

pytestmark = pytest.mark.browser

SVG = "{http://www.w3.org/2000/svg}"


def picture(browser: Browser, chart: str) -> ElementTree.Element:
    """The file that the button SVG of a chart saves."""
    name, content = saved_file(browser, chart, "last-child")
    assert name == f"{chart}.svg"
    return ElementTree.fromstring(content)


def words_of(root: ElementTree.Element) -> str:
    return " ".join(" ".join(text.itertext()) for text in root.iter(f"{SVG}text"))


def test_a_picture_says_what_over_what_where_when_and_of_how_many(show: Show) -> None:
    browser = show(900, draw=draw_everything)
    for chart in ("pairs", "where", "flops", "cost", "series", "twins"):
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
        for said in ("xla_sweeps", "TensorFlow", " · driver 570.86", "2026-11-"):
            assert said in words
        tags = {element.tag for element in root.iter()}
        assert not tags & {f"{SVG}{name}" for name in ("style", "image", "script")}
        assert root[0].tag == f"{SVG}rect", "a background, so that it can lie on any page"


def test_a_picture_and_a_print_are_light_on_a_dark_screen(show: Show) -> None:
    colour = "getComputedStyle(document.documentElement).getPropertyValue('--panel').trim()"
    browser = show(300, dark=True)
    dark = browser.evaluate(colour)
    assert dark != "#ffffff"
    assert picture(browser, "pairs")[0].get("fill") == "#ffffff"
    assert browser.evaluate(colour) == dark
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert browser.evaluate(colour) == "#ffffff"
    browser.evaluate("dispatchEvent(new Event('afterprint'))")
    assert browser.evaluate(colour) == dark


def test_a_picture_says_what_it_leaves_out(show: Show) -> None:
    rows = [pair_row(place, 120.0 + place, model=f"m{place}") for place in (1, 2)]
    rows.append(pair_row(3, 900.0, model="wrong") | WRONG)
    browser = show(rows)
    said = "1 configuration failed and has no mark."
    assert said in browser.words("[data-chart=pairs] figcaption")
    assert said in words_of(picture(browser, "pairs"))


def test_a_picture_of_two_folders_says_when_they_were_measured(show: Show) -> None:
    browser = show([*make_rows(12)], comparison=COMPARISON, draw=draw_everything)
    assert " Nov 2026" in words_of(picture(browser, "difference"))


def test_a_picture_from_a_phone_runs_over_no_edge(show: Show) -> None:
    browser = show(900, size=PHONE, draw=draw_everything)
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
def test_an_image_is_copied_as_png_or_saved_where_the_clipboard_refuses(show: Show) -> None:
    browser = show(300)
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
    name, content = saved_file(browser, "pairs", "nth-child(3)")
    assert name == "pairs.png"
    assert png_size(content) == (width, height)


def png_size(content: bytes) -> tuple[int, int]:
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    return width, height


HOSTILE = ("__proto__", "constructor", EXPLOIT, "a\x00b\x07c", "\ufffe", "{a|b}")


def test_hostile_names_make_well_formed_pictures_and_change_no_prototype(show: Show) -> None:
    rows: list[dict[str, Any]] = []
    for n, text in enumerate(HOSTILE):
        for device in (text, "GPU"):
            names = {"model": text, "family": text, "device": device, "software": text}
            costs = {"macs": 1e9 * (n + 1), "compile_s_extra": 5.0 + n, "break_even_calls": 100.0}
            rows.append(pair_row(len(rows), 110.0 + 10 * n, **names, **costs))
    browser = show(rows, draw=draw_everything)
    for chart in ("pairs", "where", "flops", "cost"):
        words = words_of(picture(browser, chart))
        assert chart in ("cost", "flops") or "__proto__" in words
    everything = (
        "(() => { const found = []; for (const name in {}) found.push(name); return found; })()"
    )
    assert browser.evaluate(everything) == []
    assert browser.evaluate("globalThis.exploited") is None
