"""The reader's choices are in the address: links, back and forward, chips."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from browser import Browser
from dashboard_page import Filters, Show, Studies, answers_of, bring, draw_everything, selected
from synthetic_rows import DEVICES, NASTY_DEVICE

pytestmark = pytest.mark.browser


SIDES = [("scenario", "call"), ("baseline", "graph"), ("candidate", "xla")]
"""Always in the address where something is chosen: the defaults depend on what the file holds."""


def address(browser: Browser) -> list[tuple[str, str]]:
    """The choices in the address but for scenario and sides, which must be there."""
    choices = parse_qsl(browser.evaluate("location.hash.slice(1)"), keep_blank_values=True)
    assert not choices or choices[-3:] == SIDES
    return choices[:-3]


def choose(browser: Browser, column: str, value: str) -> None:
    """Open a list of filters and click one of its boxes, once the page is drawn."""
    browser.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    if column not in ("device", "resolution_px", "batch_size"):
        browser.evaluate("void (document.querySelector('.more').open = true)")
    browser.wait("xlaSweeps.settled()")
    label = f"#filters label:has([name='f-{column}'][value='{value}'])"
    if not browser.evaluate(f'document.querySelector("{label}").closest("details").open'):
        browser.evaluate(
            f'document.querySelector("{label}").closest("details").querySelector("summary").id = '
            f'"list-{column}"'
        )
        browser.click(f"#list-{column}")
    browser.click(label)


@pytest.mark.each_browser
def test_a_click_on_a_filter_changes_the_rows_and_the_address(show: Show, study: Studies) -> None:
    page = study(900)
    browser = show(page)
    filters: Filters = [
        ("device", DEVICES[0].name),
        ("device", DEVICES[2].name),
        ("batch_size", "8"),
        ("precision", "float32"),
    ]
    for count, (column, value) in enumerate(filters, start=1):
        choose(browser, column, value)
        assert browser.evaluate("xlaSweeps.filtered()") == selected(page.rows, filters[:count])
    assert sorted(address(browser)) == sorted(filters)
    browser.press("Escape")
    browser.evaluate("document.getElementById('reset').focus()")
    browser.press("Enter")
    browser.wait("!new URLSearchParams(location.hash.slice(1)).has('device')")
    assert address(browser) == []
    assert browser.evaluate("xlaSweeps.rows()") == len(selected(page.rows, ()))


def test_the_counts_beside_a_filters_values_follow_the_others(show: Show, study: Studies) -> None:
    """In the unit of the whole page: pairs, each counted once however often it was measured."""
    page = study(900)
    chosen: Filters = [("device", DEVICES[0].name), ("model", "resnet")]
    browser = show(page, chosen)
    for column in ("device", "batch_size", "effort"):
        browser.evaluate(
            f"document.querySelector('#filters [name=f-{column}]').closest('details').open = true"
        )
        browser.wait(f"document.querySelector('label:has([name=f-{column}]) .count').textContent")
        shown = browser.evaluate(
            f"""[...document.querySelectorAll('label:has([name=f-{column}])')].map((label) =>
              [label.querySelector('input').value, label.querySelector('.count').textContent])"""
        )
        others = [one for one in chosen if one[0] != column]
        for value, number in shown:
            rows = answers_of(page.rows, [*others, (column, value)])
            assert number == f"{len(rows):,}", (column, value)


def test_back_and_forward_restore_each_choice(show: Show, study: Studies) -> None:
    page = study(300)
    browser = show(page)
    steps: list[Filters] = [
        [],
        [("device", DEVICES[0].name)],
        [("device", DEVICES[0].name), ("batch_size", "8")],
    ]
    for column, value in steps[-1]:
        choose(browser, column, value)
    for step, direction in ((1, "back"), (0, "back"), (1, "forward"), (2, "forward")):
        browser.evaluate(f"history.{direction}()")
        expected = selected(page.rows, steps[step])
        browser.wait(f"JSON.stringify(xlaSweeps.filtered()) === '{expected}'.replaceAll(' ', '')")
        browser.wait("xlaSweeps.settled()")
        assert sorted(address(browser)) == sorted(steps[step])
        boxes = browser.evaluate(
            "[...document.querySelectorAll('#filters input:checked')].map((box) => "
            "[box.name.slice(2), box.value])"
        )
        assert sorted(map(tuple, boxes)) == sorted(steps[step])


def test_back_and_forward_restore_the_search_while_the_reader_is_in_it(show: Show) -> None:
    field = "document.querySelector('[name=f-model]')"
    browser = show(300)
    browser.click("[name='f-model']")
    browser.write("vgg")
    browser.wait("xlaSweeps.state.model === 'vgg'")
    for direction, text in (("back", ""), ("forward", "vgg"), ("back", "")):
        browser.evaluate(f"history.{direction}()")
        browser.wait(f"xlaSweeps.state.model === {text!r}")
        assert browser.evaluate(f"{field}.value") == text, direction
    browser.evaluate(f"{field}.blur()")
    browser.wait("xlaSweeps.settled()")
    assert browser.evaluate(f"[{field}.value, xlaSweeps.state.model]") == ["", ""]


def test_controls_show_the_state_in_the_address(show: Show) -> None:
    choices = {"device": NASTY_DEVICE, "baseline": "eager", "model": "net", "verdict": "faster"}
    for is_dark, test in ((True, "part < 60"), (False, "part > 200")):
        browser = show(300, [*choices.items()], dark=is_dark)
        bring(browser, "#verdicts")
        shown = browser.evaluate(
            f"""(() => {{
              const value = (name) => document.querySelector(`[name=${{name}}]`).value;
              const boxes = [...document.querySelectorAll('#filters input:checked')];
              const chip = document.querySelector('[data-verdict=faster]');
              const colour = getComputedStyle(document.body).backgroundColor;
              return [value('f-pair'), value('f-model'),
                boxes.map((box) => box.value), chip.getAttribute('aria-pressed'),
                colour.match(/\\d+/g).slice(0, 3).every((part) => {test})];
            }})()"""
        )
        assert shown == ["xla/eager", "net", [NASTY_DEVICE], "true", True]


def test_a_chip_filters_by_its_verdict_and_shows_the_count(show: Show, study: Studies) -> None:
    page = study(900)
    browser = show(page)
    answers = answers_of(page.rows)
    for verdict in ("faster", "slower", "equivalent", "ambiguous", "failed"):
        chip = f"#verdicts [data-verdict={verdict}]"
        count = sum(row["verdict"] == verdict for row in answers)
        assert browser.evaluate(f"document.querySelector('{chip} b').textContent") == f"{count:,}"
        browser.click(chip)
        expected = selected(page.rows, [("verdict", verdict)])
        assert browser.evaluate("xlaSweeps.filtered()") == expected
        assert address(browser) == [("verdict", verdict)]
        assert browser.evaluate("xlaSweeps.overview().pairs") == len(answers)
        assert browser.words("#shown").startswith(f"{count:,} of {len(answers):,} configurations")
        browser.click(chip)
        assert address(browser) == []


def pasted(browser: Browser) -> str:
    """The content of the clipboard, by pasting it into the search."""
    browser.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    browser.click("[name='f-model']")
    browser.press("Control+a", "Control+v")
    text: str = browser.wait("document.querySelector('[name=f-model]').value")
    return text


def test_a_failures_command_is_copied(show: Show, study: Studies) -> None:
    page = study(900)
    browser = show(page)
    bring(browser, "#broke-counts")
    bring(browser, "#broke-list")
    browser.evaluate("document.querySelector('#broke-list table button').id = 'copied'")
    model, note = (
        browser.evaluate("""(() => { const cell = document.querySelector('#broke-list tbody th');
        return [cell.firstChild.textContent, cell.querySelector('.note').textContent]; })()""")
    )
    browser.click("#copied")
    browser.wait("document.getElementById('toast').textContent === 'Command copied'")
    command = pasted(browser)
    (expected,) = {
        row["command"]
        for row in page.rows
        if row["verdict"] == "failed"
        and row["model"] == model
        and note.startswith(
            f"{row['resolution_px']:.0f} px · batch {row['batch_size']:.0f} · {row['precision']} · "
            f"{row['device']}"
        )
    }
    assert command == expected


def test_the_link_is_copied_with_every_choice(show: Show, study: Studies) -> None:
    browser = show(300, [("family", "ResNetV1")])
    browser.click("#copy-link")
    browser.wait("document.getElementById('toast').textContent === 'Link copied'")
    assert pasted(browser) == f"{study(300).uri}#family=ResNetV1"


def test_a_page_without_rows_says_what_to_run(show: Show) -> None:
    asked = [("family", "ResNetV1"), ("model", "vgg16"), ("resolution_px", "224")]
    browser = show(300, asked, draw=draw_everything)
    words = browser.words("#answer")
    assert "No matching configuration was measured." in words
    assert "python -m xla_sweeps model=vgg16 resolution=224" in words
    assert "never" not in words
    assert "NaN" not in browser.words("body")
    sections = "[...document.querySelectorAll('main section')]"
    shown = f"{sections}.filter((one) => one.checkVisibility()).map((section) => section.id)"
    assert browser.evaluate(shown) == ["answer"]


def test_the_table_scrolls_to_its_last_row_and_keeps_few_rows_in_the_document(
    show: Show, study: Studies
) -> None:
    page = study(900)
    browser = show(page, [("sort", "speedup")])
    bring(browser, "table.grid")
    count = len(selected(page.rows, ()))
    browser.evaluate(
        "((box) => { box.scrollTop = box.scrollHeight; })(document.querySelector('.virtual'))"
    )
    lines = "[...document.querySelectorAll('.virtual tbody tr[aria-rowindex]')]"
    browser.wait(f"{lines}.at(-1).getAttribute('aria-rowindex') === '{count + 1}'")
    table = "document.querySelector('.virtual table')"
    assert browser.evaluate(f"{table}.getAttribute('aria-rowcount')") == str(count + 1)
    assert browser.evaluate(f"{lines}.length") < 100
