"""The evidence that other trials get from one."""

from __future__ import annotations

from xla_sweeps.analysis.pool import Evidence
from xla_sweeps.results import derive
from xla_sweeps.results.table import table_of
from xla_sweeps.schema.row import TrialSummary


def evidence_of(*trials: TrialSummary) -> list[Evidence]:
    """The evidence of trials that learn from each other, as the rows of their folder give it."""
    groups = derive.evidence_of(table_of([row for one in trials for row in one.comparisons]))
    return [one for group in groups.values() for one in group]
