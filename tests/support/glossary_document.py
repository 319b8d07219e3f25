"""The tables of modes, statuses and flags of docs/glossary.md, from the program.

PYTHONPATH=tests/support python -m glossary_document
"""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator

from xla_sweeps.report.sentences import FLAG_TEXTS
from xla_sweeps.schema import measurement
from xla_sweeps.schema.measurement import Flag, Status
from xla_sweeps.schema.modes import Mode


def markdown() -> str:
    """A table of each, its words in the order of the program."""
    meanings = _status_meanings()
    tables: dict[str, dict[str, str]] = {
        "mode": {mode: _mode_words(mode) for mode in Mode},
        "status": {status: meanings[status] for status in Status},
        "flag": {flag: _capitalize(FLAG_TEXTS[flag]) for flag in Flag},
    }
    return "\n".join(line for title, words in tables.items() for line in _table(title, words))


def _mode_words(mode: Mode) -> str:
    return mode.called if mode.switch == mode.called else f"{mode.called}: `{mode.switch}`"


def _table(title: str, words: dict[str, str]) -> Iterator[str]:
    yield from (f"| {title} | means |", "|---|---|")
    for word, meaning in words.items():
        yield f"| `{word}` | {meaning} |"
    yield ""


def _status_meanings() -> dict[str, str]:
    """The docstring below each status."""
    (body,) = (
        node.body
        for node in ast.parse(inspect.getsource(measurement)).body
        if isinstance(node, ast.ClassDef) and node.name == "Status"
    )
    meanings: dict[str, str] = {}
    for member, text in itertools.pairwise(body):
        if isinstance(member, ast.Assign) and isinstance(text, ast.Expr):
            meanings[Status(ast.literal_eval(member.value))] = ast.literal_eval(text.value)
    return meanings


def _capitalize(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


if __name__ == "__main__":
    print(markdown(), end="")
