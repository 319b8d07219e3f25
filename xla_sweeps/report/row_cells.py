"""Comparison rows as cells of a table, for the terminal, Markdown and LaTeX. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from xla_sweeps.analysis.cost import per_million
from xla_sweeps.report import advice, markdown
from xla_sweeps.report.figures import NONE, interval, number, times
from xla_sweeps.report.labels import TELLING, short_devices, told_apart
from xla_sweeps.schema.columns import IMPORTED
from xla_sweeps.schema.comparisons import by_scenario
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import ComparisonRow, precision_words, value_of
from xla_sweeps.system.text import displayable

Groups = tuple[tuple[str, ...], ...]
"""Cells of a line; those of a group are stacked where there is no room."""

RIGHT = ("px", "batch", "img/s", "per million", "speedup", "95 %")
"""Headings of numbers."""

_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"×": r"$\times$", "·": r"$\cdot$", "–": "--", NONE: "---"}
)

_SYMBOLS = "".join([*advice.SYMBOLS.values(), " "])


def headings_of(price_per_hour: float | None = None) -> Groups:
    """The headings of `cells_of`."""
    rate = ("img/s", *([] if price_per_hour is None else ["per million"]))
    modes, speedup, verdict = ("candidate", "baseline"), ("speedup", "95 %"), "verdict"
    return (("model",), ("px", "batch"), modes, rate, speedup, (verdict, "replicates"))


def cells_of(
    rows: Sequence[ComparisonRow], *, with_device: bool, price_per_hour: float | None = None
) -> list[Groups]:
    """A line for each row; its name says what distinguishes it from similar rows."""
    return [
        (
            (name,),
            (str(row.trial.resolution_px or NONE), str(row.trial.batch_size)),
            (row.candidate.mode, row.baseline.mode or NONE),
            _rate(row, price_per_hour),
            (_speedup(row), interval(row.speedup.low, row.speedup.high)),
            (_verdict(row), f"{row.speedup.replicates}{'~' * (row.status is Status.CONTAMINATED)}"),
        )
        for name, row in zip(row_names(rows, with_device=with_device), rows, strict=True)
    ]


def rows_text(form: str, rows: Sequence[ComparisonRow], price_per_hour: float | None = None) -> str:
    """Rows as one table in `markdown` or `latex`, which needs no package; notes are below it."""
    headings, lines, notes = table_of_rows(rows, price_per_hour)
    lines = [[cell.lstrip(_SYMBOLS) for cell in line] for line in lines]
    if form == "markdown":
        said = [f"\n{markdown.escape(note)}" for note in notes]
        return "\n".join([*markdown.table(headings, lines), *said, ""])
    columns = "".join("r" if heading in RIGHT else "l" for heading in headings)
    written = [[cell.translate(_LATEX) for cell in line] for line in (headings, *lines)]
    head, *body = (" & ".join(line) + r" \\" for line in written)
    text = [f"\\begin{{tabular}}{{{columns}}}", r"\hline", head, r"\hline", *body, r"\hline"]
    return "\n".join([*text, r"\end{tabular}", *(f"% {note}" for note in notes), ""])


def table_of_rows(
    rows: Sequence[ComparisonRow], price_per_hour: float | None = None
) -> tuple[list[str], list[list[str]], list[str]]:
    """Headings, a line of cells for each row, and the notes below them."""
    devices = {row.trial.device for row in rows}
    notes = [f"on {displayable(name)}" for name in devices if len(devices) == 1]
    notes += marks_of(rows)
    groups = by_scenario(rows, key=lambda row: row.trial.scenario)
    start = int(len(groups) < 2)
    headings = ["scenario", *itertools.chain(*headings_of(price_per_hour))][start:]
    lines = [
        [scenario, *itertools.chain(*line)][start:]
        for scenario, own in groups.items()
        for line in cells_of(own, with_device=len(devices) > 1, price_per_hour=price_per_hour)
    ]
    return headings, lines, notes


def marks_of(rows: Sequence[ComparisonRow]) -> list[str]:
    """The meanings of the column `speedup` and of the marks `h` and `~`, where rows have them."""
    shown = {
        advice.OF_THROUGHPUT: any(map(advice.has_two_speedups, rows)),
        advice.WAITS: any(map(_waits, rows)),
        advice.CONTAMINATED: any(row.status is Status.CONTAMINATED for row in rows),
    }
    return [meaning for meaning, is_shown in shown.items() if is_shown]


def row_names(rows: Sequence[ComparisonRow], *, with_device: bool) -> list[str]:
    """Each row's model, followed by facts that distinguish it from similar rows."""
    short = short_devices(row.trial.device for row in rows)
    shown = (
        *("model", "resolution_px", "batch_size", "device", "candidate", "baseline", "origin"),
        *("precision", "tf32"),
    )
    columns = {name: [value_of(row, name) for row in rows] for name in (*shown, *TELLING)}
    names = []
    for row, distinction in zip(rows, told_apart(columns, shown, TELLING), strict=True):
        words = precision_words(row.trial.precision, row.trial.tf32)
        device = short[row.trial.device] if with_device else ""
        facts = " · ".join(filter(None, (*words, distinction, device)))
        names.append(displayable(f"{row.trial.model} ({facts})" if facts else row.trial.model))
    return names


def _rate(row: ComparisonRow, price_per_hour: float | None) -> tuple[str, ...]:
    rate = row.candidate.throughput_samples_per_s
    priced = [] if price_per_hour is None else [number(per_million(rate, price_per_hour))]
    return number(rate), *priced


def _speedup(row: ComparisonRow) -> str:
    return times(row.speedup.value) + " h" * _waits(row)


def _waits(row: ComparisonRow) -> bool:
    return row.speedup.host_bound and row.speedup.value is not None


def _verdict(row: ComparisonRow) -> str:
    if row.provenance.origin == IMPORTED:
        return "○ imported"
    verdict = row.speedup.verdict
    return f"{advice.SYMBOLS[verdict]} {row.status if verdict.is_missing else verdict}"
