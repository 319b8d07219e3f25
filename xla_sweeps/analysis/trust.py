"""Test of the verdicts: the share of A/A pairs, which are equal, called different. Pure.

The page computes the same for what a reader filters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from xla_sweeps.analysis import stats
from xla_sweeps.schema.columns import MEASURED, Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import is_aa_pair
from xla_sweeps.schema.row import ComparisonRow

NOMINAL = 0.05
"""The share of equal pairs that 95 % intervals call different."""

UNTRUSTED_BELOW = 0.01
"""The p-value below which more than that share is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The A/A pairs of some rows, as (called different, all) of each kind.

    Attributes:
        within: copies of a mode in the same processes.
        across: a copy in every second process against the other in the others.
        p_value: of so many or more wrong verdicts, if 5 % were wrong (binomial test).
    """

    within: tuple[int, int]
    across: tuple[int, int]
    p_value: float

    @property
    def untrusted(self) -> bool:
        """True if more are called different than can be chance."""
        return self.p_value < UNTRUSTED_BELOW


def trust(rows: Iterable[ComparisonRow]) -> Trust | None:
    """Test the A/A pairs among these rows; None where there are none.

    Only pairs that are not contaminated and whose interval covers how processes differ count.
    """
    twins = [
        row
        for row in rows
        if is_aa_pair(row.baseline.mode, row.candidate.mode)
        and (row.status, row.provenance.origin) == (Status.OK, MEASURED)
    ]
    within = [
        row.speedup.verdict in (Verdict.FASTER, Verdict.SLOWER)
        for row in twins
        if row.speedup.p_value is not None
    ]
    across = [
        max(math.log(row.speedup.aa_across_low), -math.log(row.speedup.aa_across_high))
        > math.log1p(row.speedup.floor_across)
        for row in twins
        if row.speedup.aa_across_low and row.speedup.aa_across_high
    ]
    wrong, pairs = sum(within) + sum(across), len(within) + len(across)
    if not pairs:
        return None
    return Trust(
        within=(sum(within), len(within)),
        across=(sum(across), len(across)),
        p_value=float(stats.special().bdtrc(wrong - 1, pairs, NOMINAL)) if wrong else 1.0,
    )
