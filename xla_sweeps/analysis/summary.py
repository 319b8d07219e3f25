"""Records of a trial to its modes and comparison rows. Pure.

The terminal, W&B and the page all show these numbers, so they cannot disagree.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec
import numpy as np

from xla_sweeps.analysis import speedup, stats
from xla_sweeps.analysis.estimates import Samples, Seconds, counting, intervals
from xla_sweeps.analysis.interval import (
    Estimates,
    exponentiated,
    interval_of,
    over_replicates,
    reciprocal,
)
from xla_sweeps.analysis.pool import MIN_FLOOR, NOTHING
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.schema.columns import ModeColumns
from xla_sweeps.schema.measurement import Failure, Flag, Flagged, ModeOutcome, Round, Status
from xla_sweeps.schema.modes import Entry, Mode, by_role, comparison_pairs, mode_of
from xla_sweeps.schema.record import Record, build_of, headline_labels, newest
from xla_sweeps.schema.row import Estimate, ModeSummary, TrialSummary

_T = TypeVar("_T")

MIN_P99_CALLS = 1000

WITHHELD = (
    Status.WRONG_RESULT,
    Status.NONDETERMINISTIC,
    Status.RETRACED,
    Status.MODE_NOT_EFFECTIVE,
)
"""Statuses of a mode whose timings are kept and whose speedup is not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The records of one trial, ready to be summarized.

    Attributes:
        records: those of the newest build, in order.
        counted: of these, those whose figures count.
        labels: of all modes.
        build_changed: whether records of an earlier build are left out.
        samples: the blocks of `records`.
    """

    records: Sequence[Record]
    counted: Sequence[Record]
    labels: tuple[str, ...]
    build_changed: bool
    samples: Sequence[Samples]


def measured_of(records: Sequence[Record]) -> Measured:
    """The replicates of one trial, in any order, failed ones included.

    Only those of the newest build count.

    Raises:
        ValueError: no records, or records of several trials.
    """
    if len({record.trial_id for record in records}) != 1:
        raise ValueError("records of exactly one trial are needed")
    every = sorted(records, key=lambda record: record.replicate)
    kept, _ = newest(every, build_of)
    return Measured(
        records=kept,
        counted=_counted(kept),
        labels=tuple(dict.fromkeys(label for record in kept for label in record.modes)),
        build_changed=len(kept) < len(every),
        samples=samples_of(kept),
    )


def summarize(records: Sequence[Record]) -> TrialSummary:
    """Summarize the replicates of one trial, judged by themselves.

    Args:
        records: as in `measured_of`.

    Raises:
        ValueError: no records, or records of several trials.
    """
    trial = measured_of(records)
    modes = _with_input_share({label: _summarize_mode(trial, label) for label in trial.labels})
    model = next(
        (record.model for record in reversed(trial.records) if record.model.params),
        trial.records[-1].model,
    )
    flags = [str(Flag.BUILD_CHANGED)] if trial.build_changed else []
    flags += [
        str(Flagged(Flag.SUSTAINED_DIFFERS, label))
        for label, mode in modes.items()
        if _differs(mode.sustained)
    ]
    shared = speedup.shared_of(trial.counted, model, also=flags)
    pairs = comparison_pairs(trial.labels) or [("", label) for label in trial.labels]
    rows = tuple(speedup.compare(trial.samples, modes, *pair, shared=shared) for pair in pairs)
    return TrialSummary(
        trial=shared.trial,
        model=model,
        replicates=sum(bool(counted_rounds(record)) for record in trial.counted),
        flags=shared.flags,
        modes=tuple(modes.values()),
        comparisons=tuple(speedup.with_judgement(row, NOTHING) for row in rows),
    )


def samples_of(records: Iterable[Record]) -> list[Samples]:
    """The blocks of each replicate that count."""
    return [
        Samples(counted_rounds(record), contaminated=record.status is Status.CONTAMINATED)
        for record in records
    ]


def counted_rounds(record: Record) -> tuple[Round, ...]:
    """A replicate's rounds; none where it was cut short before the `rounds_min` of its effort."""
    if all(one.flag != Flag.CUT_SHORT for one in record.flags):
        return record.rounds
    least = record.trial.effort.rounds_min or stats.MIN_PAIRS
    enough = sum(not one.dirty for one in record.rounds) >= least
    return record.rounds if enough else ()


def decomposition(summary: TrialSummary) -> dict[str, Estimate]:
    """The steps from eager to each candidate, `eager -> graph` and `graph -> xla`, as speedups."""
    steps = {}
    labels = by_role(mode.label for mode in summary.modes)
    eager, *graphs = (labels.get(mode.role) for mode in (Mode.EAGER, Mode.GRAPH, Mode.DEFAULT))
    for row in summary.comparisons:
        first = row.baseline.mode == eager and row.candidate.mode in graphs
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


