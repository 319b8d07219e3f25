"""One candidate against one baseline of a trial: the comparison row. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xla_sweeps.analysis.estimates import Samples, Seconds, counting, intervals
from xla_sweeps.analysis.interval import (
    JUDGED_FROM,
    MIN_REPLICATES,
    UNKNOWN,
    contrast,
    estimates_of,
    judge,
    over_replicates,
    variance_budget,
)
from xla_sweeps.analysis.pool import MIN_FLOOR, Pool
from xla_sweeps.analysis.provenance import (
    command_of,
    driver_of,
    flags_of,
    process_of,
    software_of,
    telemetry_of,
)
from xla_sweeps.schema.columns import (
    FailureColumns,
    ModeColumns,
    ProvenanceColumns,
    SpeedupColumns,
    TrialColumns,
    Verdict,
)
from xla_sweeps.schema.measurement import Failure, ModeOutcome, Phase, Status
from xla_sweeps.schema.modes import headline_pairs, is_aa_pair
from xla_sweeps.schema.overrides import data_name, runtime_text
from xla_sweeps.schema.record import ModelFacts, Record
from xla_sweeps.schema.row import ComparisonRow, ModeSummary, value_of

HOST_BOUND_INDEX = 0.9

_TOO_FEW_ROUNDS = Failure(
    phase=Phase.MEASURE, kind="too_few_rounds", message="too few rounds were measured"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Columns that rows of a trial share."""

    trial: TrialColumns
    provenance: ProvenanceColumns
    flags: tuple[str, ...]


def shared_of(
    records: Sequence[Record],
    model: ModelFacts,
    *,
    also: Sequence[str] = (),
) -> Shared:
    """Columns that rows of a trial share: model, device, flags, provenance.

    Args:
        records: those that count, at least one.
        model: as built.
        also: further flags.
    """
    first, last = records[0], records[-1]
    trial = first.trial
    return Shared(
        trial=TrialColumns(
            trial_id=first.trial_id,
            family=model.family,
            variant=model.variant,
            model=model.name,
            source=model.source,
            task=model.task,
            resolution_px=model.resolution_px,
            batch_size=trial.batch_size,
            batches=trial.batches,
            keras=str(trial.model.keras or ""),
            samples=trial.samples,
            copies=trial.copies,
            optimizer=trial.training.optimizer if trial.training else "",
            data=data_name(trial),
            precision=str(trial.precision),
            scenario=str(trial.scenario),
            effort=trial.effort.name,
            modes=",".join(trial.modes),
            runtime=runtime_text(trial),
            device=str(first.device.get("name", "")),
            params=model.params,
            macs=model.macs,
            macs_at_least=model.macs_at_least,
            effective_precision=model.precision,
            graph_operations=model.graph_operations,
            eager_is_graph=model.eager_is_graph,
            replica_of=model.replica_of,
            request_id=last.request_id,
        ),
        provenance=ProvenanceColumns(
            **telemetry_of(records),
            measured_at=last.started_at,
            software=software_of(last),
            driver=driver_of(last),
            environment_flags=flags_of(last),
            environment_id=str(last.environment.get("id", "")),
            host=str(last.environment.get("host", "")),
            process=process_of(records),
            log=last.log,
            command=command_of(last),
        ),
        flags=tuple(sorted({*_flags(records), *also})),
    )


def compare(
    samples: Sequence[Samples],
    modes: Mapping[str, ModeSummary],
    baseline: str,
    candidate: str,
    *,
    shared: Shared,
) -> ComparisonRow:
    """The row of one candidate against one baseline, not judged yet.

    Args:
        samples: of the trial's replicates.
        modes: all modes of the trial, by label.
        baseline: label of the baseline mode; "" where the candidate was measured alone.
        candidate: label of the candidate mode.
        shared: `shared_of`.
    """
    second, first = modes[candidate], modes.get(baseline)
    sides = (second, first) if first else (second,)
    failed = next((mode for mode in sides if mode.status is not Status.OK), None)
    counted, contaminated = counting(samples, *filter(None, (baseline, candidate)))
    reason = (failed.failure if failed else None) or (None if counted else _TOO_FEW_ROUNDS)
    return ComparisonRow(
        trial=shared.trial,
        headline=not first or (baseline, candidate) in headline_pairs(tuple(modes)),
        candidate=second.columns,
        baseline=first.columns if first else ModeColumns(mode=""),
        speedup=_speedup(samples, first, second, failed=failed is not None)
        if first
        else _no_speedup(second, counted),
        status=failed.status if failed else _status(bool(counted), contaminated=contaminated),
        flags=shared.flags,
        failure=FailureColumns(
            mode=failed.label if failed else "",
            message=reason.message if reason else "",
            hint=reason.hint if reason else "",
        ),
        provenance=shared.provenance,
    )


