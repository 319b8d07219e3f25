"""Trials of this process that take no notice of what runs beside them, such as other tests."""

from __future__ import annotations

import math

from xla_sweeps.trial import monitor, workers


def take_no_notice() -> None:
    """Have none of its records contaminated, so that no later replicate waits for quiet."""
    monitor.contamination = lambda samples, *, cores: ""
    workers.CLOCK_SLACK_S = math.inf