def _summarize_mode(trial: Measured, label: str) -> ModeSummary:
    call_s, _ = counting(trial.samples, label)
    status, failure = _mode_status(trial.records, label, measured=bool(call_s))
    counted = trial.counted
    outcomes = [record.modes[label] for record in counted if label in record.modes]
    blocks = [one[:, 0] for one in call_s]
    within = intervals(call_s)
    log_s = over_replicates(within)
    latencies_ms = [1e3 * value for outcome in outcomes for value in outcome.latencies_s]
    p50, p90, p99 = (
        np.quantile(latencies_ms, [0.5, 0.9, 0.99]).tolist() if latencies_ms else [None] * 3
    )
    agreements = [outcome.agreement for outcome in outcomes if outcome.agreement]
    on_gpu = any(record.device.get("kind") == "gpu" for record in trial.records)
    throughput = reciprocal(log_s, trial.records[0].trial.samples)
    call = exponentiated(log_s, 1e3)
    return ModeSummary(
        label=label,
        columns=ModeColumns(
            mode=label,
            throughput_samples_per_s=throughput.value if throughput else None,
            throughput_low=throughput.low if throughput else None,
            throughput_high=throughput.high if throughput else None,
            call_ms=call.value if call else None,
            call_low_ms=call.low if call else None,
            call_high_ms=call.high if call else None,
            copy_input_ms=_copy_ms(outcomes, "input"),
            copy_output_ms=_copy_ms(outcomes, "output"),
            last_batch_compile_s=_median(outcome.last_batch_compile_s for outcome in outcomes),
            latency_p50_ms=p50,
            latency_p90_ms=p90,
            latency_p99_ms=p99 if len(latencies_ms) >= MIN_P99_CALLS else None,
            jit_compile=_jit_compile(outcomes),
        ),
        status=status,
        trace_s=_median(outcome.trace_s for outcome in outcomes),
        first_call_s=_median(outcome.first_call_s for outcome in outcomes),
        compile_s=_median(outcome.compile_s for outcome in outcomes),
        steady_memory_bytes=max(
            _present(outcome.steady_memory_bytes or None for outcome in outcomes), default=None
        ),
        rmse_rel=max(_present(agreement.rmse_rel for agreement in agreements), default=None),
        agreement_ok=all(agreement.ok for agreement in agreements) if agreements else None,
        host_bound_index=_host_bound_index(outcomes, log_s)
        if on_gpu and mode_of(label).entry.queues
        else None,
        rounds=sum(map(len, blocks)),
        replicates=len(within),
        failure=failure,
        cv_percent=_cv_percent(blocks),
        sustained=_sustained(counted, label),
        prepare_s=tuple(
            speedup.prepare_s(record.modes[label]) if label in record.modes else None
            for record in counted
        ),
    )


def _with_input_share(modes: dict[str, ModeSummary]) -> dict[str, ModeSummary]:
    """The modes; those of Keras's `fit` with the share that their input pipeline takes alone."""
    alone = modes.get(by_role(modes).get(Mode.INPUT.role, ""))
    alone_ms = alone.columns.call_ms if alone else None
    shares = {
        label: alone_ms / mode.columns.call_ms
        for label, mode in modes.items()
        if alone_ms and mode.columns.call_ms and mode_of(label).entry is Entry.FIT
    }
    return {
        label: msgspec.structs.replace(
            mode, columns=replace(mode.columns, input_share=shares.get(label))
        )
        for label, mode in modes.items()
    }


def _jit_compile(outcomes: Sequence[ModeOutcome]) -> str:
    """True or false: whether XLA compiled the mode, as the last replicate read it back; else ""."""
    values = [outcome.effective.get("jit_compile") for outcome in outcomes]
    newest = next((value for value in reversed(values) if isinstance(value, bool)), None)
    return "" if newest is None else str(newest).lower()


def _copy_ms(outcomes: Sequence[ModeOutcome], what: str) -> float | None:
    seconds = _median(outcome.copies_s.get(what) for outcome in outcomes)
    return None if seconds is None else 1e3 * seconds


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
        alone = record.modes[label].sustained_call_s if label in record.modes else ()
        if not alone:
            continue
        rounds = [
            block.call_s
            for one in record.rounds
            for block in one.blocks
            if block.mode == label and not one.dirty
        ]
        if rounds:
            late = alone[len(alone) // 2 :]
            logs.append(math.log(statistics.median(late) / statistics.median(rounds)))
    return exponentiated(interval_of(Estimates(tuple(logs)), least=2), 1.0) if logs else None


def _differs(sustained: Estimate | None) -> bool:
    """True if the whole interval lies more than 1 % from no difference."""
    if sustained is None or sustained.low is None or sustained.high is None:
        return False
    return sustained.low > 1 + MIN_FLOOR or sustained.high < 1 / (1 + MIN_FLOOR)


def _cv_percent(blocks: Sequence[Seconds]) -> float | None:
    """The worst replicate's coefficient of variation, percent."""
    spreads = [
        100 * float(seconds.std(ddof=1) / seconds.mean()) for seconds in blocks if seconds.size > 1
    ]
    return max(spreads, default=None)


def _mode_status(
    records: Sequence[Record], label: str, *, measured: bool
) -> tuple[Status, Failure | None]:
    """A withheld status of any replicate; else ok if any replicate is; else the first failure.

    Whether a mode computes the same twice is what the newest replicate found that could tell. A
    mode without enough rounds has the failure of the newest replicate that was cut short.
    """
    outcomes = [record.modes[label] for record in records if label in record.modes]
    told = [
        outcome for outcome in outcomes if outcome.status in (Status.OK, Status.NONDETERMINISTIC)
    ]
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
    if cut is not None and not (works and measured):
        return cut.status, cut.failure
    return (Status.OK, None) if works else (Status.SKIPPED, None)


def headline_failed(records: Sequence[Record]) -> bool:
    """True if a mode of the headline has no valid result in these records of a trial.

    This decides the exit code of a trial, and agrees with the verdict of `summarize`.
    """
    if not any(record.modes for record in records):
        return True
    trial = measured_of(records)
    return any(
        _mode_status(trial.records, label, measured=bool(counting(trial.samples, label)[0]))[0]
        is not Status.OK
        for label in headline_labels(trial.labels)
    )


def _median(values: Iterable[float | None]) -> float | None:
    present = _present(values)
    return statistics.median(present) if present else None


def _present(values: Iterable[_T | None]) -> list[_T]:
    return [value for value in values if value is not None]
