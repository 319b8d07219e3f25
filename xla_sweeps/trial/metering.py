"""Energy of each mode: alone for seconds at a time, between two readings of a device's counter."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from xla_sweeps.schema.measurement import Energy, Metered
from xla_sweeps.schema.trial import ENERGY_PASSES
from xla_sweeps.system.energy import Meter, MeterError
from xla_sweeps.trial.failures import WorkerLost

IDLE = ""
"""Label of a device that idles."""

Run = Callable[[str], int]
"""Runs a mode for as long as a pass wants; returns how many calls it made."""


def measure_energy(
    meter: Meter,
    alive: Mapping[str, object],
    *,
    ready: Callable[[str], None],
    run: Run,
    disturbance: Callable[[int, int], str],
    lose: Callable[[WorkerLost], None],
) -> tuple[Energy, dict[str, tuple[Metered, ...]]]:
    """Read the counter around the idle device, then around each mode alone, in rotated passes.

    Returns the device's energy, and the passes of each mode that has all of them. A counter that
    fails ends it without figures. A worker that dies ends its own modes, which vanish from `alive`.

    Raises:
        WorkerLost: the replicate was stopped while the device idled.
    """
    if meter.problem:
        return Energy(problem=meter.problem), {}

    def meter_pass(label: str) -> Metered:
        ready(label)
        before, began_ns = meter.read(), time.monotonic_ns()
        calls = run(label)
        now, ended_ns = meter.read(), time.monotonic_ns()
        return Metered(
            joules=meter.joules(before, now),
            elapsed_s=(ended_ns - began_ns) / 1e9,
            calls=calls,
            dirty=disturbance(began_ns, ended_ns),
        )

    labels = list(alive)
    passes: dict[str, list[Metered]] = {label: [] for label in labels}
    try:
        idle = tuple(meter_pass(IDLE) for _ in range(ENERGY_PASSES))
        for number in range(ENERGY_PASSES):
            first = number % len(labels)
            for label in (*labels[first:], *labels[:first]):
                if label not in alive:
                    continue
                try:
                    passes[label].append(meter_pass(label))
                except WorkerLost as lost:
                    lose(lost)
    except MeterError as error:
        return Energy(counter=meter.name, problem=str(error)), {}
    whole = {label: tuple(each) for label, each in passes.items() if label in alive}
    return Energy(counter=meter.name, idle=idle), whole
