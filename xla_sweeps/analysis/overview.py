"""Summarize many comparisons: verdict counts, geometric means. Pure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xla_sweeps.analysis.ranking import SETTING, number
from xla_sweeps.schema.columns import MEASURED, Verdict
from xla_sweeps.schema.comparisons import by_count, headline_of
from xla_sweeps.schema.measurement import UNFINISHED
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.row import QUESTION, ComparisonRow, value_of

MIN_FOR_SPREAD = 8  # models from which on it is said where 8 of 10 pairs lie

PREFERENCE = ("replicates", "measured_at", "trial_id")
"""Columns by which the row of a question is chosen: the greatest answers."""

_SIDES = ("origin", "scenario", "baseline", "candidate")

_FIGURES = ("speedup", "compile_s_extra", "break_even_calls")

LIKE = ("device", *SETTING)
"""Columns that rows must share to have a mean or a cost of all of them."""

SUMMED = tuple(dict.fromkeys((*_SIDES, "model", "verdict", *_FIGURES, *LIKE)))
"""Columns that `overview_of` needs."""

ASKED = (*QUESTION, *PREFERENCE)
"""Columns that `answering` needs."""

_COUNTED = ("faster", "slower", "equivalent", "ambiguous", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All pairs of one candidate and one baseline, in one scenario.

    Attributes:
        not_measured: further ones that no mode's failure explains; they count nowhere else.
        settings: how many settings (`LIKE`) the compared ones are of. With more than one there is
            no mean, no spread and no median cost, only `low` and `high`: the lowest and the
            highest speedup.
        spread_low, spread_high: between which 8 of 10 of the speedups lie (the 10th and the 90th
            percentile); None for fewer than eight models.
        priced: pairs with a compile time of which it is known whether they gain: not ambiguous.
        median_break_even_calls: of these; one that is slower or equivalent never pays back, and
            counts as infinitely many calls. None where that is the median, or nothing is known.
        never: how many of these never pay back.
    """

    scenario: str
    baseline: str
    candidate: str
    pairs: int
    faster: int
    slower: int
    equivalent: int
    ambiguous: int
    failed: int
    not_measured: int
    compared: int
    models: int
    settings: int
    low: float | None
    high: float | None
    geomean: float | None
    spread_low: float | None
    spread_high: float | None
    median_extra_compile_s: float | None
    priced: int
    median_break_even_calls: float | None
    never: int

    @property
    def has_mean(self) -> bool:
        """True if the pairs are alike and the intervals of most give a verdict."""
        return (
            self.geomean is not None
            and self.faster + self.slower + self.equivalent > self.ambiguous
        )


def answers(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """One row of each question that was measured to its end (`answering`), in the rows' order."""
    rows = [row for row in rows if row.status not in UNFINISHED]
    columns = {name: [value_of(row, name) for row in rows] for name in ASKED}
    return [rows[index] for index in answering(columns)]


def answering(columns: Mapping[str, Sequence[Any]]) -> list[int]:
    """Places of the rows that answer each question: with the most replicates, then the newest."""
    best: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    questions = zip(*(columns[name] for name in QUESTION), strict=True)
    ranks = zip(*(columns[name] for name in PREFERENCE), itertools.count())
    for question, rank in zip(questions, ranks, strict=True):
        best[question] = max(rank, best.get(question, ()))
    return sorted(rank[-1] for rank in best.values())


def overview(rows: Sequence[ComparisonRow]) -> Overview:
    """The overview of the commonest scenario's headline pairs that were measured to their end."""
    rows = [row for row in rows if row.status not in UNFINISHED]
    return overview_of({name: [value_of(row, name) for row in rows] for name in SUMMED})


def by_device(rows: Sequence[ComparisonRow]) -> dict[str, Overview]:
    """The overview of the rows of each device, by its name."""
    return devices_of({name: [value_of(row, name) for row in rows] for name in SUMMED})


def devices_of(columns: Mapping[str, Sequence[Any]]) -> dict[str, Overview]:
    """The overview of each device with a pair, of `SUMMED` by name, by its name."""
    scenario = overview_of(columns).scenario
    places: dict[str, list[int]] = {}
    for place, device in enumerate(columns["device"]):
        if columns["scenario"][place] == scenario:
            places.setdefault(device, []).append(place)
    overviews = {
        device: overview_of({name: [columns[name][place] for place in own] for name in SUMMED})
        for device, own in sorted(places.items())
    }
    return {device: each for device, each in overviews.items() if each.pairs}


def overview_of(columns: Mapping[str, Sequence[Any]], *, baseline: str = "") -> Overview:
    """The overview from columns of equal length, by name, or against another baseline."""
    sides = list(zip(*(columns[name] for name in _SIDES), strict=True))
    scenarios = by_count(scenario for origin, scenario, *_ in sides if origin == MEASURED)
    scenario = next(iter(scenarios), str(Scenario.CALL))
    usual, candidate = headline_of(scenario)
    wanted = (MEASURED, scenario, baseline or usual, candidate)
    places = [place for place, side in enumerate(sides) if side == wanted]
    own = [{name: columns[name][place] for name in SUMMED} for place in places]
    pairs = [row for row in own if row["verdict"] != Verdict.NOT_MEASURED]
    compared = [row for row in pairs if number(row["speedup"]) is not None]
    costly = [row for row in compared if number(row["compile_s_extra"]) is not None]
    priced = [row["break_even_calls"] for row in costly if row["verdict"] != Verdict.AMBIGUOUS]
    calls = [math.inf if number(one) is None else one for one in priced]
    values = [row["speedup"] for row in compared]
    mean, models = geometric_mean(values, [row["model"] for row in compared])
    spread_low, spread_high = spread(values, models)
    settings = {tuple(row[name] for name in LIKE) for row in compared}
    is_alike = len(settings) < 2
    extra_s = statistics.median(row["compile_s_extra"] for row in costly) if costly else None
    median = statistics.median(calls) if calls else math.inf
    counts = Counter(str(row["verdict"]) for row in pairs)
    return Overview(
        scenario=scenario,
        baseline=baseline or usual,
        candidate=candidate,
        pairs=len(pairs),
        not_measured=len(own) - len(pairs),
        **{word: counts[word] for word in _COUNTED},
        compared=len(compared),
        models=models,
        settings=len(settings),
        low=min(values, default=None),
        high=max(values, default=None),
        geomean=mean if is_alike else None,
        spread_low=spread_low if is_alike else None,
        spread_high=spread_high if is_alike else None,
        median_extra_compile_s=extra_s if is_alike else None,
        priced=len(priced),
        median_break_even_calls=median if is_alike and math.isfinite(median) else None,
        never=sum(number(one) is None for one in priced),
    )


def geometric_mean(values: Sequence[float], models: Sequence[str]) -> tuple[float | None, int]:
    """Geometric mean of positive values, and the number of models.

    Each model counts once: its sizes, batches and devices are not independent. It has no interval:
    models are chosen, not drawn at random.
    """
    if not values:
        return None, 0
    codes: dict[str, int] = {}
    unit = np.array([codes.setdefault(name, len(codes)) for name in models])
    means = np.bincount(unit, weights=np.log(values)) / np.bincount(unit)
    return math.exp(means.mean()), means.size


def spread(values: Sequence[float], models: int) -> tuple[float | None, float | None]:
    """Range of 8 of 10 values, the 10th and the 90th percentile; None for few models."""
    if models < MIN_FOR_SPREAD:
        return None, None
    low, high = np.quantile(values, [0.1, 0.9])
    return float(low), float(high)
