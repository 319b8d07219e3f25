"""Pages for tests: made from rows, opened in a browser, read as a person would."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow
from browser import DESKTOP, Browser
from dashboard_data import unpack
from synthetic_rows import EXPLOIT, IMAGE, NUMBERS, TEXTS, Row, make_rows

from xla_sweeps.analysis.changes import THROUGHPUT, Change, Difference, as_section
from xla_sweeps.analysis.overview import ASKED, SUMMED, Overview, answering, overview_of
from xla_sweeps.report.dashboard import build
from xla_sweeps.report.dashboard.page import render
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.store.table import schema

SECTIONS = ("answer", "where", "fastest", "flops", "cost", "series", "broke", "trust", "everything")
Filters = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A page on disk and the rows in it, with numbers rounded as in the file."""

    uri: str
    rows: list[Row]
    meta: dict[str, Any]
    path: Path


Studies = Callable[[int], Study]
"""Makes a page of so many made-up rows, each once."""

Show = Callable[..., Browser]
"""Opens a page in a browser."""


def write_study(path: Path, count: int) -> Study:
    """A page of about so many made-up rows."""
    return write_page(path, list(make_rows(count)))


def write_page(path: Path, rows: Sequence[Row], **meta: Any) -> Study:
    """A page of these rows and their metadata, which `meta` may change."""
    metadata = {
        "version": "1.0",
        "generated_at": "2026-11-05T12:00:00+00:00",
        "title": f"A made-up study {EXPLOIT}",
        "records": len({row["trial_id"] for row in rows}),
        "trials": len({row["trial_id"] for row in rows}),
        "planned": None,
        "problems": [f"records/x/0.json: not read {IMAGE}"] if rows else [],
        "comparison": None,
        "folders": {"results": "."},
        **meta,
    }
    packed = build.pack(table_of(rows), metadata)
    path.write_text(render(packed, title=metadata["title"]), encoding="utf-8")
    columns, _ = unpack(packed)
    held = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return Study(uri=path.as_uri(), rows=held, meta=metadata, path=path)


def table_of(rows: Sequence[Row]) -> pyarrow.Table:
    """The rows as the product has them when it makes a page."""
    texts = {name: pyarrow.array([row[name] for row in rows], pyarrow.string()) for name in TEXTS}
    numbers = {
        name: pyarrow.array([row[name] for row in rows], pyarrow.float64()).cast(
            schema().field(name).type, safe=False
        )
        for name in NUMBERS
    }
    return pyarrow.table(texts | numbers)


def visit(
    browser: Browser,
    study: Study,
    filters: Filters = (),
    *,
    size: tuple[int, int] = DESKTOP,
    dark: bool = False,
) -> None:
    """Open the page with these filters in its address, and wait until it is drawn."""
    browser.open(
        f"{study.uri}#{urlencode(list(filters))}" if filters else study.uri, size=size, dark=dark
    )
    browser.wait("document.documentElement.dataset.ready === 'true'")
    assert browser.evaluate("document.documentElement.dataset.error ?? ''") == ""


def turn(browser: Browser, filters: Filters) -> None:
    """Follow a link to other filters on the page that is open, and wait until that is drawn."""
    browser.evaluate(
        f"""(async () => {{
          const turned = new Promise((done) => {{
            addEventListener('hashchange', done, {{once: true}});
          }});
          location.hash = {json.dumps(urlencode(list(filters)))};
          await turned;
        }})()"""
    )
    browser.wait("xlaSweeps.settled()")


def bring(browser: Browser, selector: str) -> None:
    """Scroll a part of the page into view, until nothing that is drawn there moves it."""
    browser.wait(f"document.querySelector({json.dumps(selector)}) !== null")
    browser.evaluate(
        f"""(async () => {{
          const part = document.querySelector({json.dumps(selector)});
          for (let quiet = 0; quiet < 3;) {{
            part.scrollIntoView({{block: 'center', behavior: 'instant'}});
            const {{top}} = part.getBoundingClientRect();
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            const still = xlaSweeps.settled() && part.getBoundingClientRect().top === top;
            quiet = still ? quiet + 1 : 0;
          }}
        }})()"""
    )


def texts_of(browser: Browser, selector: str) -> list[str]:
    """The text of each element, shown or not."""
    elements = f"[...document.querySelectorAll({json.dumps(selector)})]"
    texts: list[str] = browser.evaluate(f"{elements}.map((one) => one.textContent)")
    return texts


def saved_file(browser: Browser, chart: str, button: str) -> tuple[str, bytes]:
    """The name and the content of what a button of a chart saves, as `nth-child(2)`."""
    bring(browser, f"[data-chart={chart}] .take")
    return browser.download(lambda: browser.click(f"[data-chart={chart}] .take button:{button}"))


def saved_lines(browser: Browser) -> list[dict[str, str]]:
    """The lines of the file that the table saves, by column."""
    bring(browser, "#csv")
    name, content = browser.download(lambda: browser.click("#csv"))
    assert name.endswith(".csv")
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def tip_at(browser: Browser, x: float, y: float) -> str:
    """The tip for a mouse at this place of a chart, once the page has drawn it."""
    browser.hover_at(x - 1, y)
    browser.hover_at(x, y)
    browser.wait(f"document.elementFromPoint({x}, {y})?.closest('svg')?.matches(':hover')")
    browser.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    browser.wait("!document.getElementById('tip').hidden")
    said: str = browser.evaluate("document.getElementById('tip').innerText")
    return said


