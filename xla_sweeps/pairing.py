"""One candidate against one baseline of a trial: the comparison row. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xla_sweeps import provenance
from xla_sweeps.comparison import ComparisonRow, Estimate, ModeSummary, Verdict
from xla_sweeps.estimates import (
    MIN_REPLICATES,
    NARROWER,
    exponentiated,
    over_replicates,
    p_value_of,
    variance_budget,
    verdict_of,
    within_replicates,
)
from xla_sweeps.measurement import Status
from xla_sweeps.record import ModelFacts, Record
from xla_sweeps.samples import Samples
from xla_sweeps.stats import MIN_PAIRS, Interval
from xla_sweeps.trial import baseline_of, headline_candidates

HOST_BOUND_INDEX = 0.9


def comparison_pairs(labels: Sequence[str]) -> list[tuple[str, str]]:
    """(baseline, candidate) of every comparison, the headline's first: against its baseline, then against eager."""
    if len(labels) < 2:
        return []
    baseline = baseline_of(labels)
    pairs = [(baseline, candidate) for candidate in headline_candidates(labels)]
    if "eager" in labels:
        pairs += [("eager", label) for label in labels if label != "eager"]
    return list(dict.fromkeys(pairs))


def shared_columns(records: Sequence[Record], model: ModelFacts) -> dict[str, Any]:
    """The columns that all rows of a trial share: what was measured, on what, and with what to know about it."""
    first, last = records[0], records[-1]
    return {
        "trial_id": first.trial_id,
        "family": model.family,
        "variant": model.variant,
        "model": model.name,
        "source": model.source,
        "task": model.task,
        "resolution_px": model.resolution_px,
        "batch_size": batch_size_of(first),
        "precision": str(first.config.get("precision", "")),
        "scenario": _name(first.config.get("scenario")),
        "effort": _name(first.config.get("effort")),
        "device": str(first.device.get("name", "")),
        "flags": _flags(records),
        "params": model.params,
        "macs": model.macs,
        "eager_is_graph": model.eager_is_graph,
        "replica_of": model.replica_of,
        **provenance.telemetry_of(records),
        "request_id": last.request_id,
        "measured_at": last.started_at,
        "software": provenance.software_of(last),
        "driver": provenance.driver_of(last),
        "environment_flags": provenance.flags_of(last),
        "host": str(last.environment.get("host", "")),
        "log": last.log,
        "command": provenance.command_of(last),
    }


def batch_size_of(record: Record) -> int:
    """Samples of one call."""
    return int(record.config.get("batch_size") or 1)


def compare(
    samples: Sequence[Samples],
    modes: Mapping[str, ModeSummary],
    baseline: str,
    candidate: str,
    *,
    floor: float,
    shared: Mapping[str, Any],
    contaminated: bool,
) -> ComparisonRow:
    """The row of one candidate against one baseline.

    Args:
        samples: of each replicate.
        modes: all modes of the trial, by label.
        baseline: label of the mode compared with.
        candidate: label of the mode in question.
        floor: the smallest relative difference that is called one.
        shared: `shared_columns`.
        contaminated: whether any replicate is.
    """
    first, second = modes[baseline], modes[candidate]
    failed = next((mode for mode in (second, first) if mode.status is not Status.OK), None)
    within = within_replicates(sample.log_ratios(baseline, candidate) for sample in samples)
    interval = None if failed else over_replicates([wide for wide, _ in within])
    narrower = None if failed else over_replicates([narrow for _, narrow in within])
    labels = list(modes)
    extra = _extra_s(first, second)
    latencies = (first.latency_ms, second.latency_ms)
    status = failed.status if failed else Status.CONTAMINATED if contaminated else Status.OK
    return ComparisonRow(
        **shared,
        candidate=candidate,
        baseline=baseline,
        headline=baseline == baseline_of(labels) and candidate in headline_candidates(labels),
        **_three("throughput", "_samples_per_s", "", (first.throughput_samples_per_s, second.throughput_samples_per_s)),
        **_three("latency", "_ms", "_ms", latencies),
        **_speedup_columns(interval, narrower, (first.throughput_samples_per_s, second.throughput_samples_per_s)),
        **_judgement(
            interval, narrower, floor=floor, replicates=len(within), rounds=_rounds(samples, baseline, candidate)
        ),
        preliminary=len(within) < MIN_REPLICATES,
        **variance_budget([wide for wide, _ in within]),
        compile_s_extra=extra,
        break_even_calls=_break_even(extra, latencies) if interval else None,
        peak_memory_ratio=second.peak_memory_bytes / first.peak_memory_bytes
        if first.peak_memory_bytes and second.peak_memory_bytes
        else None,
        host_bound=max(first.host_bound_index or 0.0, second.host_bound_index or 0.0) > HOST_BOUND_INDEX,
        status=status,
        speedup_raw=_raw(samples, baseline, candidate) if contaminated and not failed else None,
        failure_message=failed.failure.message if failed and failed.failure else "",
        failed_mode=failed.label if failed else "",
        failure_hint=failed.failure.hint if failed and failed.failure else "",
        cv_percent=second.cv_percent,
    )


