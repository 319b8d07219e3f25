"""Find larger models that are faster than a smaller one of their line. Pure.

A line is a family without its version: MobileNetV1, V2 and V3 are one. Within a family that is
versioned hardly any pair would be left.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xla_sweeps.analysis.ranking import Entry, Place

_VERSION = re.compile(r"(?<=[A-Za-z])[_-]?(V\d+|RS)$")

PRELIMINARY_BELOW = 2
"""Replicates from which on an inversion is not preliminary: intervals are those between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inversion:
    """A larger model that is faster than a smaller one, their intervals apart.

    Attributes:
        ratio: of the throughputs.
        preliminary: True if one of them has a single replicate.
    """

    larger: Entry
    smaller: Entry
    ratio: float

    @property
    def preliminary(self) -> bool:
        """True if one of them has a single replicate."""
        return min(self.larger.replicates, self.smaller.replicates) < PRELIMINARY_BELOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Inversions:
    """Inversions, and how many there are of how many pairs.

    Attributes:
        each: by ratio, the largest first.
        counts: (inverted, pairs) by device and mode.
    """

    each: tuple[Inversion, ...]
    counts: dict[tuple[str, str], tuple[int, int]]


def line_of(family: str) -> str:
    """The line of a family: `MobileNet` of `MobileNetV2` and of `MobileNet_V2`."""
    return _VERSION.sub("", family)


def inversions(entries: Iterable[Entry], *, by: str = "params") -> Inversions:
    """Compare the models of each line on one device in one setting and mode.

    Published figures and others without an interval say nothing of this, and are left out.

    Args:
        entries: of any modes and places.
        by: what makes a model the larger one, `params` or `macs`.
    """
    groups: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in entries:
        if getattr(entry, by) and entry.low is not None and entry.high is not None:
            key = (entry.place, entry.mode, line_of(entry.family))
            groups.setdefault(key, []).append(entry)
    pairs: Counter[tuple[str, str]] = Counter()
    inverted: list[Inversion] = []
    for (place, mode, _), own in groups.items():
        for smaller, larger in _pairs(own, by):
            pairs[place.device, mode] += 1
            if (larger.low or 0.0) > (smaller.high or 0.0):
                ratio = larger.value / smaller.value
                inverted.append(Inversion(larger=larger, smaller=smaller, ratio=ratio))
    number = Counter((_place(one).device, one.larger.mode) for one in inverted)
    return Inversions(
        each=tuple(sorted(inverted, key=lambda one: -one.ratio)),
        counts={key: (number[key], pairs[key]) for key in sorted(pairs)},
    )


def _pairs(entries: Sequence[Entry], by: str) -> Iterable[tuple[Entry, Entry]]:
    """Each two models of different size, the smaller one first."""
    ordered = sorted(entries, key=lambda entry: float(getattr(entry, by)))
    for smaller, larger in itertools.combinations(ordered, 2):
        if getattr(smaller, by) < getattr(larger, by):
            yield smaller, larger


def _place(inversion: Inversion) -> Place:
    return inversion.larger.place
