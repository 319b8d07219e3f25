"""Test of the intervals: the share of A/A pairs, which are equal, shown as different. Pure.

Each pair is judged by `MIN_FLOOR`: the verdicts' floor grows with what the pairs differ by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.pool import MIN_FLOOR
from xla_sweeps.schema.columns import MEASURED
from xla_sweeps.schema.comparisons import is_aa_pair
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import ComparisonRow

NOMINAL = 0.05
"""The share of equal pairs whose 95 % intervals may lie past the least floor."""

UNTRUSTED_BELOW = 0.01  # the p-value below which more than that share is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The A/A pairs of some rows, as (shown as different, all) of each kind.

    Attributes:
        within: copies of a mode in the same processes; `across`: in others.
        p_value: of so many or more pairs shown as different, if 5 % were (binomial test).
        floor: the largest that the verdicts of these pairs use.
    """

    within: tuple[int, int]
    across: tuple[int, int]
    p_value: float
    floor: float

    @property
    def untrusted(self) -> bool:
        """True if more are shown as different than can be chance."""
        return self.p_value < UNTRUSTED_BELOW


def trust(rows: Iterable[ComparisonRow]) -> Trust | None:
    """Test the clean A/A pairs with an interval among these rows; None where there are none."""
    twins = [
        row
        for row in rows
        if is_aa_pair(row.baseline.mode, row.candidate.mode)
        and (row.status, row.provenance.origin) == (Status.OK, MEASURED)
    ]
    within = [
        (row.speedup.low, row.speedup.high, row.speedup.floor)
        for row in twins
        if row.speedup.p_value is not None and row.speedup.low and row.speedup.high
    ]
    across = [
        (row.speedup.aa_across_low, row.speedup.aa_across_high, row.speedup.floor_across)
        for row in twins
        if row.speedup.aa_across_low and row.speedup.aa_across_high
    ]
    both = [*within, *across]
    if not both:
        return None
    counts = [sum(_differs(low, high) for low, high, _ in kind) for kind in (within, across)]
    wrong, pairs = sum(counts), len(both)
    return Trust(
        within=(counts[0], len(within)),
        across=(counts[1], len(across)),
        p_value=float(stats.special().bdtrc(wrong - 1, pairs, NOMINAL)) if wrong else 1.0,
        floor=max(floor for _, _, floor in both),
    )


def _differs(low: float, high: float) -> bool:
    """True if the whole interval of a ratio lies past the least floor."""
    return max(math.log(low), -math.log(high)) > math.log1p(MIN_FLOOR)
