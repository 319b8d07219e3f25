"""Lines of an explanation: findings and tables, in at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from xla_sweeps.schema.explanation import Place
from xla_sweeps.system.text import count_noun

WIDTH = 80
PLACES = 3

NOT_AVAILABLE = "not available"


def finding(text: str, places: Iterable[Place] = (), advice: str = "") -> Iterator[str]:
    """A finding, and below it where it is and what to do."""
    yield from wrap(text, 2)
    distinct = list(dict.fromkeys(filter(None, map(_in_words, places))))
    for place in distinct[:PLACES]:
        yield from wrap(place, 6)
    if len(distinct) > PLACES:
        yield from wrap(f"and {count_noun(len(distinct) - PLACES, 'more place')}", 6)
    if advice:
        yield from wrap(f"-> {advice}", 6)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Figures to the right, and what they are of behind them, cut where the line ends."""
    for row in align((head, *rows), names=len(head) - 1):
        indented = f"    {row}"
        yield indented if len(indented) <= WIDTH else f"{indented[: WIDTH - 1]}…"


def align(rows: Sequence[Sequence[str]], *, names: int) -> list[str]:
    """Lines in columns: that of the names to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index == names else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def wrap(text: str, indent: int = 0) -> list[str]:
    """A text in lines of at most 80 columns, the later ones indented further."""
    return textwrap.wrap(
        text,
        width=WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_on_hyphens=False,
    )


def _in_words(place: Place) -> str:
    where = [f"in {place.layer}" if place.layer else "", place.line]
    return ", ".join(filter(None, where)) or (f"at {place.node}" if place.node else "")


def list_names(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    every = list(names)
    rest = len(every) - PLACES
    return ", ".join(every[:PLACES]) + (f" and {rest} more" if rest > 0 else "")


def bare(layer: str) -> str:
    """A layer without its class, which JSON has."""
    return layer.partition(" (")[0]
