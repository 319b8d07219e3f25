"""Compute from the page's columns everything that no filter changes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from xla_sweeps.analysis.cost import COSTS
from xla_sweeps.analysis.overview import LIKE, PREFERENCE
from xla_sweeps.analysis.ranking import SETTING
from xla_sweeps.report.labels import TELLING, setting_words, told_apart
from xla_sweeps.schema.columns import MEASURED, Verdict
from xla_sweeps.schema.comparisons import by_backend, by_count, headline_of, is_aa_pair
from xla_sweeps.schema.measurement import Flag, Flagged, Status
from xla_sweeps.schema.row import QUESTION
from xla_sweeps.store.table import add_price

if TYPE_CHECKING:
    import pyarrow

_NAMED_BY = (
    *("model", "resolution_px", "batch_size", "precision", "tf32", "device"),
    *("candidate", "baseline", "scenario"),
)
"""Columns of a row's name, and the scenario: the page shows one at a time."""

_TOLD_APART_BY = ("results", *TELLING[:-1], "measured_at", TELLING[-1])
"""Columns that tell rows of one name apart, the plainest first."""


DERIVED_TEXTS = ("suffix", "suffix_asked", "setting", "ranked_at", "failed_side", "marks")
DERIVED_NUMBERS = ("break_even_images", *COSTS)

FEW_REPLICATES = 3
"""A measurement with fewer has the mark `*`."""


def with_derived(table: pyarrow.Table) -> pyarrow.Table:
    """The table with the derived columns.

    The prices are those of a machine that costs 1 an hour: the page multiplies them by its price.
    `break_even_images` is infinite where compiling never pays back, and missing where that is not
    known. `suffix` is what tells a row from those of the same name, "" if there are none;
    `suffix_asked` tells only questions apart, of which each is drawn once. `setting` is what models
    that are ranked share, in words; `ranked_at` has the resolution too. `failed_side` is the side
    that failed, "" for none. `marks` are those of the row's figures: `~` contaminated, `*` few
    replicates, `h` the device waits for the host, `n` slower on new inputs.
    """
    import pyarrow

    calls, extra, speedup, samples = (
        table[name].cast("float64").to_numpy()
        for name in ("break_even_calls", "compile_s_extra", "speedup", "samples")
    )
    is_open = np.array(table["verdict"].to_pylist()) == str(Verdict.AMBIGUOUS)
    unknown = np.isnan(speedup) | np.isnan(extra) | is_open
    needed = np.where(unknown, np.nan, np.where(np.isnan(calls), np.inf, calls * samples))
    table = add_price(table, 1.0).append_column("break_even_images", pyarrow.array(needed))
    asked = [name for name in _TOLD_APART_BY if name in QUESTION]
    for column, by in (("suffix", _TOLD_APART_BY), ("suffix_asked", asked)):
        values = {name: table[name].to_pylist() for name in (*_NAMED_BY, *by)}
        told = [text and f" · {text}" for text in told_apart(values, _NAMED_BY, by)]
        table = table.append_column(column, pyarrow.array(told, pyarrow.string()))
    texts = {"setting": _settings_of(table, SETTING)}
    texts["ranked_at"] = _settings_of(table, ("resolution_px", *SETTING))
    texts |= {"failed_side": _failed_sides(table), "marks": _marks_of(table)}
    for column, said in texts.items():
        table = table.append_column(column, pyarrow.array(said, pyarrow.string()))
    return table


def _settings_of(table: pyarrow.Table, names: Sequence[str]) -> list[str]:
    """The values of these columns in words, without the scenario."""
    asked = [name for name in names if name != "scenario"]

    @cache
    def words_of(values: tuple[Any, ...]) -> str:
        setting = zip(asked, values, strict=True)
        return setting_words({name: value for name, value in setting if value is not None})

    return [*map(words_of, zip(*(table[name].to_pylist() for name in asked), strict=True))]


def _failed_sides(table: pyarrow.Table) -> list[str]:
    modes = (table[name].to_pylist() for name in ("failed_mode", "baseline"))
    return [
        ("baseline" if failed == baseline else "candidate") if failed else ""
        for failed, baseline in zip(*modes, strict=True)
    ]


def _marks_of(table: pyarrow.Table) -> list[str]:
    figures = ("status", "replicates", "origin", "host_bound", "speedup")
    names = (*figures, "flags", "candidate", "baseline")
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    return [
        "~" * (status == Status.CONTAMINATED)
        + "*" * bool(origin == MEASURED and speedup and (replicates or 0) < FEW_REPLICATES)
        + " h" * bool(waits)
        + " n" * any(str(Flagged(Flag.SLOW_ON_NEW_INPUTS, mode)) in flags.split() for mode in pair)
        for status, replicates, origin, waits, speedup, flags, *pair in rows
    ]


def numbers_of(table: pyarrow.Table) -> dict[str, list[int]]:
    """Numbers that a row shares with all of its question, like settings or trial.

    Of a question's rows the one with the highest `preference` answers. A/A pairs have `twin` 1.
    """

    def numbers_by(names: Iterable[str]) -> list[int]:
        numbers = dict[Any, int]()
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        return [numbers.setdefault(row, len(numbers)) for row in rows]

    indices = table.select(PREFERENCE).append_column("row", [range(table.num_rows)])
    order = indices.sort_by([(name, "ascending") for name in indices.column_names])["row"]
    question = numbers_by(QUESTION)
    ranks, seen = [0] * table.num_rows, Counter[int]()
    for row in order.to_pylist():
        ranks[row] = seen[question[row]]
        seen[question[row]] += 1
    return {
        "question": question,
        "like": numbers_by(LIKE),
        "trial": numbers_by(("trial_id", "results")),
        "preference": ranks,
        "twin": [int(is_aa_pair(*pair)) for pair in _pairs_of(table)],
    }


