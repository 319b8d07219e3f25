"""The evidence that other trials get from one."""

from __future__ import annotations

from xla_sweeps.analysis.pool import Evidence
from xla_sweeps.schema.row import TrialSummary


def evidence_of(*trials: TrialSummary) -> list[Evidence]:
    """The evidence of trials that learn from each other, as their folder keeps it."""
    return [
        Evidence(
            trial.trial.trial_id, row.provenance.measured_at, row.provenance.host, trial.figures
        )
        for trial in trials
        for row in trial.comparisons[:1]
    ]
