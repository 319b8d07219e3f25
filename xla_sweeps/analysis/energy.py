"""Joules of a sample by mode, and power of the idle device, over a trial's replicates. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.interval import figure_within
from xla_sweeps.schema.measurement import Metered
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import Figure

ENERGY, IDLE_POWER = "energy", "idle_power"
"""Names of the figures."""

NOT_AVAILABLE = "not available: "

_LEAST = 2  # the fewest passes of a replicate that say how passes differ


def energy_of(records: Sequence[Record], label: str) -> Figure | None:
    """Joules of one sample of a mode that ran alone."""
    return _figure(
        ENERGY,
        (label,),
        [
            [
                one.joules / (one.calls * record.trial.samples)
                for one in record.modes[label].energy
                if one.calls and not one.dirty
            ]
            for record in _with_energy(records)
            if label in record.modes
        ],
    )


def idle_power_of(records: Sequence[Record]) -> Figure | None:
    """Watts of the device before the modes ran alone."""
    return _figure(
        IDLE_POWER,
        (),
        [
            [one.joules / one.elapsed_s for one in record.energy.idle if not one.dirty]
            for record in _with_energy(records)
            if record.energy
        ],
    )


def source_of(records: Sequence[Record]) -> str:
    """The counter that gave the figures, or why there are none; "" where none were asked for."""
    asked = [record for record in records if record.energy]
    for record in reversed(_with_energy(asked)):
        if record.energy and any(_clean(mode.energy) for mode in record.modes.values()):
            return record.energy.counter
    problems = [record.energy.problem for record in asked if record.energy]
    passes = [one for record in asked for mode in record.modes.values() for one in mode.energy]
    reasons = [*(one.dirty for one in passes if one.dirty), *filter(None, problems)]
    return f"{NOT_AVAILABLE}{(reasons or ['no mode was measured'])[-1]}" if asked else ""


def _with_energy(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.energy and not record.energy.problem]


def _clean(passes: Iterable[Metered]) -> bool:
    return sum(not one.dirty for one in passes) >= _LEAST


def _figure(
    name: str, labels: tuple[str, ...], replicates: Iterable[Sequence[float]]
) -> Figure | None:
    """A figure from the passes of each replicate, whose spread is the replicate's own error."""
    within = []
    for passes in replicates:
        if len(passes) < _LEAST:
            continue
        logs = list(map(math.log, passes))
        error = statistics.stdev(logs) / math.sqrt(len(logs))
        within.append(stats.interval_about(statistics.fmean(logs), error, freedom=len(logs) - 1))
    return figure_within(name, labels, within) if within else None
