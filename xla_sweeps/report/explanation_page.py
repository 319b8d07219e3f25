"""An explanation as one HTML file, which loads nothing."""

from __future__ import annotations

import html
from collections.abc import Iterator

from xla_sweeps.report import explanation
from xla_sweeps.report.explanation import Aligned, Line, Table
from xla_sweeps.schema.explanation import Explanation
from xla_sweeps.system.text import displayable

_STYLE = """
:root { color-scheme: light dark }
body { font: 14px/1.5 ui-monospace, monospace; max-width: 60rem; margin: 2rem auto }
h1 { margin: 0 } h2 { margin: 2rem 0 .5rem; font-size: 1.1rem }
ul { list-style: none; margin: 0; padding: 0; white-space: pre-wrap }
ul ul { margin-left: 1.5rem; opacity: .8 }
pre { margin: .5rem 0; overflow-x: auto; font: inherit }
table { border-collapse: collapse; margin: .5rem 0 }
td, th { padding: .1rem .8rem .1rem 0; text-align: right; font-weight: normal }
th { opacity: .8; border-bottom: 1px solid } td:last-child, th:last-child { text-align: left }
td.bar { width: 12rem } td.bar svg { display: block; width: 100%; height: .8rem; fill: #c2410c }
""".strip()

_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}
</style>"""


def explanation_page(known: Explanation) -> str:
    """What is known of a model, as a page: the same as the text, with bars of lost time."""
    parts = [
        _HEAD.format(title=f"{_shown(known.model)}: what XLA does with it", style=_STYLE),
        f"<h1>{_shown(known.model)}</h1>",
        f"<p>{_shown(explanation.facts(known))}</p>",
    ]
    for section in explanation.sections(known):
        parts.append(f"<h2>{_shown(section.title)}</h2>")
        for item in section.items:
            parts += _parts(item)
    return "\n".join(parts) + "\n"


def _parts(item: Line | Table | Aligned) -> Iterator[str]:
    if isinstance(item, Table):
        yield from _table(item)
        return
    if isinstance(item, Aligned):
        figures = "\n".join(map(_shown, item.lines))
        yield f"<pre>{figures}</pre>"
        return
    more = "".join(f"<li>{_shown(text)}</li>" for text in item.more)
    yield f"<ul><li>{_shown(item.text)}{f'<ul>{more}</ul>' if more else ''}</li></ul>"


def _table(table: Table) -> Iterator[str]:
    heads = [*table.head[:-1], *([""] if table.bars else []), table.head[-1]]
    yield f"<table><tr>{''.join(f'<th>{_shown(head)}</th>' for head in heads)}</tr>"
    for number, row in enumerate(table.rows):
        cells = [f"<td>{_shown(cell)}</td>" for cell in row]
        if table.bars:
            cells.insert(len(cells) - 1, _bar(table.bars[number]))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table>"


def _bar(share: float) -> str:
    return (
        '<td class="bar"><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{100 * share:.1f}" height="10"/></svg></td>'
    )


def _shown(text: str) -> str:
    return html.escape(displayable(text))
