"""Records of a trial to its modes and comparison rows. Pure.

The terminal, W&B and the page all show these numbers, so they cannot disagree.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from xla_sweeps.analysis import speedup, stats
from xla_sweeps.analysis.estimates import (
    Samples,
    Seconds,
    counting,
    exponentiated,
    over_replicates,
    reciprocal,
    within_replicates,
)
from xla_sweeps.analysis.pool import MIN_FLOOR, NOTHING, Pool
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.schema.build import build_of, newest
from xla_sweeps.schema.measurement import Failure, Flag, ModeOutcome, Round, Status
from xla_sweeps.schema.record import Record, headline_of
from xla_sweeps.schema.row import Estimate, ModeSummary, TrialSummary

MIN_P99_CALLS = 1000

WITHHELD = (
    Status.WRONG_RESULT,
    Status.NONDETERMINISTIC,
    Status.RETRACED,
    Status.MODE_NOT_EFFECTIVE,
)
"""Statuses of a mode whose timings are kept and whose speedup is not given."""


def summarize(records: Sequence[Record], *, pool: Pool = NOTHING) -> TrialSummary:
    """Summarize the replicates of one trial, in any order, failed ones included.

    Only those of the newest build count.

    Args:
        records: of one trial, at least one.
        pool: what other trials of the device and effort say.

    Raises:
        ValueError: no records, or records of several trials.
    """
    if len({record.trial_id for record in records}) != 1:
        raise ValueError("records of exactly one trial are needed")
    every = sorted(records, key=lambda record: record.replicate)
    records, _ = newest(every, build_of)
    labels = list(dict.fromkeys(label for record in records for label in record.modes))
    samples = samples_of(records)
    counted = _counted(records)
    modes = {label: _summarize_mode(records, counted, samples, label) for label in labels}
    model = next(
        (record.model for record in reversed(records) if record.model.params), records[-1].model
    )
    flags = [str(Flag.BUILD_CHANGED)] if len(records) < len(every) else []
    flags += [
        f"{Flag.SUSTAINED_DIFFERS}:{label}"
        for label, mode in modes.items()
        if _differs(mode.sustained)
    ]
    shared = speedup.shared_of(counted, model, also=flags)
    return TrialSummary(
        trial_id=records[0].trial_id,
        model=model,
        device=shared.trial.device,
        batch_size=shared.trial.batch_size,
        replicates=sum(bool(counted_rounds(record)) for record in counted),
        flags=shared.flags,
        modes=tuple(modes.values()),
        comparisons=tuple(
            speedup.compare(
                samples,
                modes,
                baseline,
                candidate,
                pool=pool,
                shared=shared,
            )
            for baseline, candidate in speedup.comparison_pairs(labels)
        )
        or tuple(speedup.alone(samples, mode, shared=shared) for mode in modes.values()),
    )


def samples_of(records: Iterable[Record]) -> list[Samples]:
    """The blocks of each replicate that count."""
    return [
        Samples(counted_rounds(record), contaminated=record.status is Status.CONTAMINATED)
        for record in records
    ]


def counted_rounds(record: Record) -> tuple[Round, ...]:
    """A replicate's rounds; none where it was cut short before the `rounds_min` of its effort."""
    if Flag.CUT_SHORT not in record.flags:
        return record.rounds
    effort = record.config.get("effort")
    least = effort.get("rounds_min") if isinstance(effort, Mapping) else None
    enough = sum(not item.dirty for item in record.rounds) >= (least or stats.MIN_PAIRS)
    return record.rounds if enough else ()


def decomposition(summary: TrialSummary) -> dict[str, Estimate]:
    """The steps from eager to each candidate, `eager -> graph` and `graph -> xla`, as speedups."""
    steps = {}
    for row in summary.comparisons:
        first = row.baseline.mode == "eager" and row.candidate.mode in ("graph", "default")
        if row.speedup.value is not None and (first or row.headline):
            steps[f"{row.baseline.mode} -> {row.candidate.mode}"] = Estimate(
                value=row.speedup.value, low=row.speedup.low, high=row.speedup.high
            )
    return dict(sorted(steps.items()))


def _counted(records: Sequence[Record]) -> Sequence[Record]:
    """The clean records, where one has enough rounds; else all."""
    clean = [record for record in records if record.status is not Status.CONTAMINATED]
    return (
        clean
        if any(len(counted_rounds(record)) >= stats.MIN_PAIRS for record in clean)
        else records
    )


