"""The page of an explanation: the facts of its text, bars of lost time, and nothing to load."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

from explanations import KNOWN

from xla_sweeps.report.explanation_page import explanation_page
from xla_sweeps.report.terminal.explanation import explanation_text
from xla_sweeps.schema.explanation import Explanation, Place, State, Trap, TrapName


class Reader(HTMLParser):
    """Collects texts, tags and what they refer to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self.addresses: list[str | None] = []
        self.bars: list[float] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag == "rect":
            self.bars.append(float(dict(attrs)["width"] or "nan"))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_says_what_the_text_says() -> None:
    texts = Reader(explanation_page(KNOWN).partition("</style>")[2]).texts
    assert " ".join(texts).split() == explanation_text(KNOWN).split()


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    page = explanation_page(KNOWN)
    found = Reader(page)
    assert found.addresses == []
    assert found.tags.isdisjoint({"script", "link", "img", "iframe"})
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import|https?:", page)


def test_figures_that_blanks_align_are_aligned_on_the_page() -> None:
    (block,) = re.findall(r"<pre>(.*?)</pre>", explanation_page(KNOWN), flags=re.S)
    lines = [f"  {line}" for line in html.unescape(block).splitlines()]
    assert len(lines) == 6  # a heading and two modes, a heading and two peaks
    assert "\n".join(lines) in explanation_text(KNOWN)


def test_a_bar_is_as_long_as_the_time_that_is_lost() -> None:
    bars = Reader(explanation_page(KNOWN)).bars
    assert bars[-2:] == [100.0, 25.0]
    assert 0.0 in bars  # graph mode has more gaps: nothing is lost there


def test_what_a_model_says_is_shown_and_never_run() -> None:
    place = Place(op="AsString", node="n", layer="\x1b[2J<script>alert(1)</script>\u202e\x9b")
    trap = Trap(name=TrapName.OTHER_SHAPE, state=State.FOUND, what="x", places=(place,))
    page = explanation_page(Explanation(model="<b>net", device="", traps=(trap,)))
    assert "<script" not in page
    assert "<b>" not in page
    assert html.escape("<script>alert(1)</script>") in page
    assert not set("\x1b\u202e\x9b") & set(page)
