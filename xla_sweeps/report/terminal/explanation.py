"""Show an explanation, and what TensorFlow compiles, as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from xla_sweeps.report import explanation
from xla_sweeps.report.explanation import Aligned, Line, Table
from xla_sweeps.report.terminal.trial_progress import STAGES
from xla_sweeps.schema.explanation import Explanation, OpList, Support
from xla_sweeps.system.text import displayable

WIDTH = 80

FEW_OPS = 12
"""Up to this many operations are listed with their types."""


def stage_line(phase: str, mode: str) -> str:
    """A stage in words, as `compiling xla`."""
    return f"{STAGES.get(phase, phase)} {mode}".strip()


def explanation_text(known: Explanation) -> str:
    """What is known of a model, in lines of at most 80 columns."""
    lines = [known.model, *_wrapped(explanation.facts(known), 0)]
    for section in explanation.sections(known):
        lines += ["", section.title]
        for item in section.items:
            lines += _lines(item)
    return "\n".join(displayable(line) for line in lines) + "\n"


def _lines(item: Line | Table | Aligned) -> list[str]:
    if isinstance(item, Table):
        return list(_table(item))
    if isinstance(item, Aligned):
        return [f"  {line}" for line in item.lines]
    return [*_wrapped(item.text, 2), *(part for more in item.more for part in _wrapped(more, 6))]


def _table(table: Table) -> Iterator[str]:
    """Figures to the right, and what they are of behind them, cut where the line ends."""
    rows = [table.head, *table.rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.head) - 1)]
    for row in rows:
        figures = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=False))
        line = f"    {figures}  {row[-1]}"
        yield line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def ops_text(ops: OpList, chosen: Sequence[Support]) -> str:
    """What a TensorFlow compiles, in lines of at most 80 columns.

    Args:
        ops: the whole list.
        chosen: what was asked for of it.
    """
    compiled = [item for item in chosen if item.devices]
    others = [item for item in chosen if not item.devices]
    lines = [
        f"TensorFlow {ops.tensorflow} lists kernels for {', '.join(ops.devices) or 'no XLA device'}"
    ]
    if len(chosen) <= FEW_OPS:
        for item in chosen:
            lines += ["", *_support(item)]
        return "\n".join(lines) + "\n"
    for devices in dict.fromkeys(item.devices for item in compiled):
        names = [item.op for item in compiled if item.devices == devices]
        lines += ["", *_wrapped(f"{len(names)} compile on {' and '.join(devices)}:", 0)]
        lines += _wrapped(" ".join(names), 2)
    lines += ["", f"{len(others)} do not compile:", *_wrapped(" ".join(i.op for i in others), 2)]
    return "\n".join(lines) + "\n"


def _support(item: Support) -> Iterator[str]:
    if not item.devices:
        yield f"{item.op}: no kernel of XLA"
        yield from _wrapped(f"-> {item.advice}", 4)
        return
    yield f"{item.op}: {', '.join(item.devices)}"
    for name, types in item.types.items():
        yield from _wrapped(f"{name}: {', '.join(types)}", 4)


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(
        text,
        width=WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_on_hyphens=False,
    )
