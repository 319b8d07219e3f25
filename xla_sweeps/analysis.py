"""Records to comparison rows, verdicts and the answer in words. Pure: no file, no clock, no global seed.

Everything that shows a number (terminal, W&B, page) asks here, so they cannot disagree.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from xla_sweeps import provenance, stats
from xla_sweeps.comparison import ComparisonRow, Estimate, ModeSummary, TrialSummary, Verdict
from xla_sweeps.measurement import Block, Failure, ModeOutcome, Round, Status
from xla_sweeps.record import ModelFacts, Record
from xla_sweeps.stats import Interval
from xla_sweeps.trial import baseline_of, headline_candidates, is_aa_pair

LEVEL = 0.95
MIN_FLOOR = 0.01
MIN_AA_PAIRS = 5
MIN_REPLICATES = 3
MIN_P99_CALLS = 1000
HOST_BOUND_INDEX = 0.9
NORMAL_95 = 1.96
WITHHELD = (Status.WRONG_RESULT, Status.NONDETERMINISTIC, Status.RETRACED, Status.MODE_NOT_EFFECTIVE)
"""Statuses of a mode whose timings are kept and whose speedup is not given."""


def summarize(records: Sequence[Record], *, floor: float = MIN_FLOOR) -> TrialSummary:
    """All that the replicates of one trial say, in any order, failed ones included.

    Args:
        records: of one trial, at least one.
        floor: the smallest relative difference that is called one (`floor_for`).

    Raises:
        ValueError: no records, or records of several trials.
    """
    if len({record.trial_id for record in records}) != 1:
        raise ValueError("records of exactly one trial are needed")
    records = sorted(records, key=lambda record: record.replicate)
    labels = list(dict.fromkeys(label for record in records for label in record.modes))
    modes = {label: _summarize_mode(records, label) for label in labels}
    origin = _origin(records)
    model = next((record.model for record in reversed(records) if record.model.params), records[-1].model)
    return TrialSummary(
        trial_id=records[0].trial_id,
        model=model,
        device=str(records[0].device.get("name", "")),
        batch_size=_batch_size(records[0]),
        replicates=sum(bool(record.rounds) for record in records),
        flags=_flags(records),
        modes=tuple(modes.values()),
        comparisons=tuple(
            _compare(records, modes, model, baseline, candidate, floor=floor, origin=origin)
            for baseline, candidate in comparison_pairs(labels)
        ),
    )


def comparison_pairs(labels: Sequence[str]) -> list[tuple[str, str]]:
    """(baseline, candidate) of every comparison, the headline's first: against its baseline, then against eager."""
    if len(labels) < 2:
        return []
    baseline = baseline_of(labels)
    pairs = [(baseline, candidate) for candidate in headline_candidates(labels)]
    if "eager" in labels:
        pairs += [("eager", label) for label in labels if label != "eager"]
    return list(dict.fromkeys(pairs))


def verdict_of(interval: Interval, narrower: Interval, *, floor: float) -> Verdict:
    """Verdict on a log speedup: a difference counts past the floor, and only where the whole interval lies past it.

    Args:
        interval: at 95 %.
        narrower: at 90 %: inside the floor on both sides, two one-sided 5 % tests find equivalence.
        floor: the smallest relative difference that is called one.
    """
    bound = math.log1p(floor)
    if interval.low > bound:
        return Verdict.FASTER
    if interval.high < -bound:
        return Verdict.SLOWER
    if -bound < narrower.low and narrower.high < bound:
        return Verdict.EQUIVALENT
    return Verdict.AMBIGUOUS


def aa_floor(records: Iterable[Record], device: str) -> float | None:
    """The 95th percentile of what A/A pairs on this device seem to differ by; None under five pairs."""
    by_trial: dict[str, list[Record]] = {}
    for record in records:
        if record.device.get("name") == device:
            by_trial.setdefault(record.trial_id, []).append(record)
    apart = [
        abs(interval.estimate)
        for group in by_trial.values()
        for baseline, candidate in comparison_pairs(list(group[0].modes))
        if is_aa_pair(baseline, candidate)
        and (interval := _over_replicates(_ratios(group, baseline, candidate), LEVEL)) is not None
    ]
    return math.expm1(float(np.quantile(apart, 0.95))) if len(apart) >= MIN_AA_PAIRS else None


