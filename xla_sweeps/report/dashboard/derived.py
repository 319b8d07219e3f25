"""Compute from the page's columns everything that no filter changes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from xla_sweeps.analysis.cost import COST_COLUMNS
from xla_sweeps.analysis.overview import PREFERENCE
from xla_sweeps.report.labels import TELLING, told_apart
from xla_sweeps.schema.column import Part
from xla_sweeps.schema.columns import MEASURED, Verdict
from xla_sweeps.schema.modes import by_count, is_aa_pair, is_mode
from xla_sweeps.schema.row import COLUMNS, QUESTION
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


SIDES = tuple(
    name
    for name, column in COLUMNS.items()
    if column.asked and (name == "device" or column.asked.part is Part.SIDES)
)
"""Columns of the question that say on which device and which modes are compared."""

DERIVED_TEXTS, DERIVED_NUMBERS = ("suffix", "suffix_asked"), ("break_even_images", *COST_COLUMNS)


def with_derived(table: pyarrow.Table) -> pyarrow.Table:
    """The table with `break_even_images`, the price columns, `suffix` and `suffix_asked`.

    The prices are those of a machine that costs 1 an hour: the page multiplies them by its price.
    `break_even_images` is infinite where compiling never pays back, and missing where that is not
    known. `suffix` is what tells a row from those of the same name, "" if there are none;
    `suffix_asked` tells only questions apart, of which each is drawn once.
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
    return table


def numbers_of(table: pyarrow.Table) -> dict[str, list[int]]:
    """Numbers that a row shares with all of its configuration, question or trial.

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
        "configuration": numbers_by(name for name in QUESTION if name not in SIDES),
        "question": question,
        "trial": numbers_by(("trial_id", "results")),
        "preference": ranks,
        "twin": [int(_is_twin(*pair)) for pair in _pairs_of(table)],
    }


def scenarios_of(table: pyarrow.Table) -> list[tuple[str, list[tuple[str, list[str]]]]]:
    """The scenarios, those measured most first, each with the candidates of each baseline."""
    scenario, origin = (table[name].to_pylist() for name in ("scenario", "origin"))
    measured = Counter(
        name for name, where in zip(scenario, origin, strict=True) if where == MEASURED
    )
    pairs: dict[str, dict[str, dict[str, None]]] = {name: {} for name in scenario}
    for name, (baseline, candidate) in zip(scenario, _pairs_of(table), strict=True):
        if baseline and not _is_twin(baseline, candidate):
            pairs[name].setdefault(baseline, {})[candidate] = None
    return [
        (name, [(baseline, list(candidates)) for baseline, candidates in pairs[name].items()])
        for name in sorted(by_count(scenario), key=lambda name: -measured[name])
    ]


def facts_of(table: pyarrow.Table) -> dict[str, Any]:
    """Machines and software of what was measured here, and the days of it, as texts."""
    import pyarrow.compute

    measured = table.filter(pyarrow.compute.equal(table["origin"], MEASURED))
    texts = {name: _texts(measured, name) for name in ("measured_at", *_FACTS.values())}
    facts = {title: _some(texts[name]) for title, name in _FACTS.items()}
    return {
        "facts": [*{"Devices": _some(_texts(table, "device")), **facts}.items()],
        "software": _some(texts["software"], most=2),
        "when": _days(texts["measured_at"]),
    }


_FACTS = {
    "Software": "software",
    "Driver": "driver",
    "Environment": "environment_flags",
    "Hosts": "host",
}


def _texts(table: pyarrow.Table, name: str) -> list[str]:
    return sorted(filter(None, table[name].unique().to_pylist()))


def _some(texts: list[str], most: int = 3) -> str:
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more


def _days(times: list[str]) -> str:
    """The days of the first and the last of these times: `1–5 Nov 2026`; "" without any."""
    if not times:
        return ""
    moments = [datetime.fromisoformat(times[place]).astimezone(UTC) for place in (0, -1)]
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
    return list(whole.sort_by([(name, "ascending") for name in keys]).to_pylist())


def _pairs_of(table: pyarrow.Table) -> Iterator[tuple[str, str]]:
    return zip(*(table[name].to_pylist() for name in ("baseline", "candidate")), strict=True)


def _is_twin(baseline: str, candidate: str) -> bool:
    return is_mode(baseline) and is_mode(candidate) and is_aa_pair(baseline, candidate)
