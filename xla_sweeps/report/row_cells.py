"""Comparison rows as cells of a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from xla_sweeps.analysis.cost import per_million
from xla_sweeps.report import advice
from xla_sweeps.report.figures import NONE, interval, number, times
from xla_sweeps.report.labels import distinctions, short_devices
from xla_sweeps.schema.columns import IMPORTED
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import ComparisonRow, precision_words
from xla_sweeps.system.text import displayable

Groups = tuple[tuple[str, ...], ...]
"""Cells of a line; those of a group are stacked where there is no room."""

RIGHT = ("px", "batch", "img/s", "per million", "speedup", "95 %")
"""Headings of numbers."""


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
            (times(row.speedup.value), interval(row.speedup.low, row.speedup.high)),
            (_verdict(row), f"{row.speedup.replicates}{'~' if is_contaminated(row) else ''}"),
        )
        for name, row in zip(row_names(rows, with_device=with_device), rows, strict=True)
    ]


def is_contaminated(row: ComparisonRow) -> bool:
    """True for a row with the mark `~`."""
    return row.status is Status.CONTAMINATED


def row_names(rows: Sequence[ComparisonRow], *, with_device: bool) -> list[str]:
    """Each row's model, followed by facts that distinguish it from similar rows."""
    short = short_devices(row.trial.device for row in rows)
    shown = (
        *("model", "resolution_px", "batch_size", "device", "candidate", "baseline", "origin"),
        *("precision", "tf32"),
    )
    names = []
    for row, distinction in zip(rows, distinctions(rows, shown), strict=True):
        words = precision_words(row.trial.precision, row.trial.tf32)
        device = short[row.trial.device] if with_device else ""
        facts = " · ".join(filter(None, (*words, distinction, device)))
        names.append(displayable(f"{row.trial.model} ({facts})" if facts else row.trial.model))
    return names


def _rate(row: ComparisonRow, price_per_hour: float | None) -> tuple[str, ...]:
    rate = row.candidate.throughput_samples_per_s
    priced = [] if price_per_hour is None else [number(per_million(rate, price_per_hour))]
    return number(rate), *priced


def _verdict(row: ComparisonRow) -> str:
    if row.provenance.origin == IMPORTED:
        return "○ imported"
    verdict = row.speedup.verdict
    return f"{advice.symbol(row)} {row.status if verdict.is_missing else verdict}"