def _speedup(
    samples: Sequence[Samples], first: ModeSummary, second: ModeSummary, *, failed: bool
) -> SpeedupColumns:
    """The second mode, the candidate, against the first; `failed`: one of them gave no number."""
    pair = first.label, second.label
    counted, contaminated = counting(samples, *pair)
    within = intervals(counted)
    value = absolute = sustained = None
    if within and not failed:
        value = math.exp(statistics.fmean([interval.estimate for interval in within]))
        rates = [mode.columns.throughput_samples_per_s for mode in (first, second)]
        absolute = rates[1] - rates[0] if rates[0] and rates[1] else None
        if first.sustained and second.sustained:
            sustained = value * first.sustained.value / second.sustained.value
    estimates = estimates_of([] if value is None else within)
    return SpeedupColumns(
        value=value,
        percent=None if value is None else 100 * (value - 1),
        absolute_samples_per_s=absolute,
        verdict=Verdict.FAILED if value is None else Verdict.AMBIGUOUS,
        preliminary=len(within) < MIN_REPLICATES,
        floor=MIN_FLOOR,
        replicates=len(within),
        rounds=sum(map(len, counted)),
        **_across([] if failed or contaminated else counted, *pair),
        **variance_budget(within),
        estimates=" ".join(map(repr, estimates.values)),
        errors=" ".join(map(repr, estimates.errors)),
        **_costs(first, second),
        raw=None if failed else _raw(samples, *pair),
        sustained=sustained,
        cv_percent=second.cv_percent,
    )


def _no_speedup(mode: ModeSummary, counted: Sequence[Seconds]) -> SpeedupColumns:
    """The columns of a mode that was measured alone."""
    measured = bool(counted) and mode.status is Status.OK
    return SpeedupColumns(
        verdict=Verdict.NONE if measured else Verdict.FAILED,
        preliminary=len(counted) < MIN_REPLICATES,
        floor=MIN_FLOOR,
        replicates=len(counted),
        rounds=sum(map(len, counted)),
        host_bound=(mode.host_bound_index or 0.0) > HOST_BOUND_INDEX,
        cv_percent=mode.cv_percent,
    )


def with_judgement(row: ComparisonRow, pool: Pool) -> ComparisonRow:
    """The row with what depends on other trials: floors, interval, p-value, verdict, break-even."""
    host = row.provenance.host
    speedup = replace(row.speedup, floor=pool.floor(host), floor_across=pool.floor_across(host))
    if speedup.value is not None:
        prior = pool.prior(row.baseline.mode, row.candidate.mode)
        columns = judge(
            {name: np.array([value_of(row, name)], dtype=float) for name in JUDGED_FROM},
            priors=np.array([prior if row.status is Status.OK else UNKNOWN]),
            floor=np.array([speedup.floor]),
        )
        verdict = columns.pop("verdict")[0]
        figures = {name: float(column[0]) for name, column in columns.items()}
        judged: dict[str, Any] = {
            name: None if math.isnan(value) else value for name, value in figures.items()
        }
        speedup = replace(speedup, verdict=verdict, **judged)
    return replace(row, speedup=speedup)


def _status(measured: bool, *, contaminated: bool) -> Status:
    if not measured:
        return Status.SKIPPED
    return Status.CONTAMINATED if contaminated else Status.OK


def _costs(baseline: ModeSummary, candidate: ModeSummary) -> dict[str, Any]:
    """Costs of the candidate: preparation and memory."""
    times = (prepare_s(baseline), prepare_s(candidate))
    each = [
        second - first
        for first, second in (*zip(baseline.prepare_s, candidate.prepare_s, strict=True), times)
        if first is not None and second is not None
    ]
    peaks = (baseline.steady_memory_bytes, candidate.steady_memory_bytes)
    waits = max(baseline.host_bound_index or 0.0, candidate.host_bound_index or 0.0)
    return {
        "compile_s_extra": None if None in times else each[-1],
        "compile_s_extra_low": min(each, default=None),
        "compile_s_extra_high": max(each, default=None),
        "peak_memory_ratio": peaks[1] / peaks[0] if peaks[0] and peaks[1] else None,
        "host_bound": waits > HOST_BOUND_INDEX,
    }


def _across(counted: Sequence[Seconds], baseline: str, candidate: str) -> dict[str, Any]:
    """An A/A pair across processes: the baseline in every second one over its copy in the others.

    Nothing pairs the two, so drift and what differs between processes are in it. Empty for other
    pairs, and for fewer than three replicates a side.
    """
    if not is_aa_pair(baseline, candidate) or len(counted) < 2 * MIN_REPLICATES:
        return {}
    copies = [np.log(call_s[:, 1]) for call_s in counted[1::2]]
    difference = contrast(copies, [np.log(call_s[:, 0]) for call_s in counted[::2]], floor=0.0)
    if difference is None:
        return {}
    interval = difference.interval
    names = ("aa_across", "aa_across_low", "aa_across_high")
    return dict(
        zip(names, np.exp([interval.estimate, interval.low, interval.high]).tolist(), strict=True)
    )


def _raw(samples: Sequence[Samples], baseline: str, candidate: str) -> float | None:
    """The speedup over all rounds of all replicates; None where no replicate is contaminated."""
    if not any(replicate.contaminated for replicate in samples):
        return None
    every, _ = counting(samples, baseline, candidate, contaminated=True)
    interval = over_replicates(intervals(every))
    return math.exp(interval.estimate) if interval else None


def prepare_s(times: ModeSummary | ModeOutcome) -> float | None:
    """Trace and first call of a mode or of one of its replicates, seconds; None if not known."""
    return None if times.first_call_s is None else (times.trace_s or 0.0) + times.first_call_s


def _flags(records: Sequence[Record]) -> tuple[str, ...]:
    flags = {str(flag) for record in records for flag in record.flags}
    if any(record.status is Status.CONTAMINATED for record in records):
        flags.add(str(Status.CONTAMINATED))
    return tuple(sorted(flags))
