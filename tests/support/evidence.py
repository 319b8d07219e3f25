"""The evidence that other trials get from one."""

from __future__ import annotations

from xla_sweeps.analysis.pool import Evidence
from xla_sweeps.schema.row import TrialSummary
from xla_sweeps.store.derive import facts_of


def evidence_of(*trials: TrialSummary) -> list[Evidence]:
    """The evidence of trials that learn from each other, as their folder keeps it."""
    every = [
        facts_of(trial).evidence(trial.trial.trial_id) for trial in trials if trial.comparisons
    ]
    return [one for one in every if one is not None]
