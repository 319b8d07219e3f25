"""Rank models by throughput: the fastest, shared ranks, how devices agree, inversions. Pure."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from xla_sweeps.schema.columns import IMPORTED
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import SETTINGS

MIN_FOR_TAU = 5  # models from which on the agreement of two rankings is given

_APART = ("device", "resolution_px")

SETTING = tuple(name for name in SETTINGS if name not in _APART)
"""Columns that models ranked together share, beside device and resolution."""

_MODEL = ("model", "family", "source", "params")

_RATE = ("throughput_samples_per_s", "throughput_low", "throughput_high")

_SPEEDUP = ("speedup", "speedup_low", "speedup_high")

_SIDES = {"candidate": "", "baseline": "baseline_"}

_VERSION = re.compile(r"(?<=[A-Za-z])[_-]?(V\d+|RS)$")

NEEDED = (
    *(*SETTING, *_APART, *_MODEL, *_SIDES, "origin", "status", "replicates", "measured_at"),
    *(f"{prefix}{name}" for prefix in _SIDES.values() for name in _RATE),
    *_SPEEDUP,
)
"""Columns that `entries_of` needs."""


class Place(NamedTuple):
    """A device, a resolution and the rest of a setting: what models are ranked in."""

    resolution_px: int
    setting: tuple[Any, ...]
    device: str
    published: bool


Bounded = tuple[float, float | None, float | None]
"""A figure and the ends of its 95 % interval, if it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The throughput of a mode of a model at a place, with its interval if there is one.

    Attributes:
        baseline: the mode that its row compares it with; none of a baseline itself.
        percent: what it gains over the baseline, percent.
        absolute: what it gains over the baseline, images a second.
    """

    place: Place
    mode: str
    model: str
    family: str
    params: float | None
    replicates: int
    value: float
    low: float | None
    high: float | None
    baseline: str = ""
    percent: Bounded | None = None
    absolute: Bounded | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Kendall's tau-b between the rankings of two devices of the same models, with 95 %."""

    places: tuple[Place, Place]
    models: int
    tau: float
    low: float
    high: float


def entries_of(columns: Mapping[str, Sequence[Any]]) -> list[Entry]:
    """The newest figure of each mode of each model, not contaminated, with a throughput."""
    entries: dict[tuple[Any, ...], Entry] = {}
    every = zip(*(columns[name] for name in NEEDED), strict=True)
    rows = [dict(zip(NEEDED, values, strict=True)) for values in every]
    for row in sorted(rows, key=lambda row: row["measured_at"] or ""):
        if str(row["status"]) != Status.OK:
            continue
        size, setting = int(row["resolution_px"]), tuple(row[name] for name in SETTING)
        place = Place(size, setting, row["device"], row["origin"] == IMPORTED)
        for side, prefix in _SIDES.items():
            value, low, high = (number(row[f"{prefix}{name}"]) for name in _RATE)
            if row[side] and value:
                entries[place, row["model"], row["source"], row[side]] = Entry(
                    place=place,
                    mode=row[side],
                    model=row["model"],
                    family=row["family"],
                    params=number(row["params"]),
                    replicates=int(row["replicates"]),
                    value=value,
                    low=low,
                    high=high,
                    **(_gains_of(row) if side == "candidate" else {}),
                )
    return list(entries.values())


