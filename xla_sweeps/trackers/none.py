"""No tracking: the records alone."""

from __future__ import annotations

from collections.abc import Sequence

from xla_sweeps.comparison import TrialSummary
from xla_sweeps.measurement import Round
from xla_sweeps.record import Record
from xla_sweeps.trackers import RunHeader, TrackerReport


class NoTracker:
    """A tracker that does nothing."""

    def open(self, header: RunHeader) -> None:
        """Open nothing."""

    def log_rounds(self, replicate: int, rounds: Sequence[Round], *, batch_size: int) -> None:
        """Log nothing."""

    def preempt(self) -> None:
        """Nothing to tell."""

    def finish(self, records: Sequence[Record], summary: TrialSummary | None, *, exit_code: int) -> TrackerReport:
        """Nothing to finish."""
        return TrackerReport(place="", complete=True)