def scenarios_of(table: pyarrow.Table) -> list[tuple[str, list[tuple[str, str, list[str]]]]]:
    """The scenarios, those measured most first, with their pairs: baseline, candidate, origins.

    A scenario's own pair is first; pairs of two engines are last.
    """
    scenario, origin = (table[name].to_pylist() for name in ("scenario", "origin"))
    measured = Counter(
        name for name, where in zip(scenario, origin, strict=True) if where == MEASURED
    )
    pairs: dict[str, dict[tuple[str, str], dict[str, None]]] = {name: {} for name in scenario}
    for name, pair, where in zip(scenario, _pairs_of(table), origin, strict=True):
        if pair[0] and not is_aa_pair(*pair):
            pairs[name].setdefault(pair, {})[where] = None
    return [
        (name, [(*pair, list(pairs[name][pair])) for pair in _order_pairs(name, pairs[name])])
        for name in sorted(by_count(scenario), key=lambda name: -measured[name])
    ]


def _order_pairs(scenario: str, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    own = headline_of(scenario)

    def distance(pair: tuple[str, str]) -> tuple[bool, bool, bool]:
        return len(by_backend(pair)) > 1, pair[0] != own[0], pair[1] != own[1]

    return sorted(pairs, key=distance)


def facts_of(table: pyarrow.Table) -> dict[str, Any]:
    """Machines and software of what was measured here, and the days of it, as texts."""
    import pyarrow.compute

    measured = table.filter(pyarrow.compute.equal(table["origin"], MEASURED))
    facts = {"Devices": _some(_texts(table, "device"))}
    facts |= {title: _some(_texts(measured, name)) for title, name in _FACTS.items()}
    return {"facts": [*facts.items()], "when": _days(_texts(measured, "measured_at"))}


_FACTS = {
    "Software": "software",
    "Driver": "driver",
    "Commit": "commit",
    "Environment": "environment_flags",
}


def _texts(table: pyarrow.Table, name: str) -> list[str]:
    return sorted(filter(None, table[name].unique().to_pylist()))


def _some(texts: list[str]) -> str:
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return "; ".join(texts[:3]) + more


def _days(times: list[str]) -> str:
    """The days of the first and the last of these times: `1–5 Nov 2026`; "" without any."""
    try:
        moments = [datetime.fromisoformat(times[place]).astimezone(UTC) for place in (0, -1)]
    except (IndexError, ValueError, OverflowError):  # there is none, or a record has another text
        return ""
    first, last = ([str(each.day), *each.strftime("%b %Y").split()] for each in moments)
    shared = next((n for n in (3, 2, 1) if first[-n:] == last[-n:]), 0)
    return " ".join(last) if shared == 3 else f"{' '.join(first[: 3 - shared])}–{' '.join(last)}"


def bands_of(table: pyarrow.Table, twins: list[int]) -> list[dict[str, Any]]:
    """Each scenario's devices: trials, and of those measured here the band and the A/A pairs."""
    import pyarrow.compute

    keys = ["scenario", "device"]
    table = table.append_column("twin", [twins])
    measured = table.filter(pyarrow.compute.equal(table["origin"], MEASURED))
    bands = measured.group_by(keys).aggregate([("floor", "max"), ("twin", "sum")])
    trials = table.group_by(keys).aggregate([("trial_id", "count_distinct")])
    whole = trials.join(bands, keys).rename_columns([*keys, "trials", "floor", "twins"])
    lines = list(whole.sort_by([(name, "ascending") for name in keys]).to_pylist())
    columns = {name: measured[name].to_pylist() for name in (*keys, *_QUIET)}
    return [{**line, **_quiet_facts(columns, tuple(line[key] for key in keys))} for line in lines]


_QUIET = (
    *("status", "host_bound", "cv_percent", "within_percent", "between_percent"),
    *("sm_clock_mhz_low", "sm_clock_mhz_high", "temperature_high"),
)


def _quiet_facts(columns: dict[str, list[Any]], group: tuple[Any, ...]) -> dict[str, str]:
    """Words on how quiet a device was over its measurements in a scenario."""
    rows = zip(*(columns[name] for name in ("scenario", "device", *_QUIET)), strict=True)
    own = [row[2:] for row in rows if row[:2] == group]
    states, waits, noise, within, between, low, high, heat = (
        zip(*own, strict=True) if own else [()] * 8
    )
    spreads = [pair for pair in zip(within, between, strict=True) if pair[0] and pair[1]]
    facts = {"contaminated": f"{states.count(Status.CONTAMINATED)} of {len(own)}"}
    if any(waits):
        facts["waiting"] = f"{sum(map(bool, waits))} of {len(own)}"
    if scatter := [value for value in noise if value]:
        facts["noise"] = f"{np.median(scatter):.3g} %"
    if spreads:
        facts["between"] = f"{sum(b > a for a, b in spreads)} of {len(spreads)}"
    if any(low):
        facts["clocks"] = f"{min(filter(None, low)):,.0f} to {max(filter(None, high)):,.0f} MHz"
    if any(heat):
        facts["heat"] = f"{max(filter(None, heat)):.0f} °C"
    return facts


def _pairs_of(table: pyarrow.Table) -> Iterator[tuple[str, str]]:
    return zip(*(table[name].to_pylist() for name in ("baseline", "candidate")), strict=True)
