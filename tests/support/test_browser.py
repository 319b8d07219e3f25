"""The browser that the page's tests use: it reports errors, and its keys and clicks are real."""

from __future__ import annotations

import base64
import hashlib
import struct
from functools import partial
from pathlib import Path

import pytest
from browser import PHONE, Browser
from browser_engine import BrowserError
from ended import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.each_browser]

PAGE = """<!doctype html><title>toy</title>
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'">
<style>body {{ margin: 0 }} button, input {{ display: block; width: 200px; height: 30px }}
#far {{ margin-top: 2000px }}
#cover {{ position: fixed; top: 0; left: 0; width: 100%; height: 100%; display: none }}</style>
<button id="one">one</button><input id="text"><button id="far">far</button>
<div id="cover"></div>
<script>{script}</script>"""

SCRIPT = """
window.log = [];
for (const name of ["keydown", "click", "pointermove"])
  document.addEventListener(name, (event) => log.push(
    `${name} ${event.key || event.target.id} ${event.isTrusted} ${event.shiftKey}`));
"""


@pytest.fixture
def toy(tmp_path: Path) -> str:
    return write(tmp_path, SCRIPT)


def write(folder: Path, script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    path = folder / "toy.html"
    path.write_text(PAGE.format(script=script, hash=digest))
    return path.as_uri()


SCRIPTS = {
    "throw new Error('thrown-word')": "thrown-word",
    "setTimeout(() => { throw new Error('later-word') })": "later-word",
    "Promise.reject(new Error('rejected-word'))": "rejected-word",
    "console.error('said-word')": "said-word",
    "console.warn('warned-word')": "warned-word",
    "document.body.innerHTML = '<img src=data:, onerror=alert(1)>'": "img-src",
    "const s = document.createElement('script'); s.textContent = '1'; document.body.append(s)": (
        "script-src"
    ),
    "try { eval('1') } catch {}": "script-src",
}


def complained(browser: Browser, word: str) -> bool:
    return any(word in text for text in browser.complaints)


def test_errors_and_requests_are_collected_and_forgotten_by_the_next_page(
    browser: Browser, tmp_path: Path, toy: str
) -> None:
    for script, word in SCRIPTS.items():
        browser.open(write(tmp_path, script))
        assert wait_until(partial(complained, browser, word)), (script, browser.complaints)
    path = tmp_path / "asks.html"
    path.write_text("<!doctype html><img src='http://127.0.0.1:8099/pixel'><img src='data:,'>")
    browser.open(path.as_uri())
    assert browser.requests == ["http://127.0.0.1:8099/pixel"]
    browser.open(write(tmp_path, SCRIPT))
    assert (browser.complaints, browser.requests) == ([], [])


def test_keys_and_clicks_are_trusted_events(browser: Browser, toy: str) -> None:
    browser.open(toy)
    browser.press("Tab", "Enter", "Tab", "Shift+Tab", " ")
    log = browser.evaluate("log")
    assert [line for line in log if line.startswith("click")] == ["click one true false"] * 2
    assert "keydown Tab true true" in log
    browser.click("#text")
    browser.write("Aé z")
    assert browser.evaluate("document.getElementById('text').value") == "Aé z"
    browser.press("Control+a", "Backspace")
    assert browser.evaluate("document.getElementById('text').value") == ""
    browser.click("#far")
    assert browser.evaluate("log.at(-1)") == "click far true false"
    browser.hover("#one")
    assert browser.evaluate("log.at(-1)") == "pointermove one true false"
    browser.evaluate("document.getElementById('cover').style.display = 'block'")
    for selector, said in (("#one", "covered"), ("#nowhere", "0 elements"), ("button", "2 elem")):
        with pytest.raises(BrowserError, match=said):
            browser.click(selector)


def test_size_and_colour_scheme_are_what_was_asked_for(
    browser: Browser, toy: str, tmp_path: Path
) -> None:
    for dark in (True, False, True):
        browser.open(toy, size=PHONE, dark=dark)
        assert browser.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") is dark
        assert browser.evaluate("innerWidth") == PHONE[0]
    browser.screenshot(tmp_path / "page.png")
    content = (tmp_path / "page.png").read_bytes()
    width, height = struct.unpack(">II", content[16:24])
    assert PHONE[0] - 20 <= width <= PHONE[0]
    assert height > 2000, "the whole page"
