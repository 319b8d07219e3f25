"""The trackers of a trial, declared once: the choices of `tracker`, and what makes each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerEntry:
    """A tracker's declaration.

    Attributes:
        made_by: what makes one without arguments, as `module:name`; imported when it is chosen.
        meaning: in a few words for `--help`; "" where the name says it.
    """

    made_by: str
    meaning: str = ""


TRACKERS: Mapping[str, TrackerEntry] = {
    "wandb_offline": TrackerEntry(
        made_by="xla_sweeps.report.wandb.tracker:offline_tracker", meaning="no account"
    ),
    "wandb": TrackerEntry(
        made_by="xla_sweeps.report.wandb.tracker:online_tracker", meaning="online"
    ),
    "none": TrackerEntry(made_by="xla_sweeps.measure.tracking:NoTracker"),
}
"""The trackers by name, in the order of the help text."""
