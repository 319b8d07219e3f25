"""Pages that a browser opens, of which it has nothing to complain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from browser import DESKTOP, Browser
from dashboard_page import Filters, Show, Studies, Study, visit, write_page
from synthetic_rows import Row


@pytest.fixture
def show(browser: Browser, study: Studies, tmp_path: Path) -> Iterator[Show]:
    """Opens a page in the browser, which must not complain: a study, rows, or so many of them."""
    opened = list[Study]()

    def open_page(
        content: Study | Sequence[Row] | int,
        filters: Filters = (),
        *,
        size: tuple[int, int] = DESKTOP,
        dark: bool = False,
        draw: Callable[[Browser], None] | None = None,
        **meta: Any,
    ) -> Browser:
        if isinstance(content, int):
            content = study(content)
        elif not isinstance(content, Study):
            content = write_page(tmp_path / "page.html", content, **meta)
        assert not opened or browser.complaints == []  # of the page before
        opened.append(content)
        visit(browser, content, filters, size=size, dark=dark)
        if draw is not None:
            draw(browser)
        return browser

    yield open_page
    assert browser.complaints == []
    assert browser.evaluate("document.documentElement.dataset.error ?? ''") == ""