def draw_everything(browser: Browser) -> None:
    """Scroll through the page, so that every part has been near the viewport and is drawn."""
    step = """(async () => {
      scrollTo({top: %d, behavior: 'instant'});
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      return [document.documentElement.scrollHeight, innerHeight / 2];
    })()"""
    top, height = 0.0, 1.0
    while top < height:  # a step each, since every one has the browser's deadline
        height, half = browser.evaluate(step % top)
        top += half
    browser.evaluate(step % 0)


def open_everything(browser: Browser) -> None:
    """Draw everything, open all details, so that every table is shown, and draw what is in them."""
    draw_everything(browser)
    browser.evaluate(
        """(async () => {
          document.querySelectorAll('details').forEach((details) => { details.open = true; });
          await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        })()"""
    )
    draw_everything(browser)


def selected(rows: Sequence[Row], filters: Filters) -> list[int]:
    """The rows that these filters show; by default measured ones of XLA against graph."""
    chosen: dict[str, list[str]] = {}
    for name, value in filters:
        chosen.setdefault(name, []).append(value)
    sides = {"baseline": ["graph"], "candidate": ["xla"], "origin": ["measured"]}
    wanted = {
        **sides,
        **{
            name: values
            for name, values in chosen.items()
            if name not in ("sort", "tab", "theme", "model")
        },
    }
    text = chosen.get("model", [""])[0].lower()
    exact = any(row["model"].lower() == text for row in rows)
    return [
        place
        for place, row in enumerate(rows)
        if all(spelled(row[name]) in values or values == ["all"] for name, values in wanted.items())
        and (
            row["model"].lower() == text
            if exact
            else any(text in row[name].lower() for name in ("model", "variant"))
        )
    ]


def answers_of(rows: Sequence[Row], filters: Filters = ()) -> list[Row]:
    """One row of each question that these filters show, whatever their verdict."""
    unjudged = [one for one in filters if one[0] != "verdict"]
    shown = [rows[place] for place in selected(rows, unjudged)]
    places = answering({name: [row[name] for row in shown] for name in ASKED})
    return [shown[place] for place in places]


def sums_of(rows: Sequence[Row], baseline: str = "graph") -> Overview:
    """What the package sums up of rows that answer."""
    columns = {name: [row[name] for row in rows] for name in SUMMED}
    return overview_of(columns, baseline=baseline)


def spelled(value: Any) -> str:
    """A value as the address of the page spells it."""
    return str(round(value)) if isinstance(value, float | int) else str(value)


@cache
def axe_source() -> str:
    """The accessibility checker."""
    script = distribution("axe-playwright-python").locate_file("axe_playwright_python/axe.min.js")
    return Path(str(script)).read_text(encoding="utf-8")


def axe_violations(browser: Browser) -> list[str]:
    """Problems of the page that the checker finds: rule, count, and the first element."""
    browser.run(axe_source())
    violations: list[str] = browser.evaluate(
        """axe.run(document, {resultTypes: ['violations']}).then(({violations}) =>
          violations.map(({id, nodes: [first, ...others]}) =>
            `${id} ×${1 + others.length}: ${first.target} ${first.html.slice(0, 160)}`
            + ` ${first.failureSummary.slice(0, 300)}`))"""
    )
    return violations


def _change(size: int, ratio: float, margin: float, verdict: Verdict, **changes: Any) -> Change:
    """A change of one trial."""
    fields: dict[str, Any] = {
        "name": f"resnet50 · {size} px",
        "family": "ResNetV1",
        "model": "resnet50",
        "scenario": "call",
        "device": "NVIDIA H100",
        "quantity": "xla img/s",
        "kind": THROUGHPUT,
        "value_a": 100.0,
        "value_b": 100 * ratio,
        "ratio": ratio,
        "low": ratio - margin,
        "high": ratio + margin,
        "p_value": 0.001,
        "q_value": 0.003,
        "verdict": verdict,
        "contaminated": False,
        "floor": 0.01,
        "replicates_a": 3,
        "replicates_b": 3,
        "trial_a": f"{size:016}",
        "trial_b": f"{size:016}",
        "flags": "",
    }
    return Change(**{**fields, **changes})


COMPARISON = as_section(
    Difference(
        title_a="before <b>x</b>",
        title_b="after {a|b}",
        matched=5,
        changes=(
            _change(128, 0.8, 0.02, Verdict.SLOWER),
            _change(224, 1.25, 0.04, Verdict.FASTER),
            _change(64, 1.1, 0.1, Verdict.AMBIGUOUS, contaminated=True),
            _change(96, 1.0, 0.005, Verdict.EQUIVALENT, quantity="graph img/s"),
            _change(32, 1.5, 0.02, Verdict.FASTER, scenario="train_step"),
        ),
        breaks=(),
        only_a=("vgg16 224 px on <i>GPU</i>",),
        only_b=(),
        failed_both=0,
        environment=(("TensorFlow", "2.20.0", "2.21.0"), ("driver", "570.86", "570.86")),
        notes=("no anchor trial in common: the machine's own speed is unknown",),
    )
)
"""Metadata of a page that compares two results folders; one change is of another scenario."""
