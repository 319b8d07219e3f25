"""Records of one trial: those that count, and the figures of its modes and comparisons. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.estimates import LATENCY, Samples, Seconds, counting, figure
from xla_sweeps.analysis.interval import (
    MIN_REPLICATES,
    built_in,
    contrast,
    figure_of,
    figure_within,
)
from xla_sweeps.analysis.pool import ACROSS, Key
from xla_sweeps.schema.comparisons import by_role, comparison_pairs, is_aa_pair
from xla_sweeps.schema.measurement import Energy, Flag, ModeOutcome, Round, Status
from xla_sweeps.schema.modes import Entry, Mode, mode_of
from xla_sweeps.schema.record import Record, build_of, newest
from xla_sweeps.schema.row import Figure

MIN_P99_CALLS = 1000

PASS_GROUP = 5
"""Consecutive single calls that resemble each other in older records, which have passes of them.

40 of them say as much as 16 others.
"""

NOT_AVAILABLE = "not available: "
"""Beginning of what stands in place of the energy's source."""

_LEAST_PASSES = 2  # the fewest passes of a replicate that say how passes differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The records of one trial, ready to be summarized.

    Attributes:
        records: those of the newest build, in order.
        counted: the clean ones of them, where one has enough rounds; else all.
        build_changed: whether records of an earlier build are left out.
    """

    records: Sequence[Record]
    counted: Sequence[Record]
    labels: tuple[str, ...]
    build_changed: bool
    samples: Sequence[Samples]


def measured_of(records: Sequence[Record]) -> Measured:
    """The replicates of one trial, in any order, failed ones included, of the newest build.

    Raises:
        ValueError: no records, or records of several trials.
    """
    if len({record.trial_id for record in records}) != 1:
        raise ValueError("records of exactly one trial are needed")
    every = sorted(records, key=lambda record: record.replicate)
    kept, _ = newest(every, build_of)
    clean = [record for record in kept if record.status is not Status.CONTAMINATED]
    enough = any(len(counted_rounds(record)) >= stats.MIN_PAIRS for record in clean)
    return Measured(
        records=kept,
        counted=clean if enough else kept,
        labels=tuple(dict.fromkeys(label for record in kept for label in record.modes)),
        build_changed=len(kept) < len(every),
        samples=samples_of(kept),
    )


def samples_of(records: Iterable[Record]) -> list[Samples]:
    """The blocks of each replicate that count."""
    return [
        Samples(
            counted_rounds(record),
            contaminated=record.status is Status.CONTAMINATED,
            on_gpu=record.on_gpu,
        )
        for record in records
    ]


def counted_rounds(record: Record) -> tuple[Round, ...]:
    """A replicate's rounds; none where it was cut short before the `rounds_min` of its effort."""
    if all(one.flag != Flag.CUT_SHORT for one in record.flags):
        return record.rounds
    least = record.trial.effort.rounds_min or stats.MIN_PAIRS
    enough = sum(not one.dirty for one in record.rounds) >= least
    return record.rounds if enough else ()


def figures_of(trial: Measured) -> dict[Key, Figure]:
    """The figures of the modes and of their comparisons, as logs."""
    made: list[Figure | None] = []
    alone, ahead = by_role(trial.labels).get(Mode.INPUT.role, ""), Flag.COMPILED_AHEAD
    timed = [one for one in trial.counted if all(each.flag != ahead for each in one.flags)]
    for label in trial.labels:
        outcomes = [record.modes[label] for record in trial.counted if label in record.modes]
        compiled = [record.modes[label] for record in timed if label in record.modes]
        made.append(figure("call", trial.samples, label))
        if alone and mode_of(label).entry is Entry.FIT:
            share = figure("input_share", trial.samples, alone, label)
            made.append(share and msgspec.structs.replace(share, labels=(label,)))
        values: dict[str, list[float | None]] = {
            "prepare": [prepare_s(outcome) for outcome in compiled],
            "copy_input": [outcome.copies_s.get("input") for outcome in outcomes],
            "copy_output": [outcome.copies_s.get("output") for outcome in outcomes],
        }
        busy = any(record.status is Status.CONTAMINATED for record in trial.counted)
        made += [_figure(name, (label,), seconds, busy) for name, seconds in values.items()]
        made += _latencies(trial.counted, label, busy)
        made += [_sustained_ratio(trial.counted, label), energy_of(trial.counted, label)]
    made.append(idle_power_of(trial.counted))
    on_gpu = any(record.on_gpu for record in trial.records)
    for pair in comparison_pairs(trial.labels):
        made += [figure(name, trial.samples, *pair) for name in ("speedup", LATENCY)]
        counted, contaminated = counting(trial.samples, *pair)
        made.append(None if contaminated else across_of(counted, *pair, on_gpu=on_gpu))
        both = [one.modes for one in trial.counted if {*pair} <= one.modes.keys()]
        sizes = [[modes[label].steady_memory_bytes for label in pair] for modes in both]
        ratios = [second / first for first, second in sizes if first and second]
        made.append(_figure("memory", pair, ratios, False))
    return {
        (one.name, one.labels): msgspec.structs.replace(one, on_gpu=on_gpu)
        for one in made
        if one is not None
    }


def _figure(
    name: str, labels: tuple[str, ...], values: Iterable[float | None], contaminated: bool
) -> Figure | None:
    """The figure of one positive value of each replicate; None where none has one."""
    logs = [math.log(value) for value in values if value]
    return figure_of(name, labels, logs, contaminated=contaminated) if logs else None