def floor_for(records: Iterable[Record], device: str) -> float:
    """The floor of a verdict: 1 %, or what this device's A/A pairs ask for if that is more."""
    return max(MIN_FLOOR, aa_floor(records, device) or 0.0)


def row_dict(row: ComparisonRow) -> dict[str, Any]:
    """A row as plain data with stable names, for CSV, Parquet and JSON; flags joined by spaces."""
    document = asdict(row)
    return {**document, "verdict": str(row.verdict), "status": str(row.status), "flags": " ".join(row.flags)}


def decomposition(summary: TrialSummary) -> dict[str, Estimate]:
    """The steps from eager to each candidate: `eager -> graph` and `graph -> xla`, as speedups with intervals."""
    steps = {}
    for row in summary.comparisons:
        first = row.baseline == "eager" and row.candidate in ("graph", "default")
        if row.speedup is not None and (first or row.headline):
            steps[f"{row.baseline} -> {row.candidate}"] = Estimate(
                value=row.speedup, low=row.speedup_low, high=row.speedup_high
            )
    return dict(sorted(steps.items()))


def variance_budget(replicates: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Where the uncertainty comes from, in percent: rounds within a process, or differences between processes.

    The larger says what to buy more of: time in each process, or processes.

    Args:
        replicates: log-ratios of each process.
    """
    within = [stats.signed_rank_interval(values) for values in replicates]
    errors = [(interval.high - interval.low) / 2 / NORMAL_95 for interval in within]
    estimates = [interval.estimate for interval in within]
    return {
        "within_percent": 100 * statistics.fmean(errors) if errors else None,
        "between_percent": 100 * statistics.stdev(estimates) if len(estimates) > 1 else None,
    }


def clean_rounds(rounds: Sequence[Round], labels: Sequence[str]) -> list[Round]:
    """The undisturbed rounds that hold all these modes; all such rounds where too few are undisturbed."""
    together = [item for item in rounds if set(labels) <= {block.mode for block in item.blocks}]
    clean = [item for item in together if not item.dirty]
    return clean if len(clean) >= stats.MIN_PAIRS else together


def _blocks(rounds: Sequence[Round], label: str) -> list[Block]:
    return [block for item in rounds for block in item.blocks if block.mode == label]


def _ratios(records: Sequence[Record], baseline: str, candidate: str, *, raw: bool = False) -> list[list[float]]:
    """Log-ratios of each replicate that has any."""
    replicates = []
    for record in records:
        together = clean_rounds(record.rounds, (baseline, candidate))
        if raw:
            together = [item for item in record.rounds if {baseline, candidate} <= set(item.order)]
        times = [{block.mode: block.call_s for block in item.blocks} for item in together]
        ratios = [math.log(time[baseline] / time[candidate]) for time in times]
        if len(ratios) >= stats.MIN_PAIRS:
            replicates.append(ratios)
    return replicates


def _over_replicates(replicates: Sequence[Sequence[float]], level: float) -> Interval | None:
    """One interval from all replicates, each one estimate; from within a process where there are fewer than three.

    Two processes give the hull of their own intervals: a t interval of two would be infinitely timid, and pooling their
    rounds would hide how they differ.
    """
    if not replicates:
        return None
    within = [stats.signed_rank_interval(values, level=level) for values in replicates]
    if len(within) >= MIN_REPLICATES:
        return stats.t_interval([interval.estimate for interval in within], level=level)
    return Interval(
        estimate=statistics.fmean(interval.estimate for interval in within),
        low=min(interval.low for interval in within),
        high=max(interval.high for interval in within),
        level=level,
    )


def _summarize_mode(records: Sequence[Record], label: str) -> ModeSummary:
    outcomes = [record.modes[label] for record in records if label in record.modes]
    status, failure = _mode_status(outcomes)
    times = [
        [math.log(block.call_s) for block in blocks]
        for record in records
        if len(blocks := _blocks(clean_rounds(record.rounds, (label,)), label)) >= stats.MIN_PAIRS
    ]
    log_s = _over_replicates(times, LEVEL)
    latencies_ms = sorted(1e3 * value for outcome in outcomes for value in outcome.latencies_s)
    agreements = [outcome.agreement for outcome in outcomes if outcome.agreement]
    on_gpu = any(record.device.get("kind") == "gpu" for record in records)
    queue = [block.enqueue_ns / block.elapsed_ns for record in records for block in _blocks(record.rounds, label)]
    return ModeSummary(
        label=label,
        status=status,
        throughput_samples_per_s=_reciprocal(log_s, _batch_size(records[0])),
        latency_ms=_exponentiated(log_s, 1e3),
        latency_p50_ms=_quantile(latencies_ms, 0.5),
        latency_p90_ms=_quantile(latencies_ms, 0.9),
        latency_p99_ms=_quantile(latencies_ms, 0.99) if len(latencies_ms) >= MIN_P99_CALLS else None,
        trace_s=_median(outcome.trace_s for outcome in outcomes),
        first_call_s=_median(outcome.first_call_s for outcome in outcomes),
        compile_s=_median(outcome.compile_s for outcome in outcomes),
        peak_memory_bytes=max((outcome.peak_memory_bytes or 0 for outcome in outcomes), default=0) or None,
        rmse_rel=max((item.rmse_rel for item in agreements if item.rmse_rel is not None), default=None),
        top1_match=min((item.top1_match for item in agreements if item.top1_match is not None), default=None),
        agreement_ok=all(item.ok for item in agreements) if agreements else None,
        host_bound_index=statistics.median(queue) if on_gpu and queue else None,
        rounds=sum(len(values) for values in times),
        replicates=len(times),
        failure=failure,
    )


def _mode_status(outcomes: Sequence[ModeOutcome]) -> tuple[Status, Failure | None]:
    """A withheld status of any replicate; else ok if any replicate is; else the first failure."""
    for outcome in outcomes:
        if outcome.status in WITHHELD:
            return outcome.status, outcome.failure
    if any(outcome.status is Status.OK and outcome.latencies_s for outcome in outcomes):
        return Status.OK, None
    failed = [outcome for outcome in outcomes if outcome.status is not Status.OK]
    if failed:
        return failed[0].status, failed[0].failure
    return Status.SKIPPED, None


def _compare(
    records: Sequence[Record],
    modes: Mapping[str, ModeSummary],
    model: ModelFacts,
    baseline: str,
    candidate: str,
    *,
    floor: float,
    origin: Mapping[str, Any],
) -> ComparisonRow:
    first, second, config = modes[baseline], modes[candidate], records[0].config
    failed = next((mode for mode in (second, first) if mode.status is not Status.OK), None)
    replicates = _ratios(records, baseline, candidate)
    interval = None if failed else _over_replicates(replicates, LEVEL)
    narrower = None if failed else _over_replicates(replicates, 2 * LEVEL - 1)
    verdict, p_value = Verdict.FAILED, None
    if interval and narrower:
        verdict = verdict_of(interval, narrower, floor=floor)
        p_value = _p_value(interval, replicates, floor)
    speedup = _exponentiated(interval, 1.0)
    extra = _extra_s(first, second)
    rates, latencies = (
        (first.throughput_samples_per_s, second.throughput_samples_per_s),
        (first.latency_ms, second.latency_ms),
    )
    contaminated = any(record.status is Status.CONTAMINATED for record in records)
    raw = (
        _over_replicates(_ratios(records, baseline, candidate, raw=True), LEVEL)
        if contaminated and not failed
        else None
    )
    labels = list(modes)
    return ComparisonRow(
        trial_id=records[0].trial_id,
        family=model.family,
        variant=model.variant,
        model=model.name,
        source=model.source,
        task=model.task,
        resolution_px=model.resolution_px,
        batch_size=_batch_size(records[0]),
        precision=str(config.get("precision", "")),
        scenario=_name(config.get("scenario")),
        effort=_name(config.get("effort")),
        device=str(records[0].device.get("name", "")),
        candidate=candidate,
        baseline=baseline,
        headline=baseline == baseline_of(labels) and candidate in headline_candidates(labels),
        **_three("throughput", "_samples_per_s", "", rates),
        **_three("latency", "_ms", "_ms", latencies),
        speedup=speedup.value if speedup else None,
        speedup_low=speedup.low if speedup else None,
        speedup_high=speedup.high if speedup else None,
        speedup_percent=100 * (speedup.value - 1) if speedup else None,
        absolute_speedup_samples_per_s=rates[1].value - rates[0].value if speedup and rates[0] and rates[1] else None,
        verdict=verdict,
        preliminary=len(replicates) < MIN_REPLICATES,
        floor=floor,
        replicates=len(replicates),
        rounds=sum(len(values) for values in replicates),
        **variance_budget(replicates),
        compile_s_extra=extra,
        break_even_calls=_break_even(extra, latencies) if speedup else None,
        peak_memory_ratio=second.peak_memory_bytes / first.peak_memory_bytes
        if first.peak_memory_bytes and second.peak_memory_bytes
        else None,
        host_bound=max(first.host_bound_index or 0.0, second.host_bound_index or 0.0) > HOST_BOUND_INDEX,
        status=failed.status if failed else Status.CONTAMINATED if contaminated else Status.OK,
        flags=_flags(records),
        params=model.params,
        eager_is_graph=model.eager_is_graph,
        replica_of=model.replica_of,
        macs=model.macs,
        speedup_raw=math.exp(raw.estimate) if raw else None,
        failure_message=failed.failure.message if failed and failed.failure else "",
        failed_mode=failed.label if failed else "",
        failure_hint=failed.failure.hint if failed and failed.failure else "",
        p_value=p_value,
        cv_percent=_cv_percent(records, candidate),
        **origin,
    )


def _p_value(interval: Interval, replicates: Sequence[Sequence[float]], floor: float) -> float | None:
    """From within a process, no smaller than the signed-rank test of so many rounds can give."""
    if len(replicates) >= MIN_REPLICATES:
        return stats.p_beyond(interval, math.log1p(floor), freedom=len(replicates) - 1)
    p_value = stats.p_beyond(interval, math.log1p(floor))
    return None if p_value is None else max(p_value, 0.5 ** (min(map(len, replicates)) - 1))


def _origin(records: Sequence[Record]) -> dict[str, Any]:
    """The columns that say where a trial's numbers come from."""
    last = records[-1]
    return {
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


def _cv_percent(records: Sequence[Record], label: str) -> float | None:
    """The worst process's coefficient of variation of undisturbed blocks."""
    blocks = (_blocks(clean_rounds(record.rounds, (label,)), label) for record in records)
    spreads = [provenance.cv_percent([block.call_s for block in group]) for group in blocks]
    return max((spread for spread in spreads if spread is not None), default=None)


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


def _exponentiated(interval: Interval | None, scale: float) -> Estimate | None:
    if interval is None:
        return None
    low, high = (scale * math.exp(bound) if math.isfinite(bound) else None for bound in (interval.low, interval.high))
    return Estimate(value=scale * math.exp(interval.estimate), low=low, high=high)


def _reciprocal(log_s: Interval | None, batch_size: int) -> Estimate | None:
    """Throughput from the log of seconds a call."""
    if log_s is None:
        return None
    turned = Interval(estimate=-log_s.estimate, low=-log_s.high, high=-log_s.low, level=log_s.level)
    return _exponentiated(turned, batch_size)


def _quantile(values: Sequence[float], share: float) -> float | None:
    return float(np.quantile(values, share)) if values else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _batch_size(record: Record) -> int:
    return int(record.config.get("batch_size") or 1)


def _name(value: Any) -> str:
    return str(value.get("name", "")) if isinstance(value, Mapping) else str(value or "")
