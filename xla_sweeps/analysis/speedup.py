"""One candidate against one baseline of a trial: the comparison row. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xla_sweeps.analysis import provenance, stats
from xla_sweeps.analysis.estimates import LATENCY, Samples, Seconds, counting, intervals
from xla_sweeps.analysis.interval import FREEDOM
from xla_sweeps.analysis.measured import idle_power_of, source_of
from xla_sweeps.analysis.mode_summary import fails
from xla_sweeps.analysis.pool import ACROSS, MIN_FLOOR, Key
from xla_sweeps.schema.columns import (
    FailureColumns,
    ModeColumns,
    ProvenanceColumns,
    SpeedupColumns,
    Verdict,
)
from xla_sweeps.schema.comparisons import headline_pairs
from xla_sweeps.schema.measurement import (
    Failure,
    Flag,
    Phase,
    Status,
)
from xla_sweeps.schema.options import LOCAL
from xla_sweeps.schema.overrides import data_name, inputs_text, runtime_text
from xla_sweeps.schema.record import ModelFacts, Record, wall_s
from xla_sweeps.schema.row import ComparisonRow, Figure, ModeSummary
from xla_sweeps.schema.trial_columns import TrialColumns

HOST_BOUND_INDEX = 0.9

_TOO_FEW_ROUNDS = Failure(
    phase=Phase.MEASURE,
    kind="too_few_rounds",
    message="too few rounds were measured",
    hint="measure for longer: effort.mode_cap_s=S, timeouts.measure=S",
)


_OF_MODEL = (
    *("family", "variant", "source", "task", "resolution_px", "params", "macs", "macs_at_least"),
    *("graph_operations", "eager_is_graph", "replica_of"),
)
_OF_TRIAL = ("batch_size", "batches", "steps_per_execution", "samples", "copies", "compile_cache")
"""Columns that are fields of the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Columns that rows of a trial share."""

    trial: TrialColumns
    provenance: ProvenanceColumns
    flags: tuple[str, ...]


def shared_of(records: Sequence[Record], model: ModelFacts, *, also: Sequence[str] = ()) -> Shared:
    """Columns that rows of a trial share: model, device, flags, provenance."""
    first, last = records[0], records[-1]
    trial = first.trial
    return Shared(
        trial=TrialColumns(
            **{name: getattr(model, name) for name in _OF_MODEL},
            **{name: getattr(trial, name) for name in _OF_TRIAL},
            trial_id=first.trial_id,
            model=model.name,
            keras=str(trial.model.keras or ""),
            optimizer=trial.training.optimizer if trial.training else "",
            shapes=" ".join(trial.shapes),
            data=data_name(trial),
            weights="" if trial.model.source == LOCAL else trial.model.weights,
            path=str(trial.model.recipe.get("path", "")) if trial.model.source == LOCAL else "",
            inputs=inputs_text(trial),
            precision=str(trial.precision),
            tf32=last.uses_tf32,
            scenario=str(trial.scenario),
            effort=trial.effort.name,
            modes=",".join(trial.modes),
            runtime=runtime_text(trial),
            device=str(first.device.get("name", "")),
            effective_precision=last.effective(model),
            request_id=last.request_id,
        ),
        provenance=ProvenanceColumns(
            **provenance.telemetry_of(records),
            purpose=provenance.purpose_of(records),
            energy=source_of(records),
            idle_watts=math.exp(idle.mean) if (idle := idle_power_of(records)) else None,
            measured_at=last.started_at,
            software=provenance.software_of(last),
            driver=provenance.driver_of(last),
            commit=str(last.environment.get("git", "")),
            environment_flags=provenance.flags_of(last),
            environment_id=str(last.environment.get("id", "")),
            host=str(last.environment.get("host", "")),
            replicate_s=statistics.fmean(map(wall_s, records)),
            log=last.log,
            command=provenance.command_of(last),
        ),
        flags=tuple(sorted({*_flags(records), *also})),
    )


def compare(
    samples: Sequence[Samples],
    modes: Mapping[str, ModeSummary],
    figures: Mapping[Key, Figure],
    pair: tuple[str, str],
    *,
    shared: Shared,
) -> ComparisonRow:
    """The row of one candidate against one baseline, not judged yet."""
    baseline, candidate = pair
    second, first = modes[candidate], modes.get(baseline)
    sides = (second, first) if first else (second,)
    failed = next(filter(fails, sides), None)
    failed = failed or next((mode for mode in sides if mode.status is not Status.OK), None)
    counted, contaminated = counting(samples, *filter(None, (baseline, candidate)))
    reason = (failed.failure if failed else None) or (None if counted else _TOO_FEW_ROUNDS)
    status = Status.CONTAMINATED if contaminated else Status.OK if counted else Status.SKIPPED
    return ComparisonRow(
        trial=shared.trial,
        headline=not first or (baseline, candidate) in headline_pairs(tuple(modes)),
        candidate=second.columns,
        baseline=first.columns if first else ModeColumns(mode=""),
        speedup=_speedup(samples, figures, counted, first, second),
        status=failed.status if failed else status,
        flags=shared.flags,
        failure=FailureColumns(
            mode=failed.label if failed else "",
            message=reason.message if reason else "",
            hint=reason.hint if reason else "",
        ),
        provenance=shared.provenance,
    )


def _missing(first: ModeSummary | None, second: ModeSummary, *, measured: bool) -> Verdict:
    """The verdict without a speedup: failed where the candidate failed and the baseline ran."""
    if first is None and measured and second.status is Status.OK:
        return Verdict.NONE
    ran = first is None or first.status is Status.OK
    return Verdict.FAILED if ran and fails(second) else Verdict.NOT_MEASURED


def _speedup(
    samples: Sequence[Samples],
    figures: Mapping[Key, Figure],
    counted: Sequence[Seconds],
    first: ModeSummary | None,
    second: ModeSummary,
) -> SpeedupColumns:
    """The second mode, the candidate, against the first; or alone."""
    pair = first.label if first else "", second.label
    figure, memory, single = (figures.get((name, pair)) for name in ("speedup", "memory", LATENCY))
    verdict = _missing(first, second, measured=bool(counted))
    value = absolute = sustained = raw = None
    if first and first.status is second.status is Status.OK:
        raw = _raw(samples, *pair)
        if figure:
            value, verdict = math.exp(figure.mean), Verdict.AMBIGUOUS
            rate = first.columns.throughput_samples_per_s
            absolute = rate * (value - 1) if rate else None
            long = [figures.get(("sustained", (mode.label,))) for mode in (first, second)]
            if long[0] and long[1]:
                sustained = value * math.exp(long[0].mean) / math.exp(long[1].mean)
    values, errors = (figure.values, figure.errors) if figure else ((), ())
    return SpeedupColumns(
        value=value,
        percent=None if value is None else 100 * (value - 1),
        absolute_samples_per_s=absolute,
        verdict=verdict,
        floor=MIN_FLOOR,
        replicates=len(counted),
        rounds=sum(map(len, counted)),
        **_across(figures.get((ACROSS, pair))),
        within_percent=100 * statistics.fmean(errors) if errors else None,
        between_percent=100 * statistics.stdev(values) if len(values) > 1 else None,
        estimates="" if value is None else " ".join(map(repr, values)),
        errors="" if value is None else " ".join(map(repr, errors)),
        latency=math.exp(single.mean) if single and value is not None else None,
        peak_memory_ratio=math.exp(memory.mean) if memory else None,
        host_bound=(second.host_bound_index or 0.0) > HOST_BOUND_INDEX,
        raw=raw,
        sustained=sustained,
        cv_percent=_cv_percent(counting(samples, second.label)[0]),
    )


def _across(figure: Figure | None) -> dict[str, Any]:
    """Columns of `across_of`; both sides are taken to vary alike."""
    if figure is None:
        return {}
    freedom = figure.replicates - 2 + 2 * FREEDOM
    interval = stats.interval_about(figure.mean, math.sqrt(figure.within), freedom=freedom)
    ends = {"": interval.estimate, "_low": interval.low, "_high": interval.high}
    return {f"aa_across{end}": math.exp(value) for end, value in ends.items()}


def _cv_percent(counted: Sequence[Seconds]) -> float | None:
    """The replicates' coefficient of variation, percent: the root of the mean of the squares."""
    blocks = [call_s[:, 0] for call_s in counted if len(call_s) > 1]
    spreads = [float(seconds.var(ddof=1) / seconds.mean() ** 2) for seconds in blocks]
    return 100 * math.sqrt(statistics.fmean(spreads)) if spreads else None