def _gains_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The gains of a candidate over its baseline, if both sides and the speedup are known."""
    ratio = [number(row[name]) for name in _SPEEDUP]
    rate = number(row["baseline_throughput_samples_per_s"])
    if not ratio[0] or not rate:
        return {}
    absolute, percent = (
        tuple(None if one is None else (one - 1) * unit for one in ratio) for unit in (rate, 100)
    )
    return {"baseline": row["baseline"], "absolute": absolute, "percent": percent}


def at_places(entries: Iterable[Entry]) -> dict[Place, list[Entry]]:
    """The entries of each place, the fastest first; places by resolution, setting and device."""
    groups: dict[Place, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: -entry.value):
        groups.setdefault(entry.place, []).append(entry)
    return dict(sorted(groups.items(), key=lambda group: (str(group[0].setting), group[0])))


def ranks(figures: Sequence[Bounded]) -> list[int | None]:
    """Ranks of figures (value, low, high) in falling order; None for one without an interval.

    Those whose intervals reach that of their group's leader share its rank.
    """
    given: list[int | None] = []
    leader: tuple[int, float] | None = None
    for position, (_, low, high) in enumerate(figures, start=1):
        if low is None or high is None:
            given.append(None)
            continue
        if leader is None or high < leader[1]:
            leader = position, low
        given.append(leader[0])
    return given


def agreements(ranked: Mapping[Place, Sequence[Entry]]) -> list[Agreement]:
    """Agreement of the rankings of each two devices at a resolution, of entries of one mode."""
    groups: dict[tuple[Any, ...], dict[Place, dict[str, float]]] = {}
    for place, own in ranked.items():
        rates = {entry.model: entry.value for entry in own}
        groups.setdefault(place[:2], {})[place] = rates
    made = []
    for devices in groups.values():
        for (one, first), (other, second) in itertools.combinations(devices.items(), 2):
            shared = sorted(first.keys() & second.keys())
            if len(shared) < MIN_FOR_TAU:
                continue
            tau = kendall([first[name] for name in shared], [second[name] for name in shared])
            low, high = _tau_interval(tau, len(shared))
            made.append(
                Agreement(places=(one, other), models=len(shared), tau=tau, low=low, high=high)
            )
    return made


def kendall(one: Sequence[float], other: Sequence[float]) -> float:
    """Kendall's tau-b of two lists; 0 where all values of one are equal."""
    signs = [np.sign(np.subtract.outer(values, values)) for values in (one, other)]
    untied = math.prod(map(np.count_nonzero, signs))
    return float(np.sum(signs[0] * signs[1])) / math.sqrt(untied) if untied else 0.0


def _tau_interval(tau: float, models: int) -> tuple[float, float]:
    """The 95 % interval of a tau, by Fisher's transformation (Fieller and others, 1957)."""
    reach = 1.96 * math.sqrt(0.437 / (models - 4))
    centre = math.atanh(max(-0.999, min(0.999, tau)))
    return math.tanh(centre - reach), max(tau, math.tanh(centre + reach))


@dataclass(frozen=True, slots=True, kw_only=True)
class Inversion:
    """A larger model that is faster than a smaller one: their intervals are apart.

    Published figures have no interval: there the larger one's is the higher.
    """

    larger: Entry
    smaller: Entry
    ratio: float

    @property
    def preliminary(self) -> bool:
        """True if one of them has a single replicate."""
        return min(self.larger.replicates, self.smaller.replicates) < 2


def line_of(family: str) -> str:
    """The line of a family, without its version: `MobileNet` of `MobileNetV2`, `MobileNet_V3`."""
    return _VERSION.sub("", family)


def inversions(
    entries: Iterable[Entry],
) -> tuple[list[Inversion], dict[tuple[str, str], tuple[int, int]]]:
    """The inversions among models of one line, device, setting and mode; the largest ratio first.

    The larger model has more parameters. Measured figures without an interval are left out. Beside
    them, by device and mode: how many pairs are inverted, and how many there are.
    """
    groups: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in entries:
        bounded = entry.low is not None and entry.high is not None
        if entry.params and (bounded or entry.place.published):
            key = (entry.place, entry.mode, line_of(entry.family))
            groups.setdefault(key, []).append(entry)
    pairs: Counter[tuple[str, str]] = Counter()
    inverted: list[Inversion] = []
    for (place, mode, _), own in groups.items():
        ordered = sorted(own, key=lambda entry: entry.params or 0.0)
        for smaller, larger in itertools.combinations(ordered, 2):
            if larger.params == smaller.params:
                continue
            pairs[place.device, mode] += 1
            if (larger.low or larger.value) > (smaller.high or smaller.value):
                ratio = larger.value / smaller.value
                inverted.append(Inversion(larger=larger, smaller=smaller, ratio=ratio))
    times = Counter((one.larger.place.device, one.larger.mode) for one in inverted)
    counts = {key: (times[key], pairs[key]) for key in sorted(pairs)}
    return sorted(inverted, key=lambda one: -one.ratio), counts


def number(value: Any) -> float | None:
    """A number; None where it is missing, as None or NaN."""
    return None if value is None or math.isnan(value) else float(value)
