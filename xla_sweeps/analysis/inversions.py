"""Find larger models that are faster than a smaller one of their line. Pure.

A line is a family without its version: MobileNetV1, V2 and V3 are one.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from xla_sweeps.analysis.ranking import Entry

_VERSION = re.compile(r"(?<=[A-Za-z])[_-]?(V\d+|RS)$")


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


Counts = dict[tuple[str, str], tuple[int, int]]
"""How many pairs are inverted, and how many there are, by device and mode."""


def line_of(family: str) -> str:
    """The line of a family: `MobileNet` of `MobileNetV2` and of `MobileNet_V2`."""
    return _VERSION.sub("", family)


def inversions(entries: Iterable[Entry]) -> tuple[list[Inversion], Counts]:
    """The inversions among models of one line, device, setting and mode; the largest ratio first.

    The larger model has more parameters. Measured figures without an interval are left out.
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
    number = Counter((one.larger.place.device, one.larger.mode) for one in inverted)
    counts = {key: (number[key], pairs[key]) for key in sorted(pairs)}
    return sorted(inverted, key=lambda one: -one.ratio), counts