def with_floor(row: ComparisonRow, floor: float) -> ComparisonRow:
    """The row judged against another floor; a failed or imported one is as it was."""
    bounds = (row.speedup, row.speedup_low, row.speedup_high, row.speedup_low_90, row.speedup_high_90)
    if floor == row.floor or row.speedup is None or row.replicates == 0:
        return row
    estimate, low, high, low_90, high_90 = (None if bound is None else math.log(bound) for bound in bounds)
    assert estimate is not None
    wide = Interval(estimate=estimate, low=-math.inf if low is None else low, high=math.inf if high is None else high)
    narrow = Interval(
        estimate=estimate,
        low=-math.inf if low_90 is None else low_90,
        high=math.inf if high_90 is None else high_90,
        level=NARROWER,
    )
    return replace(row, **_judgement(wide, narrow, floor=floor, replicates=row.replicates, rounds=row.rounds))


def _speedup_columns(
    interval: Interval | None, narrower: Interval | None, rates: tuple[Estimate | None, Estimate | None]
) -> dict[str, Any]:
    speedup, narrow = exponentiated(interval, 1.0), exponentiated(narrower, 1.0)
    return {
        "speedup": speedup.value if speedup else None,
        "speedup_low": speedup.low if speedup else None,
        "speedup_high": speedup.high if speedup else None,
        "speedup_low_90": narrow.low if narrow else None,
        "speedup_high_90": narrow.high if narrow else None,
        "speedup_percent": 100 * (speedup.value - 1) if speedup else None,
        "absolute_speedup_samples_per_s": rates[1].value - rates[0].value
        if speedup and rates[0] and rates[1]
        else None,
    }


def _judgement(
    interval: Interval | None, narrower: Interval | None, *, floor: float, replicates: int, rounds: int
) -> dict[str, Any]:
    """The columns that depend on the floor, and what they rest on."""
    known = interval is not None and narrower is not None
    return {
        "floor": floor,
        "verdict": verdict_of(interval, narrower, floor=floor) if interval and narrower else Verdict.FAILED,
        "p_value": p_value_of(interval, floor=floor, replicates=replicates, rounds=rounds)
        if known and interval
        else None,
        "replicates": replicates,
        "rounds": rounds,
    }


def _rounds(samples: Sequence[Samples], baseline: str, candidate: str) -> int:
    """Rounds behind the intervals, of all replicates that have enough for one."""
    counts = [len(sample.call_s(baseline, candidate)) for sample in samples]
    return sum(count for count in counts if count >= MIN_PAIRS)


def _raw(samples: Sequence[Samples], baseline: str, candidate: str) -> float | None:
    """The speedup with disturbed rounds left in."""
    within = within_replicates(sample.log_ratios(baseline, candidate, undisturbed=False) for sample in samples)
    interval = over_replicates([wide for wide, _ in within])
    return math.exp(interval.estimate) if interval else None


def _three(name: str, suffix: str, bound_suffix: str, pair: tuple[Estimate | None, Estimate | None]) -> dict[str, Any]:
    """Value and bounds of baseline and candidate under the row's column names."""
    columns: dict[str, Any] = {}
    for prefix, estimate in zip(("baseline_", ""), pair, strict=True):
        columns[f"{prefix}{name}{suffix}"] = estimate.value if estimate else None
        columns[f"{prefix}{name}_low{bound_suffix}"] = estimate.low if estimate else None
        columns[f"{prefix}{name}_high{bound_suffix}"] = estimate.high if estimate else None
    return columns


def _extra_s(baseline: ModeSummary, candidate: ModeSummary) -> float | None:
    """What preparing the candidate costs more: its trace and first call less the baseline's."""
    if baseline.first_call_s is None or candidate.first_call_s is None:
        return None
    return (candidate.trace_s or 0.0) + candidate.first_call_s - (baseline.trace_s or 0.0) - baseline.first_call_s


def _break_even(extra_s: float | None, latencies_ms: tuple[Estimate | None, Estimate | None]) -> float | None:
    """Calls after which the extra preparation is paid back; None where it never is."""
    if extra_s is None or latencies_ms[0] is None or latencies_ms[1] is None:
        return None
    gain_s = (latencies_ms[0].value - latencies_ms[1].value) / 1e3
    if extra_s <= 0:
        return 0.0 if gain_s >= 0 else None
    return extra_s / gain_s if gain_s > 0 else None


def _flags(records: Sequence[Record]) -> tuple[str, ...]:
    flags = {flag for record in records for flag in record.flags}
    if any(record.status is Status.CONTAMINATED for record in records):
        flags.add(str(Status.CONTAMINATED))
    return tuple(sorted(flags))


def _name(value: Any) -> str:
    return str(value.get("name", "")) if isinstance(value, Mapping) else str(value or "")
