"""Columns of rows that depend on other trials: intervals, floors, verdicts, break-even. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xla_sweeps.analysis.estimates import LATENCY
from xla_sweeps.analysis.interval import (
    Bounds,
    Numbers,
    break_even,
    difference_of,
    errors_of,
    is_noisy,
    judge,
    reach_of,
)
from xla_sweeps.analysis.pool import NOTHING, Key, Pool
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.row import COLUMNS, Figure, bands_of

_PARTS = {part: bands_of(part) for part in ("candidate", "baseline", "speedup", "provenance")}
"""Columns with bounds, by the part of a row and the figure that they show."""

_EXTRA = ("compile_s_extra", "compile_s_extra_low", "compile_s_extra_high")

NEEDED = (
    *("trial_id", "host", "baseline", "candidate", "verdict"),
    *(band[0] for figures in _PARTS.values() for bands in figures.values() for band in bands),
)
"""The columns from which `judge_columns` makes others."""

_NAMES = {column.path: name for name, column in COLUMNS.items()}


def judge_columns(
    columns: Mapping[str, Sequence[Any]],
    figures: Mapping[str, Mapping[Key, Figure]],
    pools: Mapping[str, Pool],
) -> dict[str, Any]:
    """The columns of rows that depend on other trials; NaN where a number is missing."""
    trials = columns["trial_id"]
    rows = _Rows(
        [figures.get(trial, {}) for trial in trials],
        [pools.get(trial, NOTHING) for trial in trials],
    )
    pairs = list(zip(columns["baseline"], columns["candidate"], strict=True))
    candidates, baselines = (
        [(label,) for label in columns[side]] for side in ("candidate", "baseline")
    )
    labels: Mapping[str, Sequence[tuple[str, ...]]] = {
        "candidate": candidates,
        "baseline": baselines,
        "speedup": pairs,
        "provenance": [()] * len(pairs),
    }
    made: dict[str, Any] = {}
    for part, figures_shown in _PARTS.items():
        for name, bands in figures_shown.items():
            reach = rows.reach(name, labels[part])
            for value, low, high in bands:
                numbers = np.array(columns[value], dtype=float)
                made |= {low: numbers * np.exp(-reach), high: numbers * np.exp(reach)}
    extra = difference_of(rows.level("prepare", baselines), rows.level("prepare", candidates))
    made |= dict(zip(_EXTRA, extra, strict=True))
    made |= rows.floors(pairs, columns["host"])
    floor = np.asarray(made["floor"])
    judgement, single = (rows.judge(name, pairs, floor) for name in ("speedup", LATENCY))
    speedup = Bounds(judgement["value"], judgement["low"], judgement["high"])
    faster = np.array([word == Verdict.FASTER for word in judgement["verdict"]], dtype=bool)
    paid = break_even(extra, rows.level("call", baselines), speedup)
    made |= {name: np.where(faster, calls, np.nan) for name, calls in paid.items()}
    made |= {_NAMES[f"speedup.{end}"]: values for end, values in judgement.items()}
    made |= {_NAMES[f"speedup.latency_{end}"]: single[end] for end in ("verdict", "low", "high")}
    words = zip(judgement["verdict"], columns["verdict"], strict=True)
    return made | {"verdict": [word or given for word, given in words]}


@dataclass(frozen=True, slots=True)
class _Rows:
    """The figures and the pool of each row's trial."""

    _figures: Sequence[Mapping[Key, Figure]]
    _pools: Sequence[Pool]

    def _of(
        self, name: str, labels: Sequence[tuple[str, ...]]
    ) -> tuple[list[int], list[Figure], list[Any]]:
        """Places of the rows that have this figure, the figures and their priors."""
        each = enumerate(zip(self._figures, labels, strict=True))
        kept = [(place, mine[name, key]) for place, (mine, key) in each if (name, key) in mine]
        priors = [self._pools[place].prior(figure) for place, figure in kept]
        return [place for place, _ in kept], [figure for _, figure in kept], priors

    def reach(self, name: str, labels: Sequence[tuple[str, ...]]) -> Numbers:
        """Half-widths of the intervals of a figure's logs."""
        places, figures, priors = self._of(name, labels)
        reach = np.full(len(labels), np.nan)
        reach[places] = reach_of(*errors_of(figures, priors))
        return reach

    def level(self, name: str, labels: Sequence[tuple[str, ...]]) -> Bounds:
        """A figure of a mode with its bounds, from its logs."""
        places, figures, _ = self._of(name, labels)
        logs = np.full(len(labels), np.nan)
        logs[places] = [figure.mean for figure in figures]
        reach = self.reach(name, labels)
        return Bounds(np.exp(logs), np.exp(logs - reach), np.exp(logs + reach))

    def floors(
        self, pairs: Sequence[tuple[str, ...]], hosts: Sequence[str]
    ) -> dict[str, list[float]]:
        """The floors of each row, which this host measured."""
        speedups = zip(self._figures, pairs, strict=True)
        noisy = [is_noisy(mine.get(("speedup", pair))) for mine, pair in speedups]
        each = list(zip(self._pools, hosts, noisy, strict=True))
        return {
            "floor": [pool.floor(host, noisy=is_so) for pool, host, is_so in each],
            "floor_across": [pool.floor_across(host, noisy=is_so) for pool, host, is_so in each],
        }

    def judge(self, name: str, pairs: Sequence[tuple[str, ...]], floor: Numbers) -> dict[str, Any]:
        """`interval.judge` and the value of a figure; NaN, and the verdict "", where it lacks."""
        places, figures, priors = self._of(name, pairs)
        result = judge(figures, priors, floor[places])
        verdicts = dict(zip(places, map(str, result.pop("verdict")), strict=True))
        result["value"] = np.exp([figure.mean for figure in figures])
        made: dict[str, Any] = {"verdict": [verdicts.get(place, "") for place in range(len(pairs))]}
        for end, values in result.items():
            made[end] = np.full(len(pairs), math.nan)
            made[end][places] = values
        return made
