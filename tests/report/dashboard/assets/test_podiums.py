"""The podiums: the best rows of each device, whose ranks are shared where intervals overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import page_oracle
import pytest
from browser import Browser
from dashboard_page import Filters, Study, bring, selected, turn, visit

pytestmark = pytest.mark.browser

Studies = Callable[[int], Study]

TABS: dict[str, Callable[[dict[str, Any]], tuple[float | None, float | None, float | None]]] = {
    "throughput": page_oracle.throughput,
    "absolute": page_oracle.gained,
    "percent": page_oracle.speedup,
}

PODIUMS = """[...document.querySelectorAll('#podium .podium')].map((box) => [
  box.querySelector('h3').textContent,
  [...box.querySelectorAll('tbody tr')].map((row) => [
    row.cells[0].textContent,
    row.cells[1].querySelector('button').textContent,
    row.cells[1].querySelector('.note').textContent])])"""


def test_the_podiums_share_ranks_where_intervals_overlap(browser: Browser, study: Studies) -> None:
    page = study(5000)
    few = [("resolution_px", "224"), ("batch_size", "1"), ("precision", "float32")]
    visit(browser, page)
    for filters in ((), few):
        for tab in TABS:
            turn(browser, [*filters, ("tab", tab)])
            bring(browser, "#podium")
            check_podiums(browser, page, filters, tab)


def place_of(row: page_oracle.Row) -> tuple[Any, ...]:
    """What a podium holds equal; in these studies nothing is measured in TF32."""
    assert not row["tf32"]
    return row["resolution_px"], row["batch_size"], row["precision"]


def check_podiums(browser: Browser, page: Study, filters: Filters, tab: str) -> None:
    shown = dict(browser.evaluate(PODIUMS))
    assert len(shown) == 3
    rows = page_oracle.answers(page.rows[place] for place in selected(page.rows, filters))
    places = Counter(map(place_of, rows))
    most = max(places.values())
    at = browser.evaluate("document.querySelector('#podium p.note').innerText")
    (chosen,) = (
        place
        for place, number in places.items()
        if number == most and f"at {place[0]:.0f} px, batch {place[1]:.0f}, {place[2]}." in at
    )
    rows = [row for row in rows if place_of(row) == chosen]
    shared = 0
    for device, lines in shown.items():
        best = page_oracle.ranked((row for row in rows if row["device"] == device), TABS[tab])[:10]
        expected = [
            [
                "–" if rank is None else f"{rank}",
                row["model"],
                f"{row['resolution_px']:.0f} px · batch {row['batch_size']:.0f} · "
                f"{row['precision']}",
            ]
            for rank, row in best
        ]
        assert [[rank, model] for rank, model, _ in lines] == [line[:2] for line in expected]
        for (_, _, settings), (_, _, start) in zip(lines, expected, strict=True):
            assert settings.startswith(start)
        assert len({(model, settings) for _, model, settings in lines}) == len(lines)
        ranks = [rank for rank, _ in best if rank is not None]
        shared += len(ranks) - len({*ranks})
    assert shared > 0, "no rank is shared: the rows do not test what they should"


def test_a_filter_by_name_keeps_each_rank_among_all_models(
    browser: Browser, study: Studies
) -> None:
    few = [("resolution_px", "224"), ("batch_size", "1"), ("precision", "float32")]
    visit(browser, study(5000), few)
    bring(browser, "#podium")
    before = dict(browser.evaluate(PODIUMS))
    device, lines = next(iter(before.items()))
    rank, model, _ = lines[7]
    turn(browser, [*few, ("model", model)])
    bring(browser, "#podium")
    shown = dict(browser.evaluate(PODIUMS))[device]
    assert [line[:2] for line in shown[:10]] == [line[:2] for line in lines]
    said = browser.evaluate("document.querySelector('#podium').innerText")
    assert f"rank {rank} of " in said
    assert "Rank 1" not in said


def test_figures_without_an_interval_have_no_rank(browser: Browser, study: Studies) -> None:
    page = study(5000)
    filters = [("origin", "imported"), ("baseline", "eager")]
    visit(browser, page, filters)
    bring(browser, "#podium")
    ((_, lines),) = browser.evaluate(PODIUMS)
    assert {line[0] for line in lines} == {"–"}