def _summarize_mode(
    records: Sequence[Record], counted: Sequence[Record], samples: Sequence[Samples], label: str
) -> ModeSummary:
    status, failure = _mode_status(records, samples, label)
    outcomes = [record.modes[label] for record in counted if label in record.modes]
    blocks = [call_s[:, 0] for call_s in counting(samples, label)[0]]
    within = within_replicates(map(np.log, blocks))
    log_s = over_replicates([wide for wide, _ in within])
    latencies_ms = 1e3 * np.array([value for outcome in outcomes for value in outcome.latencies_s])
    agreements = [outcome.agreement for outcome in outcomes if outcome.agreement]
    on_gpu = any(record.device.get("kind") == "gpu" for record in records)
    return ModeSummary(
        label=label,
        status=status,
        throughput_samples_per_s=reciprocal(log_s, speedup.batch_size_of(records[0])),
        call_ms=exponentiated(log_s, 1e3),
        latency_p50_ms=_quantile(latencies_ms, 0.5),
        latency_p90_ms=_quantile(latencies_ms, 0.9),
        latency_p99_ms=_quantile(latencies_ms, 0.99)
        if len(latencies_ms) >= MIN_P99_CALLS
        else None,
        trace_s=_median(outcome.trace_s for outcome in outcomes),
        first_call_s=_median(outcome.first_call_s for outcome in outcomes),
        compile_s=_median(outcome.compile_s for outcome in outcomes),
        peak_memory_bytes=max((outcome.steady_memory_bytes or 0 for outcome in outcomes), default=0)
        or None,
        rmse_rel=max(
            (item.rmse_rel for item in agreements if item.rmse_rel is not None), default=None
        ),
        top1_match=min(
            (item.top1_match for item in agreements if item.top1_match is not None), default=None
        ),
        agreement_ok=all(item.ok for item in agreements) if agreements else None,
        host_bound_index=_host_bound_index(outcomes, log_s) if on_gpu else None,
        rounds=sum(map(len, blocks)),
        replicates=len(within),
        failure=failure,
        cv_percent=_cv_percent(blocks),
        sustained=_sustained(counted, label),
        prepare_s=tuple(_prepare_s(record.modes.get(label)) for record in counted),
    )


def _host_bound_index(outcomes: Sequence[ModeOutcome], log_s: Interval | None) -> float | None:
    """Time to enqueue a call after a synchronization / time of a call in the blocks, medians.

    Not the time to enqueue a whole block's calls: once the device's launch queue is full (CUDA's
    holds about 1,000 kernels), enqueuing waits for the device, whatever bounds the mode.
    """
    enqueue_ns = [value for outcome in outcomes for value in outcome.latency_enqueue_ns]
    if not enqueue_ns or log_s is None:
        return None
    return min(1.0, statistics.median(enqueue_ns) / 1e9 / math.exp(log_s.estimate))


def _sustained(records: Sequence[Record], label: str) -> Estimate | None:
    """Time of a call alone / in the rounds, medians of each replicate, over the replicates.

    The first half of the time alone does not count: until then a GPU may still warm up.
    """
    logs = []
    for record in records:
        rounds = [
            block.call_s
            for item in record.rounds
            for block in item.blocks
            if block.mode == label and not item.dirty
        ]
        alone = record.modes[label].sustained_call_s if label in record.modes else ()
        if alone and rounds:
            late = alone[len(alone) // 2 :]
            logs.append(math.log(statistics.median(late) / statistics.median(rounds)))
    return exponentiated(stats.t_interval(logs), 1.0) if logs else None


def _differs(sustained: Estimate | None) -> bool:
    """Whether the whole interval lies more than 1 % from no difference."""
    if sustained is None or sustained.low is None or sustained.high is None:
        return False
    return sustained.low > 1 + MIN_FLOOR or sustained.high < 1 / (1 + MIN_FLOOR)


def _prepare_s(outcome: ModeOutcome | None) -> float | None:
    """Trace and first call, seconds."""
    if outcome is None or outcome.first_call_s is None:
        return None
    return (outcome.trace_s or 0.0) + outcome.first_call_s


def _cv_percent(blocks: Sequence[Seconds]) -> float | None:
    """The worst replicate's coefficient of variation, percent."""
    worst = None
    for seconds in blocks:
        if seconds.size > 1:
            mean = seconds.sum() / seconds.size
            apart = seconds - mean
            spread = 100 * math.sqrt(float(apart @ apart) / (seconds.size - 1)) / float(mean)
            worst = spread if worst is None else max(worst, spread)
    return worst


def _mode_status(
    records: Sequence[Record], samples: Sequence[Samples], label: str
) -> tuple[Status, Failure | None]:
    """A withheld status of any replicate; else ok if any replicate is; else the first failure.

    Whether a mode computes the same twice is what the newest replicate found that could tell. A
    mode without enough rounds has the failure of the newest replicate that was cut short.
    """
    outcomes = [record.modes[label] for record in records if label in record.modes]
    told = [item for item in outcomes if item.status in (Status.OK, Status.NONDETERMINISTIC)]
    for outcome in outcomes:
        if outcome.status in WITHHELD and (
            outcome.status is not Status.NONDETERMINISTIC or outcome is told[-1]
        ):
            return outcome.status, outcome.failure
    works = any(outcome.status is Status.OK and outcome.latencies_s for outcome in outcomes)
    failed = [outcome for outcome in outcomes if outcome.status is not Status.OK]
    if failed and not works:
        return failed[0].status, failed[0].failure
    cut = next((record for record in reversed(records) if record.failure), None)
    if cut is not None and not (works and counting(samples, label)[0]):
        return cut.status, cut.failure
    return (Status.OK, None) if works else (Status.SKIPPED, None)


def headline_failed(records: Sequence[Record]) -> bool:
    """Whether a mode of the headline has no valid result in these records of a trial.

    This decides the exit code of a trial, and agrees with the verdict of `summarize`.
    """
    records = sorted(records, key=lambda record: record.replicate)
    labels = list(dict.fromkeys(label for record in records for label in record.modes))
    if not labels:
        return True
    samples = samples_of(records)
    return any(
        _mode_status(records, samples, label)[0] is not Status.OK for label in headline_of(labels)
    )


def _quantile(values: npt.NDArray[np.float64], share: float) -> float | None:
    return float(np.quantile(values, share)) if values.size else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
