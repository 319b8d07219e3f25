"""The page in real browsers: it draws, requests nothing, works by keyboard and on phones."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import DESKTOP, PHONE, Browser
from dashboard_page import (
    COMPARISON,
    SECTIONS,
    Show,
    Studies,
    axe_violations,
    draw_everything,
    open_everything,
    write_page,
)
from factories import MODEL, failed_outcome, make_outcome, make_record
from synthetic_rows import EXPLOIT, NASTY_MODEL, base_row, make_rows, pair_row

from xla_sweeps.report.dashboard import build
from xla_sweeps.schema.measurement import Status
from xla_sweeps.store.store import Store

pytestmark = pytest.mark.browser

CONTROLS = """[...document.querySelectorAll(
  'a[href], button, input, select, summary, textarea, [tabindex="0"]')].filter((element) =>
    !element.disabled && element.tabIndex >= 0 && !element.closest('table.grid')
    && element.checkVisibility({visibilityProperty: true}))"""

SHOWN_CHARTS = """[...document.querySelectorAll('figure.chart')]
  .filter((figure) => figure.checkVisibility())
  .map((figure) => figure.dataset.chart)"""

PLOTS = "document.querySelectorAll('figure.chart svg.plot').length"

CHARTS = ["pairs", "where", "flops", "cost", "series", "twins"]
"""Charts of a study of many models and devices."""

NAME = """((element) => element === document.body ? '' : [
  element.tagName, element.id, element.name ?? '', element.value ?? '',
  element.getAttribute('aria-label') ?? '', element.textContent.slice(0, 60)].join(' '))"""


def one_row() -> list[dict[str, Any]]:
    costs = {"compile_s_extra": 10.0, "break_even_calls": 500.0, "peak_memory_ratio": 0.9}
    return [pair_row(0, 130.0, **costs, params=25.6e6, macs=3.9e9, cv_percent=0.4)]


def all_failed() -> list[dict[str, Any]]:
    lost = {
        "verdict": "failed",
        "status": "oom_gpu",
        "failed_mode": "xla",
        "failure_message": "Out of memory",
    }
    return [base_row(trial_id=f"{number:016}", batch_size=number, **lost) for number in (1, 8, 32)]


STATES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "no rows": list,
    "one row": one_row,
    "all failed": all_failed,
    "imported alone": lambda: [row for row in make_rows(1000) if row["origin"] == "imported"][:6],
}


@pytest.mark.each_browser
@pytest.mark.parametrize(
    ("size", "dark"), [(DESKTOP, True), pytest.param(PHONE, False, marks=pytest.mark.exhaustive)]
)
def test_the_page_draws_without_a_request_or_an_error(
    show: Show, size: tuple[int, int], dark: bool
) -> None:
    browser = show(900, size=size, dark=dark, draw=open_everything)
    assert browser.requests == []
    for name in SECTIONS:
        box = f"document.getElementById('{name}').getBoundingClientRect()"
        assert browser.evaluate(f"{box}.height") > 50, name
    assert browser.evaluate(SHOWN_CHARTS) == CHARTS
    assert browser.evaluate(PLOTS) == len(CHARTS)
    captions = """[...document.querySelectorAll('figure.chart')].filter((figure) =>
      figure.checkVisibility()).map((figure) => figure.querySelector('figcaption').textContent)"""
    assert all(map(str.strip, browser.evaluate(captions)))


@pytest.mark.parametrize("state", STATES)
def test_the_page_of_an_unusual_study_draws_without_an_error(show: Show, state: str) -> None:
    browser = show(STATES[state](), draw=open_everything)
    assert axe_violations(browser) == []
    words = browser.words("body")
    for number in ("NaN", "undefined", "Infinity", "null"):
        assert number not in words, words[max(0, words.index(number) - 200) :][:400]


def test_a_page_of_one_row_takes_at_most_two_screens(show: Show) -> None:
    """Charts with nothing to say, their sections and the links to these are not there."""
    browser = show(one_row(), size=(1440, 900), draw=draw_everything)
    assert browser.evaluate("document.documentElement.scrollHeight") <= 2 * 900
    assert browser.evaluate(SHOWN_CHARTS) == ["pairs"]
    links = "[...document.querySelectorAll('nav a')].filter((link) => link.checkVisibility())"
    targets = browser.evaluate(f"{links}.map((link) => link.dataset.to)")
    sections = "[...document.querySelectorAll('main section')]"
    shown = f"{sections}.filter((one) => one.checkVisibility()).map((section) => section.id)"
    assert targets == browser.evaluate(shown)


def test_a_chart_comes_back_with_the_rows_it_needs(show: Show) -> None:
    browser = show(900, [("model", "none of these")])
    assert browser.evaluate(SHOWN_CHARTS) == []
    browser.evaluate("void (location.hash = '')")
    browser.wait("xlaSweeps.rows() > 0")
    draw_everything(browser)
    assert browser.evaluate(SHOWN_CHARTS) == CHARTS
    assert browser.evaluate(PLOTS) == 6


def test_a_part_that_is_moved_away_and_back_between_two_frames_is_drawn(show: Show) -> None:
    """Drawing above it moves a part, a scroll moves it back: no observer reports that."""
    browser = show(300)
    browser.evaluate(
        """(async () => {
          for (const other of document.querySelectorAll('main section:not(#trust), figure'))
            other.style.display = 'none';
          const part = document.querySelector('#trust-charts > :last-child');
          const spacer = document.createElement('p');
          document.getElementById('trust').before(spacer);
          const place = (height) => { spacer.style.height = `${height}px`; };
          place(5000);
          await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)));
          const near = 5000 + innerHeight + 100 - part.getBoundingClientRect().top;
          const seen = new IntersectionObserver(([{isIntersecting}]) => {
            if (!isIntersecting) return;
            seen.disconnect();
            place(5000);
            setTimeout(() => place(near));
          }, {rootMargin: '250px 0px'});
          seen.observe(part);
          place(near);
        })()"""
    )
    browser.wait("document.querySelector('#trust-charts > :last-child h3') !== null", timeout_s=10)


def test_the_header_shows_the_share_of_the_planned_trials(show: Show) -> None:
    rows = list(make_rows(30))
    trials = len({row["trial_id"] for row in rows})
    few, many = f"{trials} of {2 * trials}", f"{trials} of {20 * trials} (5 %)"
    assert 2 * trials < 100 < 20 * trials
    for planned, share in ((2 * trials, few), (20 * trials, many), (None, "")):
        browser = show(rows, planned=planned, trials=trials)
        badges, facts = browser.evaluate(
            "['badges', 'facts'].map((id) => document.getElementById(id).textContent)"
        )
        assert badges.startswith(f"PARTIAL {share}" if planned else "PUBLISHED"), share
        assert (f"{share} planned" if planned else f"in {trials} ") in facts
        assert ("%" in badges + facts) == (share == many), "percent of 100 and more"


def test_the_page_of_the_command_draws_without_an_error(browser: Browser, tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    store.save(make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}, noise=0.01))
    lost = {"graph": make_outcome(0.2), "xla": failed_outcome(Status.UNSUPPORTED_OP, EXPLOIT)}
    store.save(
        make_record(
            {"graph": 0.2}, trial_id="f" * 16, modes=lost, model=replace(MODEL, name=NASTY_MODEL)
        )
    )
    build.write_page([tmp_path / "results"], tmp_path / "page.html")
    browser.open((tmp_path / "page.html").as_uri())
    browser.wait("document.documentElement.dataset.ready === 'true'")
    open_everything(browser)
    assert browser.evaluate("xlaSweeps.rows()") == 2
    assert browser.words("[data-verdict=faster] b") == "1"
    assert EXPLOIT in browser.words("#broke")
    assert NASTY_MODEL in browser.words("#broke")
    assert (browser.complaints, browser.requests) == ([], [])
    assert axe_violations(browser) == []


DAILY = [(DESKTOP, True, False), (PHONE, False, True)]


@pytest.mark.parametrize(
    ("size", "dark", "all_open"),
    [
        pytest.param(*case, marks=() if case in DAILY else pytest.mark.exhaustive)
        for case in itertools.product((DESKTOP, PHONE), (True, False), (True, False))
    ],
    ids=lambda value: {DESKTOP: "desktop", PHONE: "phone"}.get(value, str(value)),
)
def test_the_accessibility_checker_finds_nothing(
    show: Show, dark: bool, size: tuple[int, int], all_open: bool
) -> None:
    """The page as it opens, or all details of fewer rows: large tables take the checker long."""
    browser = show(12 if all_open else 45, dark=dark, size=size)
    (open_everything if all_open else draw_everything)(browser)
    assert axe_violations(browser) == []


def test_the_section_of_changes_is_shown_if_two_folders_are_compared(show: Show) -> None:
    browser = show([*make_rows(12)], comparison=COMPARISON, draw=open_everything)
    words = browser.words("#difference")
    for word in (
        "before <b>x</b>",
        "after {a|b}",
        "resnet50 · 224 px",
        "1.25×",
        "2.20.0",
        "2.21.0",
        "vgg16 224 px on <i>GPU</i>",
        "0.003",
        "1 of 4 comparisons are contaminated by other load on the machine: ambiguous.",
        "no anchor trial in common: the machine's own speed is unknown",
    ):
        assert word in words
    assert "resnet50 · 32 px" not in words, "of another scenario"
    assert axe_violations(browser) == []


@pytest.mark.parametrize("count", [900, pytest.param(5000, marks=pytest.mark.exhaustive)])
def test_many_rows_take_few_screens_of_a_phone(show: Show, count: int) -> None:
    browser = show(count, size=PHONE, draw=draw_everything)
    assert browser.evaluate("document.documentElement.scrollHeight") <= 14 * PHONE[1]


def test_a_phone_needs_no_sideways_scrolling(show: Show) -> None:
    browser = show(300, size=PHONE, draw=draw_everything)
    widest = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"
    assert browser.evaluate(widest) <= PHONE[0]
    open_everything(browser)
    assert browser.evaluate(widest) <= PHONE[0]
    browser.evaluate("scrollTo(500, 0)")
    assert browser.evaluate("scrollX") == 0


def test_tab_reaches_every_control_and_the_focus_is_visible(show: Show) -> None:
    browser = show(list(make_rows(45)), draw=draw_everything)
    expected = browser.evaluate(f"{CONTROLS}.map({NAME})")
    assert len(expected) > 40
    reached: list[str] = []
    for _ in range(len(expected) + 400):
        browser.press("Tab")
        name, ring = browser.evaluate(
            f"""(() => {{ const element = document.activeElement, style = getComputedStyle(element);
            return [{NAME}(element),
              style.outlineStyle !== 'none' || style.boxShadow !== 'none']; }})()"""
        )
        if name:
            assert ring, f"no sign of focus on {name}"
        reached.append(name)
        if not set(expected) - set(reached) or (not name and len(reached) > 5):
            break
    assert not set(expected) - set(reached)


def focus_by_tab(browser: Browser, condition: str, *, most: int = 300) -> None:
    """Press Tab until what has the focus meets the condition."""
    for _ in range(most):
        if browser.evaluate(f"((element) => {condition})(document.activeElement)"):
            return
        browser.press("Tab")
    raise AssertionError(f"Tab never came to {condition}")


def test_chips_are_pressed_by_key_and_keep_the_focus(show: Show) -> None:
    browser = show(300)
    everything = browser.evaluate("xlaSweeps.rows()")
    is_chip = "element.dataset.verdict === 'faster' && element.tagName === 'BUTTON'"
    focus_by_tab(browser, is_chip)
    browser.press("Enter")
    shown = browser.evaluate("xlaSweeps.rows()")
    assert shown >= browser.evaluate("xlaSweeps.overview().faster") > 0
    assert 0 < shown < everything
    pressed = f"{is_chip} && element.getAttribute('aria-pressed')"
    assert browser.evaluate(f"((element) => {pressed})(document.activeElement)") == "true"
    browser.press(" ")
    assert browser.evaluate("xlaSweeps.rows()") == everything


def test_a_list_of_filters_opens_and_closes_by_key(show: Show) -> None:
    browser = show(300)
    focus_by_tab(browser, "element.tagName === 'SUMMARY' && element.textContent === 'any device'")
    browser.press("Enter", "Tab", " ", "Tab", " ")
    devices = browser.evaluate("new URLSearchParams(location.hash.slice(1)).getAll('device')")
    assert len(devices) == 2
    browser.press("Escape")
    assert browser.evaluate("document.querySelectorAll('#filters details.facet[open]').length") == 0
    assert browser.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_the_content_security_policy_allows_the_pages_own_scripts_alone(study: Studies) -> None:
    text = study(300).path.read_text(encoding="utf-8")
    policy = html.unescape(
        re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[0]
    )
    said = {words.split()[0]: words.split()[1:] for words in policy.split(";")}
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    (loader,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    packed = dict(
        re.findall(r'<script type="application/octet-stream" id="(\w+)">([^<]*)</script>', text)
    )
    scripts = [
        loader,
        *(
            gzip.decompress(base64.b64decode(packed[name])).decode()
            for name in ("library", "program")
        ),
    ]
    assert said == {
        "default-src": ["'none'"],
        "script-src": [hashed(script) for script in scripts],
        "style-src": [hashed(style)],
        "img-src": ["data:"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    markup = text.replace(style, "").replace(loader, "")
    assert not re.search(r"<[^>]*\s(style|on\w+)\s*=", markup), (
        "an attribute that the policy forbids"
    )
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", markup), (
        "something is loaded from elsewhere"
    )


def hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_pages_are_small(study: Studies, tmp_path: Path) -> None:
    page = study(5000)
    assert len(page.rows) >= 5000
    assert page.path.stat().st_size <= 1_000_000
    assert write_page(tmp_path / "one.html", one_row()).path.stat().st_size <= 250_000


def test_a_browser_that_is_too_old_says_so(
    browser: Browser, study: Studies, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.html"
    text = study(300).path.read_text(encoding="utf-8")
    program = re.findall(r'id="program">([^<]*)</script>', text)[0]
    broken.write_text(text.replace(program, json.dumps("not gzip")), encoding="utf-8")
    browser.open(broken.as_uri())
    browser.wait("document.documentElement.dataset.error")
    assert "it needs a browser from 2023 or later" in browser.words("body")
