"""Decide by a trial's main comparisons how its command ends and if it goes on: pure."""

from __future__ import annotations

from collections.abc import Sequence

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.comparisons import implied_modes, label_modes
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.options import LOCAL
from xla_sweeps.schema.record import Record


def headline_failed(records: Sequence[Record]) -> bool:
    """True if a headline comparison has no verdict in these records: it decides the exit code.

    In PyTorch's default modes no user can know what torch.compile captures. Of an own model one
    verdict is enough; of a model of Keras, that it is not captured is the answer.
    """
    if not any(record.modes for record in records):
        return True
    rows = [row for row in summarize(records, pool=None).comparisons if row.headline]
    trial = records[-1].trial
    own = trial.model.library == LOCAL
    usual = trial.modes == label_modes(implied_modes(trial.scenario, "true", "torch", own=own))
    if usual and not own:
        rows = [row for row in rows if row.status is not Status.MODE_NOT_EFFECTIVE]
    missing = [row.speedup.verdict.is_missing for row in rows]
    return all(missing) if usual and own and missing else any(missing)


def headline_clear(records: Sequence[Record]) -> bool:
    """True if these records of a trial settle every comparison of the headline."""
    rows = [row for row in summarize(records).comparisons if row.headline]
    return bool(rows) and all(row.speedup.verdict.is_clear for row in rows)
