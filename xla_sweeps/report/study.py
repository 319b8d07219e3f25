"""The questions of the public study as tables, for terminal, page and W&B report. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from xla_sweeps.analysis import compatibility, overview, ranking
from xla_sweeps.analysis.ranking import Bounded, Entry, Inversion, Place
from xla_sweeps.report.advice import name_of
from xla_sweeps.report.compatibility import HEADINGS, by_source, sentence
from xla_sweeps.report.figures import NONE, decimals, interval, scale_count, three_digits, times
from xla_sweeps.report.labels import setting_words, short_devices
from xla_sweeps.report.sentences import SETTLE, TOO_LITTLE
from xla_sweeps.schema.comparisons import by_count, by_scenario, headline_of
from xla_sweeps.schema.row import ComparisonRow, value_of
from xla_sweeps.system.text import count_noun

if TYPE_CHECKING:
    import pyarrow

PODIUM_PLACES = 3

MARKS = {
    "fastest": {" *": " (*) another device's fastest model is another."},
    "inversions": {
        " *": " (*) preliminary: a single replicate, so that the interval does not show how "
        "replicates differ.",
        " ○": " (○) published: single measurements without an interval.",
    },
}
"""Ends of cells of a table, and what its note says of them."""

CHECKED = (*compatibility.NEEDED, *ranking.SETTING, "device", "effort", "headline")
"""Columns that `compatibility_tables` needs."""

Lines = list[tuple[str, ...]]

Ranked = Mapping[Place, Sequence[Entry]]
"""The models of each place by throughput, the fastest first."""


class Question(NamedTuple):
    """A table: its name, what it needs before it says anything, its columns, and how to read it."""

    title: str
    needs: str
    columns: tuple[str, ...]
    note: str


QUESTIONS = {
    "fastest": Question(
        "The fastest model at each resolution",
        "a model whose throughput is known",
        ("at", "device", "fastest", "images/s", "95 %", "candidates", "as fast"),
        "With one candidate nothing can overtake it.",
    ),
    "distribution": Question(
        "How far apart are the models of a resolution?",
        "two models at one resolution on one device",
        ("at", "device", "slowest", "a quarter", "middle", "three quarters", "fastest", "models"),
        "Images/s. A quarter of the models are slower than the second figure, a quarter are faster "
        "than the fourth.",
    ),
    "agreement": Question(
        "Do devices rank models alike?",
        f"{ranking.MIN_FOR_TAU} models on each of two devices",
        ("at", "devices", "models", "tau", "95 %"),
        f"1: the same order; 0: unrelated. Given from {ranking.MIN_FOR_TAU} models on both.",
    ),
    "podium": Question(
        "Podiums",
        "two models at one resolution on one device",
        ("at", "device", "ranked by", "first", "second", "third", "models"),
        "Models whose intervals overlap the leader's share its rank. The figure in brackets.",
    ),
    "families": Question(
        "The best of each family",
        "two families at one resolution on one device",
        ("at", "device", "family", "fastest", "images/s", "gains most", "over", "%"),
        "% that this model gains over that mode; the figure of a published pair has no interval.",
    ),
    "inversions": Question(
        "Larger models that are faster",
        "two models of one line on one device",
        ("at", "device", "mode", "larger", "faster than", "by"),
        "Within a line (MobileNetV1 to V3 are one), by parameters, intervals apart.",
    ),
    "compatibility": Question(
        "Which models compile?",
        "a trial of `xla-sweeps compatibility`",
        ("at", "device", *HEADINGS),
        "Of the trials of `xla-sweeps compatibility`.",
    ),
}
"""The tables by their name in `results --show`."""


@dataclass(frozen=True, slots=True)
class Table:
    """The answer to a question of one scenario: the finding in a sentence, and figures as text."""

    scenario: str
    key: str
    title: str
    finding: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    note: str


def tables(columns: Mapping[str, Sequence[Any]]) -> list[Table]:
    """The tables that have something to say, of `ranking.NEEDED` with a row of each question."""
    made: list[Table] = []
    every, scenario_place = ranking.entries_of(columns), ranking.SETTING.index("scenario")
    short = short_devices(entry.place.device for entry in every)
    for scenario in by_count(columns["scenario"]):
        entries = [
            replace(entry, place=entry.place._replace(device=short[entry.place.device]))
            for entry in every
            if entry.place.setting[scenario_place] == scenario
        ]
        mode = headline_of(scenario)[1]
        ranked = ranking.at_places(entry for entry in entries if entry.mode == mode)
        answers = {key: answer(ranked, mode) for key, answer in _ANSWERS.items()}
        answers["inversions"] = _inversions(entries, mode)
        for key, (finding, lines) in answers.items():
            if finding:
                asked, ends = QUESTIONS[key], tuple(cell[-2:] for line in lines for cell in line)
                marks = [text for mark, text in MARKS.get(key, {}).items() if mark in ends]
                text = asked.title, finding, asked.columns, tuple(lines)
                made.append(Table(scenario, key, *text, "".join([asked.note, *marks])))
    return made


def _fastest(ranked: Ranked, mode: str) -> tuple[str, Lines]:
    chosen: dict[Any, list[str]] = {}  # by setting, where there was a choice
    for place, (first, *others) in ranked.items():
        chosen.setdefault(place[:2], []).extend([first.model] if others else [])
    differing = {setting for setting, models in chosen.items() if len({*models}) > 1}
    lines: Lines = []
    for place, (first, *others) in ranked.items():
        is_other = others and place[:2] in differing
        tied = [other.model for other in others if not _apart(first, other)]
        lines.append(
            (
                *_place(place),
                f"{first.model}{' *' if is_other else ''}",
                three_digits(first.value),
                interval(first.low, first.high, three_digits),
                str(1 + len(others)),
                ", ".join(tied[:3]) or NONE,
            )
        )
    finding = f"The fastest model{_by(mode)} in {count_noun(len(chosen), 'setting')}"
    if several := sum(len(models) > 1 for models in chosen.values()):
        finding += (
            f": another one on another device in {len(differing)} of {several} "
            "where several devices had a choice"
        )
    return f"{finding}." if lines else "", lines


def _distribution(ranked: Ranked, mode: str) -> tuple[str, Lines]:
    lines, spans = Lines(), list[float]()
    for place, own in ranked.items():
        rates = [entry.value for entry in own]
        if len(rates) > 1:
            quarters = statistics.quantiles(rates, n=4, method="inclusive")
            figures = map(three_digits, (rates[-1], *quarters, rates[0]))
            lines.append((*_place(place), *figures, str(len(rates))))
            spans += [rates[0] / rates[-1]] if _apart(own[0], own[-1]) else []
    if not spans:
        finding = f"{TOO_LITTLE.capitalize()} the models of a setting apart: {SETTLE}."
        return finding if lines else "", lines
    ends = " to ".join(dict.fromkeys(map(three_digits, (min(spans), max(spans)))))
    rest, settings = len(lines) - len(spans), count_noun(len(spans), "setting")
    finding = f"The fastest model is {ends} times as fast as the slowest, in {settings}"
    return f"{finding}{f'; in {rest} more it is {TOO_LITTLE}' if rest else ''}.", lines


def _apart(fast: Entry, slow: Entry) -> bool:
    """True if two intervals do not overlap; published figures have none, and count."""
    return fast.low is None or slow.high is None or fast.low > slow.high


def _agreement(ranked: Ranked, mode: str) -> tuple[str, Lines]:
    every = ranking.agreements(ranked)
    if not every:
        return "", []
    ends = [choose(every, key=lambda one: one.tau) for choose in (min, max)]
    sizes = [one.places[0].resolution_px for one in ends]
    said = [f"{decimals(one.tau)} at {one.places[0].resolution_px} px" for one in ends]
    if sizes[0] == sizes[1] and said[0] != said[1]:
        said[0] = decimals(ends[0].tau)  # the size is said once
    lines: Lines = [
        (
            _place(one.places[0])[0],
            " and ".join(_place(place)[1] for place in one.places),
            str(one.models),
            decimals(one.tau),
            f"{decimals(one.low)} to {decimals(one.high)}",
        )
        for one in every
    ]
    return f"Kendall's tau between devices: {' to '.join(dict.fromkeys(said))}.", lines


def _podium(ranked: Ranked, mode: str) -> tuple[str, Lines]:
    lines, winners, rankings = Lines(), set[str](), 0
    for place, own in ranked.items():
        if len(own) < 2:
            continue
        rates = [(entry.model, (entry.value, entry.low, entry.high)) for entry in own]
        winners |= {own[0].model, *(model for rank, model, _ in _best_of(rates) if rank == 1)}
        rankings += 1
        lines.append((*_place(place), "images/s", *_steps(rates, three_digits)))
        for baseline in dict.fromkeys(entry.baseline for entry in own if entry.baseline):
            than = f"than {name_of(baseline)}"
            for by, figure in (("images/s more", "absolute"), ("% more", "percent")):
                if len(gains := _gains(own, baseline, figure)) > 1:
                    lines.append((*_place(place), f"{by} {than}", *_steps(gains, _with_sign)))
    finding = (
        f"The first places of {count_noun(rankings, 'ranking')} by images/s: "
        f"{count_noun(len(winners), 'model')}."
    )
    return finding if lines else "", lines


def _gains(own: Sequence[Entry], baseline: str, figure: str) -> list[tuple[str, Bounded]]:
    """Gains of models over a baseline, the largest first."""
    every = [(entry.model, getattr(entry, figure)) for entry in own if entry.baseline == baseline]
    return sorted((gain for gain in every if gain[1]), key=lambda gain: -gain[1][0])


def _best_of(ranked: Sequence[tuple[str, Bounded]]) -> list[tuple[int | None, str, float]]:
    """Rank, model and figure of the first three."""
    best = ranked[:PODIUM_PLACES]
    given = ranking.ranks([figure for _, figure in best])
    return [(rank, model, figure[0]) for rank, (model, figure) in zip(given, best, strict=True)]


def _steps(ranked: Sequence[tuple[str, Bounded]], write: Callable[[float], str]) -> tuple[str, ...]:
    """The first three with their ranks, and how many there are."""
    steps = [f"{rank or NONE} {model} ({write(value)})" for rank, model, value in _best_of(ranked)]
    return (*steps, *[NONE] * (PODIUM_PLACES - len(steps)), str(len(ranked)))


def _families(ranked: Ranked, mode: str) -> tuple[str, Lines]:
    lines, settings = Lines(), 0
    for place, own in ranked.items():
        families = dict.fromkeys(entry.family for entry in own)
        if len(families) < 2:
            continue
        settings += 1
        for family in families:
            members = [entry for entry in own if entry.family == family]
            first = (*_place(place), family, members[0].model, three_digits(members[0].value))
            baselines = dict.fromkeys(entry.baseline for entry in members if entry.percent)
            for baseline in baselines:
                model, (most, *_) = _gains(members, baseline, "percent")[0]
                lines.append((*first, model, name_of(baseline), _with_sign(most)))
            if not baselines:
                lines.append((*first, NONE, NONE, NONE))
    places = count_noun(settings, "setting")
    finding = f"The fastest model of each family, and the one that gains most, in {places}."
    return finding if lines else "", lines


def _with_sign(value: float) -> str:
    return f"{'+' if value > 0 else ''}{three_digits(value)}"


def _mark(one: Inversion) -> str:
    if one.larger.place.published:
        return " ○"
    return " *" if one.preliminary else ""


def _inversions(entries: Sequence[Entry], mode: str) -> tuple[str, Lines]:
    inverted, counts = ranking.inversions(entries)
    labels = sorted(dict.fromkeys(label for _, label in counts), key=lambda label: label != mode)
    parts = []
    for label in labels:
        pairs = [pair for (_, other), pair in counts.items() if other == label]
        inverse, total = map(sum, zip(*pairs, strict=True))
        parts.append(f"{name_of(label)} {inverse} of {total}")
    said = ", ".join(parts)
    own = {device: pair for (device, label), pair in counts.items() if label == mode}
    if len(own) > 1:
        each = (f"{device} {pair[0]} of {pair[1]}" for device, pair in own.items())
        said += f". By device,{_by(mode)}: {', '.join(each)}"
    lines: Lines = [
        (
            *_place(one.larger.place),
            name_of(one.larger.mode),
            *(
                f"{entry.model} ({scale_count(entry.params or 0)})"
                for entry in (one.larger, one.smaller)
            ),
            times(one.ratio) + _mark(one),
        )
        for one in inverted
    ]
    finding = f"Pairs of a line in which the larger model is faster: {said}."
    return finding if said else "", lines


_ANSWERS = {
    "fastest": _fastest,
    "distribution": _distribution,
    "agreement": _agreement,
    "podium": _podium,
    "families": _families,
}


def compatibility_tables(columns: Mapping[str, Sequence[Any]]) -> list[Table]:
    """The counts of the trials of effort `check` in each scenario, of `CHECKED`."""
    every = zip(*(columns[name] for name in CHECKED), strict=True)
    rows = [dict(zip(CHECKED, values, strict=True)) for values in every]
    rows = [row for row in rows if row["effort"] == compatibility.CHECK and row["headline"]]
    made, asked = list[Table](), QUESTIONS["compatibility"]
    short = short_devices(row["device"] for row in rows)
    for scenario, checks in by_scenario(rows, key=lambda row: str(row["scenario"])).items():
        groups: dict[tuple[str, ...], list[compatibility.Row]] = {}
        for row in checks:
            setting = {name: row[name] for name in ranking.SETTING}
            words = setting_words(setting | dict.fromkeys(("scenario", "path", "inputs"), ""))
            place = f"{name_of(row['candidate'])}, {words}", short[row["device"]]
            groups.setdefault(place, []).append(compatibility.with_own_status(row))
        lines = [(*place, *line) for place, own in groups.items() for line in by_source(own)]
        finding = " ".join(map(sentence, groups.values()))
        text = asked.title, finding, asked.columns, tuple(lines), asked.note
        made.append(Table(scenario, "compatibility", *text))
    return made


def answers_of(rows: pyarrow.Table, names: Iterable[str]) -> dict[str, list[Any]]:
    """Columns of the rows of results folders, of one row of each question."""
    asked = {name: rows[name].to_pylist() for name in overview.ASKED}
    answering = rows.take(overview.answering(asked))
    return {name: answering[name].to_pylist() for name in names}


def of_table(rows: pyarrow.Table) -> list[Table]:
    """The tables of the rows of results folders."""
    columns = answers_of(rows, {*ranking.NEEDED, *CHECKED})
    return [*tables(columns), *compatibility_tables(columns)]


def of_rows(rows: Sequence[ComparisonRow]) -> list[Table]:
    """The tables of rows of which each answers another question."""
    columns = {name: [value_of(row, name) for row in rows] for name in {*ranking.NEEDED, *CHECKED}}
    return [*tables(columns), *compatibility_tables(columns)]


def _by(mode: str) -> str:
    """A mode after a noun: ` with XLA`, or in brackets where its name says with what."""
    name = name_of(mode)
    return f" ({name})" if " " in name else f" with {name}"


def _place(place: Place) -> tuple[str, str]:
    """Resolution, batch size and what else does not go without saying; and the device."""
    setting = dict(zip(ranking.SETTING, place.setting, strict=True)) | {"scenario": ""}
    words = setting_words({"resolution_px": place.resolution_px, **setting})
    return words, f"{place.device}{', published' if place.published else ''}"