def _latencies(records: Sequence[Record], label: str, contaminated: bool) -> Iterator[Figure]:
    """Percentiles of the latency: the mean of the logs of each replicate's."""
    measured = [
        (record.modes[label].latencies_s, _single_calls(record, label))
        for record in records
        if label in record.modes and record.modes[label].latencies_s
    ]
    calls = sum(len(latencies_s) for latencies_s, _ in measured)
    for name, share in (("latency_p50", 0.5), ("latency_p90", 0.9), ("latency_p99", 0.99)):
        if measured and (share < 0.99 or calls >= MIN_P99_CALLS):
            within = [
                stats.log_quantile(latencies_s, share, group=group)
                for latencies_s, group in measured
            ]
            values, errors = zip(*within, strict=True)
            counts = [-(-len(latencies_s) // group) for latencies_s, group in measured]
            yield figure_of(name, (label,), values, errors, counts, contaminated=contaminated)


def _single_calls(record: Record, label: str) -> int:
    """Number of consecutive single calls of a mode: those of a round resemble each other."""
    blocks = [block for one in record.rounds for block in one.blocks if block.mode == label]
    alone = 1 if any(block.calls == 1 for block in blocks) else PASS_GROUP
    return max((len(block.single_ns) for block in blocks), default=0) or alone


def _sustained_ratio(records: Sequence[Record], label: str) -> Figure | None:
    """Time of a call alone, in the second half of that time, / in the rounds, as medians."""
    ratios = []
    for record in records:
        alone = record.modes[label].sustained_call_s if label in record.modes else ()
        rounds = [
            block.call_s
            for one in record.rounds
            if alone and not one.dirty
            for block in one.blocks
            if block.mode == label
        ]
        if rounds:
            late = alone[len(alone) // 2 :]
            ratios.append(statistics.median(late) / statistics.median(rounds))
    return _figure("sustained", (label,), ratios, False)


def across_of(
    counted: Sequence[Seconds], baseline: str, candidate: str, *, on_gpu: bool
) -> Figure | None:
    """An A/A pair across processes: the baseline in every second one over its copy in the others.

    Nothing pairs the two, so drift and what differs between processes are in it. None for other
    pairs, and for fewer than three replicates a side. The figure's `within` is its whole variance.
    """
    if not is_aa_pair(baseline, candidate) or len(counted) < 2 * MIN_REPLICATES:
        return None
    sides = []
    for place, half in enumerate((counted[::2], counted[1::2])):
        within = [stats.signed_rank_interval(np.log(call_s[:, place])) for call_s in half]
        figure = figure_within("call", (baseline,), within, list(map(len, half)))
        sides.append((figure, built_in("call", on_gpu=on_gpu)))
    difference = contrast(sides[1], sides[0], floor=0.0)
    return Figure(
        name=ACROSS,
        labels=(baseline, candidate),
        replicates=len(counted),
        mean=difference.interval.estimate,
        within=difference.error**2,
        between=0.0,
        scatter=statistics.fmean(figure.scatter for figure, _ in sides),
    )


def prepare_s(times: ModeOutcome) -> float | None:
    """Trace and first call of a mode in a replicate, seconds; None if not known."""
    return None if times.first_call_s is None else (times.trace_s or 0.0) + times.first_call_s


def energy_of(records: Sequence[Record], label: str) -> Figure | None:
    """Joules of one sample of a mode that ran alone."""
    passes = [
        [
            one.joules / (one.calls * record.trial.samples)
            for one in record.modes[label].energy
            if one.calls and not one.dirty
        ]
        for record, _ in _with_energy(records)
        if label in record.modes
    ]
    return _figure_of_passes("energy", (label,), passes)


def idle_power_of(records: Sequence[Record]) -> Figure | None:
    """Watts of the device before the modes ran alone."""
    passes = [
        [one.joules / one.elapsed_s for one in energy.idle if not one.dirty]
        for _, energy in _with_energy(records)
    ]
    return _figure_of_passes("idle_power", (), passes)


def source_of(records: Sequence[Record]) -> str:
    """The counter that gave the figures, or why there are none; "" where none were asked for."""
    asked = [record for record in records if record.energy]
    for record, energy in reversed(_with_energy(asked)):
        clean = [sum(not one.dirty for one in mode.energy) for mode in record.modes.values()]
        if any(count >= _LEAST_PASSES for count in clean):
            return energy.counter
    problems = [record.energy.problem for record in asked if record.energy]
    passes = [one for record in asked for mode in record.modes.values() for one in mode.energy]
    reasons = [*(one.dirty for one in passes if one.dirty), *filter(None, problems)]
    return f"{NOT_AVAILABLE}{(reasons or ['no mode was measured'])[-1]}" if asked else ""


def _with_energy(records: Iterable[Record]) -> list[tuple[Record, Energy]]:
    energies = ((record, record.energy) for record in records)
    return [(record, energy) for record, energy in energies if energy and not energy.problem]


def _figure_of_passes(
    name: str, labels: tuple[str, ...], replicates: Iterable[Sequence[float]]
) -> Figure | None:
    """A figure from the passes of each replicate, whose spread is the replicate's own error."""
    within = []
    for passes in replicates:
        if len(passes) >= _LEAST_PASSES:
            logs = list(map(math.log, passes))
            error, freedom = statistics.stdev(logs) / math.sqrt(len(logs)), len(logs) - 1
            within.append(stats.interval_about(statistics.fmean(logs), error, freedom=freedom))
    return figure_within(name, labels, within) if within else None
