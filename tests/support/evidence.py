"""The evidence that other trials get from one."""

from __future__ import annotations

from xla_sweeps.analysis.pool import Findings
from xla_sweeps.results.derive import findings_of
from xla_sweeps.results.table import table_of
from xla_sweeps.schema.row import TrialSummary


def evidence_of(summary: TrialSummary) -> Findings:
    """The evidence of a trial, as the rows of its folder give it."""
    groups = findings_of(table_of(summary.comparisons))
    return next((trials[summary.trial_id] for trials in groups.values()), ())
