"""Names and messages from outside are shown unchanged, and never become markup or style."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from dashboard_page import (
    COMPARISON,
    Show,
    Study,
    bring,
    draw_everything,
    open_everything,
    texts_of,
    turn,
    write_page,
)
from synthetic_rows import (
    EXPLOIT,
    FAILURES,
    IMAGE,
    NASTY_DEVICE,
    NASTY_MODEL,
    base_row,
    compared,
    pair_row,
)

pytestmark = pytest.mark.browser

NASTY = (
    "<b>bold</b>",
    "{a|b} {name|x}",
    EXPLOIT,
    IMAGE,
    "\"quoted\" 'single' &amp; `tick`",
    'File "<module>", line 1',
)

NAMED = (
    *("family", "variant", "source", "device", "flags", "software", "driver", "commit", "host"),
    "note",
)

ATTRIBUTES = """[...document.querySelectorAll('*')]
  .flatMap((element) => ['aria-label', 'title', 'value', 'placeholder']
  .map((name) => element.getAttribute(name)).filter(Boolean))"""


@pytest.fixture
def nasty(tmp_path: Path) -> Study:
    """Rows with every nasty text in every column of text that people or programs name."""
    rows = list[dict[str, Any]]()
    for number, text in enumerate(NASTY):
        names = {name: f"{name} {text}" for name in NAMED}
        row = base_row(
            trial_id=f"{number:016}",
            model=f"m{number} {text}",
            command=f"measure {number} {text}",
            log=f"log/{text}",
            params=1e6 * (number + 1),
            macs=1e9 * (number + 1),
            compile_s_extra=5.0 + number,
            break_even_calls=100.0,
            peak_memory_ratio=1.1,
            cv_percent=1.0,
            **names,
        )
        lost = {
            "trial_id": f"{number:015}f",
            "batch_size": 8,
            "verdict": "failed",
            "status": f"status {text}",
            "failure_message": f"message {text}",
            "failure_hint": f"hint {text}",
            "failed_mode": "xla",
        }
        rows += [row | compared(100.0, 110.0 + 20 * number, 0.02), row | lost]
    meta = {
        "title": f"title {EXPLOIT}",
        "problems": [f"problem {text}" for text in NASTY],
        "software": [f"software {IMAGE}"],
        "environment_flags": [f"XLA_FLAGS={EXPLOIT}"],
        "comparison": {**COMPARISON, "title_a": f"a {EXPLOIT}", "title_b": f"b {IMAGE}"},
    }
    return write_page(tmp_path / "nasty.html", rows, **meta)


def test_texts_are_shown_unchanged_and_none_becomes_an_element(show: Show, nasty: Study) -> None:
    browser = show(nasty, draw=open_everything)
    assert browser.evaluate("globalThis.exploited") is None
    foreign = "img, iframe, object, embed, i, module, base, meta[http-equiv=refresh]"
    assert browser.evaluate(f"document.querySelectorAll('{foreign}').length") == 0
    assert browser.evaluate("document.scripts.length") <= 6
    names = "[...document.querySelectorAll('*')].flatMap((element) => element.getAttributeNames())"
    assert browser.evaluate(f"{names}.some((name) => name.startsWith('on'))") is False
    assert browser.requests == []
    text = browser.evaluate("document.body.textContent")
    assert f"title {EXPLOIT}" in text
    for number, word in enumerate(NASTY):
        for shown in (
            f"m{number} {word}",
            f"device {word}",
            f"family {word}",
            f"message {word}",
            f"hint {word}",
            f"log/{word}",
            f"problem {word}",
        ):
            assert shown in text, shown
    attributes = browser.evaluate(ATTRIBUTES)
    for number, word in enumerate(NASTY):
        assert f"measure {number} {word}" in attributes, "the command, where it is copied from"
        assert any(f"m{number} {word}" in attribute for attribute in attributes), (
            "the name of the button that copies it"
        )
    assert browser.evaluate("document.title") == f"title {EXPLOIT}"
    drawn = "\n".join(texts_of(browser, "svg.plot text"))
    for text in ("m1 {a|b}", "family {a|b} {name|x}"[:12], "m0 <b>bold</b>"[:12]):
        assert text in drawn


def test_a_tooltip_shows_the_name_unchanged(show: Show, nasty: Study) -> None:
    browser = show(nasty)
    bring(browser, "#answer-charts .canvas")
    for number in range(len(NASTY)):
        x, y = browser.evaluate(
            f"""(() => {{
              const boxes = [...document.querySelectorAll("#answer-charts [data-mark=dot] path")]
                .map((mark) => mark.getBoundingClientRect()).toSorted((a, b) => a.left - b.left);
              const {{left, top, width, height}} = boxes[{number}];
              return [left + width / 2, top + height / 2];
            }})()"""
        )
        browser.hover_at(x - 1, y)
        browser.hover_at(x, y)
        name = json.dumps(f"m{number} {NASTY[number]} · 224 px")
        browser.wait(
            f"['extra compile', {name}].every((text) =>"
            " document.getElementById('tip').innerText.includes(text))"
        )
    assert browser.evaluate("globalThis.exploited") is None


def test_the_csv_file_contains_the_texts_but_no_formula(show: Show) -> None:
    texts = ["=1+1", "+1", "-1", "@x", "a,b", "a;=1+1", 'a"b', "a\r\nb", "\tx", *NASTY]
    rows = [pair_row(n, 110.0 + n, note=text) for n, text in enumerate(texts)]
    browser = show(rows)
    bring(browser, "#csv")
    _, content = browser.download(lambda: browser.click("#csv"))
    assert '"a;=1+1"' in content.decode(), "no formula where semicolons separate cells"
    notes = {
        line["trial_id"]: line["note"]
        for line in csv.DictReader(io.StringIO(content.decode(), newline=""))
    }
    for n, text in enumerate(texts):
        assert notes[f"{n:016}"] == (f"'{text}" if text[0] in "=+-@\t\r" else text)


def test_the_address_restores_a_filter_with_special_characters(show: Show, nasty: Study) -> None:
    browser = show(nasty, [("device", f"device {EXPLOIT}")])
    assert browser.evaluate("xlaSweeps.rows()") == 2
    for row in nasty.rows[::2]:
        turn(browser, [("device", row["device"]), ("family", row["family"])])
        assert browser.evaluate("xlaSweeps.rows()") == 2
        assert row["device"][:30] in browser.evaluate(
            "document.getElementById('tokens').textContent"
        )
    odd = {"device": "nowhere <script>", "sort": "__proto__", "tab": "constructor"}
    odd |= {"at": "nowhere", "columns": "__proto__"}
    show(nasty, [*odd.items()], draw=draw_everything)
    assert browser.evaluate("xlaSweeps.rows()") == 0


def test_the_search_accepts_any_characters(show: Show, nasty: Study) -> None:
    browser = show(nasty)
    for text in (NASTY_MODEL, EXPLOIT):
        browser.click("[name='f-model']")
        browser.press("Control+a")
        browser.write(text)
        wanted = sum(text.lower() in str(row["model"]).lower() for row in nasty.rows)
        browser.wait(f"xlaSweeps.rows() === {wanted} && location.hash.includes('model=')")


def test_the_file_contains_no_outside_text_unencoded(nasty: Study) -> None:
    """Except its title, which is escaped."""
    source = nasty.path.read_text(encoding="utf-8")
    assert EXPLOIT not in source
    assert IMAGE not in source
    assert source.count("<script") == 4
    (title,) = re.findall("<title>(.*)</title>", source)
    assert "<" not in title


def test_failures_of_every_kind_are_shown(show: Show) -> None:
    lost = {"verdict": "failed", "failed_mode": "xla", "device": NASTY_DEVICE}
    names = ("status", "failure_message", "failure_hint")
    rows = [
        base_row(trial_id=f"{n:016}", **lost, **dict(zip(names, failure, strict=True)))
        for n, failure in enumerate(FAILURES)
    ]
    browser = show(rows)
    bring(browser, "#broke-list")
    words = browser.words("#broke")
    for status, message, hint in FAILURES:
        assert status.replace("_", " ") in words
        assert re.sub(r"\s+", " ", message) in re.sub(r"\s+", " ", words)
        assert hint in words
    assert NASTY_DEVICE in words