def _raw(samples: Sequence[Samples], baseline: str, candidate: str) -> float | None:
    """The speedup over all rounds of all replicates; None where no replicate is contaminated."""
    if any(replicate.contaminated for replicate in samples):
        every, _ = counting(samples, baseline, candidate, contaminated=True)
        if every:
            return math.exp(statistics.fmean(one.estimate for one in intervals(every)))
    return None


def disagreement(row: ComparisonRow) -> float | None:
    """The ratio of a row's throughputs, where the speedup's interval and floor exclude it."""
    rates = [side.throughput_samples_per_s for side in (row.baseline, row.candidate)]
    low, high = row.speedup.low, row.speedup.high
    if not (row.baseline.mode and rates[0] and rates[1] and low and high):
        return None
    ratio, floor = rates[1] / rates[0], 1 + row.speedup.floor
    return None if low / floor <= ratio <= high * floor else ratio


def _flags(records: Sequence[Record]) -> Iterator[str]:
    """The flags that say something: not what other load raises, or an effort in any case."""
    for record in records:
        is_contaminated = record.status is Status.CONTAMINATED
        says_nothing: dict[str, bool] = {
            Flag.INPUTS_DIFFER: is_contaminated,
            Flag.NOT_CONVERGED: record.trial.effort.hopeless_ends,
        }
        yield from (str(one) for one in record.flags if not says_nothing.get(one.flag))
        if is_contaminated:
            yield str(Status.CONTAMINATED)
