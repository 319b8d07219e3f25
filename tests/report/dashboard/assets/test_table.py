"""The table of all rows and the file saved from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from browser import Browser
from dashboard_page import Filters, Show, Studies, Study, bring, saved_lines, selected, turn
from synthetic_rows import NASTY_MODEL, NUMBERS, TEXTS

pytestmark = pytest.mark.browser


def test_the_csv_file_contains_every_column_of_the_rows_shown(show: Show, study: Studies) -> None:
    page = study(900)
    browser = show(page)
    check_file(browser, page, ())
    filters = [("model", NASTY_MODEL), ("baseline", "eager")]
    turn(browser, filters)
    check_file(browser, page, filters)


def check_file(browser: Browser, page: Study, filters: Filters) -> None:
    lines = saved_lines(browser)
    rows = {
        (row["trial_id"], row["candidate"], row["baseline"]): row
        for row in (page.rows[n] for n in selected(page.rows, filters))
    }
    assert len(lines) == len(rows) > 0
    speedups = [float(line["speedup"]) for line in lines if line["speedup"]]
    assert speedups == sorted(speedups, reverse=True), "in the order of the table"
    for line in lines:
        row = rows[line["trial_id"], line["candidate"], line["baseline"]]
        for text in TEXTS:
            quote = "'" if row[text][:1] in ("=", "+", "-", "@", "\t") else ""
            assert line[text] == f"{quote}{row[text]}", text
        for number in NUMBERS:
            if row[number] is None:
                assert line[number] == "", number
            else:
                about = pytest.approx(row[number], rel=1e-5, abs=1e-12)
                assert float(line[number]) == about, number


def test_the_table_is_sorted_by_a_click_and_again_by_another(show: Show, study: Studies) -> None:
    page = study(900)
    browser = show(page, [("sort", "family")])
    bring(browser, "#csv")
    for column, numeric in (("speedup", True), ("model", False)):
        check_order(browser, page, column, numeric)


def check_order(browser: Browser, page: Study, column: str, numeric: bool) -> None:
    """After a click on a column's head, and after another."""
    button = f"th[data-column='{column}'] button"
    rows = [page.rows[place] for place in selected(page.rows, ())]
    values = [row[column] for row in rows if row[column] not in (None, "")]
    assert (len(values) < len(rows)) == numeric, "some rows have no such number"
    seen = []
    for _ in range(2):
        browser.evaluate(
            f"document.querySelector(\"{button}\").scrollIntoView({{block: 'center', inline: "
            "'center', behavior: 'instant'})"
        )
        browser.click(button)
        browser.wait("xlaSweeps.settled()")
        direction = browser.evaluate(
            f"document.querySelector(\"th[data-column='{column}']\").getAttribute('aria-sort')"
        )
        order = table_order(browser, column, len(rows), page.rows)
        key = None if numeric else natural
        wanted = sorted(values, reverse=direction == "descending", key=key)
        known, rest = order[: len(values)], order[len(values) :]
        assert known == (pytest.approx(wanted) if numeric else wanted)
        assert {*rest} <= {None, ""}, "rows without a value come last"
        seen.append(direction)
    assert set(seen) == {"ascending", "descending"}


def natural(text: str) -> list[tuple[int, int, str]]:
    """Letters without regard to case, numbers in them by value."""
    parts = re.findall(r"\d+|\D+", text.lower())
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def table_order(
    browser: Browser, column: str, count: int, rows: Sequence[dict[str, Any]]
) -> list[Any]:
    """The column in the order of the saved file, which is that of the table.

    Its first line is checked against the table's.
    """
    lines = saved_lines(browser)
    assert len(lines) == count
    first = browser.evaluate("document.querySelector('table.grid tbody th').textContent")
    assert first == lines[0]["model"], column
    by_key = {(row["trial_id"], row["candidate"], row["baseline"]): row for row in rows}
    return [by_key[line["trial_id"], line["candidate"], line["baseline"]][column] for line in lines]
