"""The questions of the public study as tables, for terminal, page and W&B report. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xla_sweeps.analysis import overview, ranking
from xla_sweeps.analysis.inversions import inversions
from xla_sweeps.analysis.ranking import Entry, Place
from xla_sweeps.report.advice import name_of
from xla_sweeps.report.figures import NONE, interval, number, times
from xla_sweeps.report.labels import short_devices
from xla_sweeps.schema.modes import by_count, headline_of
from xla_sweeps.schema.row import COLUMNS, ComparisonRow, value_of
from xla_sweeps.system.text import counted

if TYPE_CHECKING:
    import pyarrow

NEEDED = {
    "fastest": "a model whose throughput is known",
    "distribution": "two models at one resolution on one device",
    "agreement": f"{ranking.MIN_FOR_TAU} models on each of two devices",
    "podium": "two models at one resolution on one device",
    "inversions": "two measured models of one line on one device",
}
"""What each table needs, by its name, in the same setting and clean."""

PODIUM_PLACES = 3

_PRELIMINARY = (
    " Preliminary: a single replicate, so that the interval does not show how processes differ."
)

LINES = 60
"""Maximum number of lines of a table."""


@dataclass(frozen=True, slots=True)
class Table:
    """The answer to a question, with its figures as text.

    Attributes:
        scenario: that it is of; no table is of several.
        key: its name in `results --show`.
        finding: the answer in a sentence.
        note: how to read it.
    """

    scenario: str
    key: str
    title: str
    finding: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    note: str


def tables(columns: Mapping[str, Sequence[Any]]) -> list[Table]:
    """The tables that have something to say, of each scenario's headline mode.

    Args:
        columns: `ranking.NEEDED`, of equal length, by name; a row of each question.
    """
    made: list[Table] = []
    every, place = ranking.entries_of(columns), ranking.SETTING.index("scenario")
    short = short_devices(entry.place.device for entry in every)
    every = [
        replace(entry, place=entry.place._replace(device=short[entry.place.device]))
        for entry in every
    ]
    for scenario in by_count(columns["scenario"]):
        mode = headline_of(scenario)[1]
        entries = [entry for entry in every if entry.place.setting[place] == scenario]
        ranked = [entry for entry in entries if entry.mode == mode]
        tables = [_fastest(ranked, mode), _distribution(ranked), _agreement(ranked)]
        tables += [_podium(ranked), _inversions(entries, mode)]
        made += [replace(table, scenario=scenario) for table in tables if table.finding]
    return made


def _fastest(entries: Sequence[Entry], mode: str) -> Table:
    places = ranking.fastest(entries)
    same = {one.entry.place: one for one in ranking.fastest(ranking.same_models(entries))}
    sizes = {one.entry.place[:2]: one.differs for one in places}
    several = len({one.entry.place.device for one in places}) > 1
    finding = f"The fastest model{_by(mode)} in {counted(len(sizes), 'setting')}"
    if several:
        finding += f": another one on another device in {sum(sizes.values())} of them"
    finding = f"{finding}." if places else ""
    lines = []
    for one in places:
        entry, fixed = one.entry, same.get(one.entry.place)
        lines.append(
            (
                _at(entry.place),
                _device(entry.place),
                f"{entry.model}{' *' if one.differs else ''}",
                number(entry.value),
                interval(entry.low, entry.high, number),
                str(one.candidates),
                ", ".join(one.tied[:3]) or NONE,
                number(one.median),
                fixed.entry.model if fixed else NONE,
            )
        )
    return Table(
        "",
        "fastest",
        "The fastest model at each resolution",
        finding,
        (
            *("at", "device", "fastest", "images/s", "95 %", "candidates", "as fast"),
            *("middle model", "same models"),
        ),
        tuple(lines),
        "(*) another device's fastest model is another. With one candidate nothing can "
        "overtake it: the last column ranks only models that were measured at every resolution "
        "of the device.",
    )


def _distribution(entries: Sequence[Entry]) -> Table:
    lines, spans = [], list[float]()
    for place, own in ranking.at_places(entries).items():
        rates = [entry.value for entry in own]
        if len(rates) > 1:
            quarters = statistics.quantiles(rates, n=4, method="inclusive")
            figures = map(number, (rates[-1], *quarters, rates[0]))
            lines.append((_at(place), _device(place), *figures, str(len(rates))))
            if _apart(own[0], own[-1]):
                spans.append(rates[0] / rates[-1])
    return Table(
        "",
        "distribution",
        "How far apart are the models of a resolution?",
        _distance(spans, settings=len(lines)),
        ("at", "device", "slowest", "a quarter", "middle", "three quarters", "fastest", "models"),
        tuple(lines),
        "Images/s. A quarter of the models are slower than the second figure, a quarter are faster "
        "than the fourth.",
    )


def _distance(spans: Sequence[float], *, settings: int) -> str:
    """A sentence on how many times the fastest model is as fast as the slowest; "" of none.

    Args:
        spans: of the settings in which their intervals are apart.
        settings: of all.
    """
    if not settings:
        return ""
    if not spans:
        return (
            "Too little to tell the models of a setting apart: more replicates "
            "(effort.replicates=3) settle it."
        )
    ends = " to ".join(dict.fromkeys(map(number, (min(spans), max(spans)))))
    rest = settings - len(spans)
    also = f"; in {rest} more it is too little to tell" if rest else ""
    return (
        f"The fastest model is {ends} times as fast as the slowest, in "
        f"{counted(len(spans), 'setting')}{also}."
    )


def _apart(fast: Entry, slow: Entry) -> bool:
    """True if two intervals do not overlap; published figures have none, and count."""
    return fast.low is None or slow.high is None or fast.low > slow.high


def _agreement(entries: Sequence[Entry]) -> Table:
    every = ranking.agreements(entries)
    ends = sorted(every, key=lambda one: one.tau)
    extremes = [(f"{one.tau:.2f}", f" at {_pixels(one)}") for one in ends[:1] + ends[-1:]]
    if len({size for _, size in extremes}) == 1:  # it is said once
        taus = dict.fromkeys(tau for tau, _ in extremes)
        said = " to ".join(taus) + extremes[0][1]
    else:
        said = " to ".join(tau + size for tau, size in extremes)
    return Table(
        "",
        "agreement",
        "Do devices rank models alike?",
        f"Kendall's tau between devices: {said}." if said else "",
        ("at", "devices", "models", "tau", "95 %"),
        tuple(
            (
                _at(one.places[0]),
                " and ".join(map(_device, one.places)),
                str(one.models),
                f"{one.tau:.2f}",
                f"{one.low:.2f} to {one.high:.2f}",
            )
            for one in every
        ),
        f"1: the same order; 0: unrelated. Given from {ranking.MIN_FOR_TAU} models on both.",
    )


def _podium(entries: Sequence[Entry]) -> Table:
    lines, winners = [], set[str]()
    for place, own in ranking.at_places(entries).items():
        best = own[:PODIUM_PLACES]
        given = ranking.ranks([(entry.value, entry.low, entry.high) for entry in best])
        if len(own) > 1:
            pairs = zip(given, best, strict=True)
            winners |= {best[0].model, *(entry.model for rank, entry in pairs if rank == 1)}
            lines.append(
                (
                    _at(place),
                    _device(place),
                    *(
                        f"{rank or NONE} {entry.model} ({number(entry.value)})"
                        for rank, entry in zip(given, best, strict=True)
                    ),
                    *[NONE] * (PODIUM_PLACES - len(best)),
                    str(len(own)),
                )
            )
    rankings = counted(len(lines), "ranking")
    return Table(
        "",
        "podium",
        "Podiums",
        f"The first places of {rankings}: {counted(len(winners), 'model')}." if lines else "",
        ("at", "device", "first", "second", "third", "models"),
        tuple(lines),
        "Models whose intervals overlap the leader's share its rank. images/s in brackets.",
    )


def _inversions(entries: Sequence[Entry], mode: str) -> Table:
    result = inversions(entries)
    totals: dict[str, list[int]] = {}
    for (_, label), counts in result.counts.items():
        total = totals.setdefault(label, [0, 0])
        total[0] += counts[0]
        total[1] += counts[1]
    first = sorted(totals, key=lambda label: label != mode)
    said = ", ".join(
        f"{name_of(label)} {totals[label][0]} of {totals[label][1]}" for label in first
    )
    own = {device: pair for (device, label), pair in result.counts.items() if label == mode}
    if len(own) > 1:
        each = (f"{device} {pair[0]} of {pair[1]}" for device, pair in own.items())
        said += f". By device,{_by(mode)}: {', '.join(each)}"
    lines = [
        (
            _at(one.larger.place),
            _device(one.larger.place),
            name_of(one.larger.mode),
            f"{one.larger.model} ({_millions(one.larger)})",
            f"{one.smaller.model} ({_millions(one.smaller)})",
            times(one.ratio),
            "preliminary" if one.preliminary else "",
        )
        for one in result.each
    ]
    return Table(
        "",
        "inversions",
        "Larger models that are faster",
        f"Pairs of a line in which the larger model is faster: {said}." if said else "",
        ("at", "device", "mode", "larger", "faster than", "by", ""),
        tuple(lines),
        "Within a line (MobileNetV1 to V3 are one), by parameters, intervals apart."
        + _PRELIMINARY * any(one.preliminary for one in result.each),
    )


def of_table(rows: pyarrow.Table) -> list[Table]:
    """The tables of the rows of results folders."""
    asked = {name: rows[name].to_pylist() for name in overview.ASKED}
    rows = rows.take(overview.answering(asked))
    return tables({name: rows[name].to_pylist() for name in ranking.NEEDED})


def of_rows(rows: Sequence[ComparisonRow]) -> list[Table]:
    """The tables of rows of which each answers another question."""
    return tables({name: [value_of(row, name) for row in rows] for name in ranking.NEEDED})


def limited(table: Table) -> tuple[tuple[tuple[str, ...], ...], str]:
    """The first lines of a table, and its note, which says how many there are."""
    more = len(table.lines) - LINES
    return table.lines[:LINES], f"{table.note} {more:,} more lines." if more > 0 else table.note


def _pixels(agreement: ranking.Agreement) -> str:
    return f"{agreement.places[0].resolution_px} px"


def _millions(entry: Entry) -> str:
    return f"{(entry.params or 0) / 1e6:.1f} M"


def _by(mode: str) -> str:
    """A mode after a noun: ` with XLA`, or in brackets where its name says with what."""
    name = name_of(mode)
    return f" ({name})" if " " in name else f" with {name}"


def _device(place: Place) -> str:
    return f"{place.device}{', published' if place.published else ''}"


def _at(place: Place) -> str:
    """Resolution, batch size and the rest of a setting that does not go without saying."""
    words = [f"{place.resolution_px} px"]
    for name, value in zip(ranking.SETTING, place.setting, strict=True):
        asked = COLUMNS[name].asked
        if asked and name != "scenario" and str(value) != asked.usual:
            words.append(f"batch {value}" if name == "batch_size" else asked.write(value))
    return ", ".join(filter(None, words))
