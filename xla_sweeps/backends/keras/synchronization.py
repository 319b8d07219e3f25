"""The self-test of a synchronization: whether it waits for calls that keep the device busy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.trial import Trial
from xla_sweeps.trial import pacing
from xla_sweeps.worker import timing
from xla_sweeps.worker.stand_in import stands_in

TRIVIAL_SYNCHRONIZATION = {
    "works": True,
    "queued": False,
    "by_reading": False,
    "note": "trivial: calls on a CPU return when they are done",
}

CHAIN_S = 0.15
"""Time of the calls in a test of the synchronization: far longer than reading a number takes."""


def busy_side(trial: Trial) -> int:
    """Side of square matrices whose product keeps the trial's device busy, not the host."""
    return 4096 if trial.on_accelerator and not stands_in() else 1024


def waits(
    executables: Mapping[str, timing.Drainable],
    *,
    wait: str,
    clock: pacing.Clock = time.perf_counter_ns,
) -> dict[str, Any]:
    """The record of a synchronization, which `wait` names; `XlaSweepsError` if it does not wait."""
    tests = {
        label: timing.sync_self_test(each, seconds=CHAIN_S, clock=clock)
        for label, each in executables.items()
    }
    if not all(test.works for test in tests.values()):
        raise XlaSweepsError(f"{wait} does not wait for the device, so it cannot be timed")
    return {
        "works": True,
        "queued": all(test.queued for test in tests.values()),
        "by_reading": False,
        "note": "",
        "modes": {label: asdict(test) for label, test in tests.items()},
    }
