"""Records of a trial to its modes and comparison rows. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from xla_sweeps.analysis import speedup, stats
from xla_sweeps.analysis.energy import energy_of, idle_power_of
from xla_sweeps.analysis.estimates import LATENCY, Samples, Seconds, counting, figure
from xla_sweeps.analysis.interval import figure_of, interval_alone
from xla_sweeps.analysis.judging import judge_columns
from xla_sweeps.analysis.pool import MIN_FLOOR, NOTHING, Key, Pool
from xla_sweeps.schema.columns import ModeColumns
from xla_sweeps.schema.measurement import (
    Agreement,
    Failure,
    Flag,
    Flagged,
    ModeOutcome,
    Round,
    Status,
)
from xla_sweeps.schema.modes import Entry, Mode, by_role, mode_of
from xla_sweeps.schema.record import Record, build_of, newest
from xla_sweeps.schema.row import (
    COLUMNS,
    ComparisonRow,
    Estimate,
    Figure,
    ModeSummary,
    TrialSummary,
    bands_of,
    columns_of,
    row_of,
)
from xla_sweeps.schema.scenarios import comparison_pairs

_T = TypeVar("_T")

MIN_P99_CALLS = 1000

PASS_GROUP = 5
"""Consecutive single calls that resemble each other in older records, which have passes of them.

40 of them say as much as 16 others.
"""

_BANDS = bands_of("candidate")
"""Columns of a mode with their bounds, by figure."""

WITHHELD = (
    Status.WRONG_RESULT,
    Status.UNVERIFIABLE,
    Status.NONDETERMINISTIC,
    Status.RETRACED,
    Status.MODE_NOT_EFFECTIVE,
)
"""Statuses of a mode whose timings are kept and whose speedup is not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The records of one trial, ready to be summarized.

    Attributes:
        records: those of the newest build, in order; `counted` are those whose figures count.
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
    return Measured(
        records=kept,
        counted=_choose_records(kept),
        labels=tuple(dict.fromkeys(label for record in kept for label in record.modes)),
        build_changed=len(kept) < len(every),
        samples=samples_of(kept),
    )


def summarize(records: Sequence[Record], *, pool: Pool | None = NOTHING) -> TrialSummary:
    """Summarize the replicates of one trial, which are as in `measured_of`.

    Without a pool of what other trials say the comparisons have no interval yet, and a verdict that
    means nothing.

    Raises:
        ValueError: no records, or records of several trials.
    """
    trial = measured_of(records)
    figures = _figures(trial)
    modes = {label: _summarize_mode(trial, figures, label) for label in trial.labels}
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
    rows = tuple(
        speedup.compare(trial.samples, modes, figures, pair, shared=shared) for pair in pairs
    )
    withheld = [
        (row.baseline.mode, row.candidate.mode) for row in rows if row.speedup.value is None
    ]
    figures = {key: one for key, one in figures.items() if key[1] not in withheld}
    summary = TrialSummary(
        trial=shared.trial,
        model=model,
        replicates=sum(bool(counted_rounds(record)) for record in trial.counted),
        flags=shared.flags,
        modes=tuple(modes.values()),
        comparisons=rows,
        figures=tuple(figures.values()),
    )
    return summary if pool is None else with_rows(summary, _judge_rows(rows, figures, pool))


def with_rows(summary: TrialSummary, rows: Iterable[ComparisonRow]) -> TrialSummary:
    """The trial with these rows, and its modes as the rows have them."""
    rows = tuple(rows)
    columns = {side.mode: side for row in rows for side in (row.baseline, row.candidate)}
    modes = tuple(
        msgspec.structs.replace(mode, columns=columns.get(mode.label, mode.columns))
        for mode in summary.modes
    )
    return replace(summary, comparisons=rows, modes=modes)


def _judge_rows(
    rows: Sequence[ComparisonRow], figures: Mapping[Key, Figure], pool: Pool
) -> tuple[ComparisonRow, ...]:
    """The rows with what depends on other trials."""
    columns = columns_of(rows)
    trials = columns["trial_id"]
    made = judge_columns(columns, dict.fromkeys(trials, figures), dict.fromkeys(trials, pool))
    documents = []
    for place in range(len(rows)):
        document = {name: values[place] for name, values in columns.items()}
        for name, values in made.items():
            value = values[place]
            number = isinstance(value, float)
            document[name] = value if not number else None if math.isnan(value) else float(value)
        documents.append(document)
    return tuple(map(row_of, documents))


def samples_of(records: Iterable[Record]) -> list[Samples]:
    """The blocks of each replicate that count."""
    return [
        Samples(
            counted_rounds(record),
            contaminated=record.status is Status.CONTAMINATED,
            on_gpu=is_on_gpu(record),
        )
        for record in records
    ]


def is_on_gpu(record: Record) -> bool:
    """True if a GPU was measured."""
    return record.device.get("kind") == "gpu"


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


def _choose_records(records: Sequence[Record]) -> Sequence[Record]:
    """The clean records, where one has enough rounds; else all."""
    clean = [record for record in records if record.status is not Status.CONTAMINATED]
    return (
        clean
        if any(len(counted_rounds(record)) >= stats.MIN_PAIRS for record in clean)
        else records
    )


def _figures(trial: Measured) -> dict[Key, Figure]:
    """The figures of the modes and of their comparisons, as logs."""
    made: list[Figure | None] = []
    alone = by_role(trial.labels).get(Mode.INPUT.role, "")
    for label in trial.labels:
        outcomes = [record.modes[label] for record in trial.counted if label in record.modes]
        made.append(figure("call", trial.samples, label))
        if alone and mode_of(label).entry is Entry.FIT:
            share = figure("input_share", trial.samples, alone, label)
            made.append(share and msgspec.structs.replace(share, labels=(label,)))
        values: dict[str, list[float | None]] = {
            "prepare": [speedup.prepare_s(outcome) for outcome in outcomes],
            "copy_input": [outcome.copies_s.get("input") for outcome in outcomes],
            "copy_output": [outcome.copies_s.get("output") for outcome in outcomes],
        }
        busy = any(record.status is Status.CONTAMINATED for record in trial.counted)
        made += [_figure(name, (label,), seconds, busy) for name, seconds in values.items()]
        made += _latencies(trial.counted, label, busy)
        made += [_sustained_ratio(trial.counted, label), energy_of(trial.counted, label)]
    made.append(idle_power_of(trial.counted))
    on_gpu = any(map(is_on_gpu, trial.records))
    for pair in comparison_pairs(trial.labels):
        made += [figure(name, trial.samples, *pair) for name in ("speedup", LATENCY)]
        counted, contaminated = counting(trial.samples, *pair)
        made.append(None if contaminated else speedup.across_of(counted, *pair, on_gpu=on_gpu))
        made.append(_figure("memory", pair, _memory_ratios(trial.counted, *pair), False))
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


def _memory_ratios(
    records: Sequence[Record], baseline: str, candidate: str
) -> Iterator[float | None]:
    """The candidate's steady memory over the baseline's, of each replicate."""
    for record in records:
        sizes = [
            record.modes[label].steady_memory_bytes if label in record.modes else None
            for label in (baseline, candidate)
        ]
        yield sizes[1] / sizes[0] if sizes[0] and sizes[1] else None


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


def _summarize_mode(trial: Measured, figures: Mapping[Key, Figure], label: str) -> ModeSummary:
    counted, _ = counting(trial.samples, label)
    status, failure = _mode_status(trial.records, label, measured=bool(counted))
    outcomes = [record.modes[label] for record in trial.counted if label in record.modes]
    blocks = [one[:, 0] for one in counted]
    agreements = [outcome.agreement for outcome in outcomes if outcome.agreement]
    prepare_s = _median(map(speedup.prepare_s, outcomes))
    memory = max(_present(one.steady_memory_bytes or None for one in outcomes), default=None)
    on_gpu = any(map(is_on_gpu, trial.records))
    largest = max(
        ((one.rmse_rel, one.allowed) for one in agreements if one.rmse_rel is not None),
        default=(None, None),
        key=lambda pair: pair[0],
    )
    return ModeSummary(
        label=label,
        columns=ModeColumns(
            mode=label,
            **_figure_columns(figures, label, trial.records[0].trial.samples),
            compile_s=prepare_s,
            memory_bytes=memory,
            last_batch_compile_s=_median(outcome.last_batch_compile_s for outcome in outcomes),
            jit_compile=_jit_compile(outcomes),
            start_parts=_start_parts(trial.counted, label),
            cache_bytes=max(_present(one.cache_bytes for one in outcomes), default=None),
            damaged_cache=next((one.damaged_cache for one in outcomes[::-1]), ""),
        ),
        status=status,
        trace_s=_median(outcome.trace_s for outcome in outcomes),
        first_call_s=_median(outcome.first_call_s for outcome in outcomes),
        compile_s=_median(outcome.compile_s for outcome in outcomes),
        steady_memory_bytes=memory,
        rmse_rel=largest[0],
        allowed_rel=largest[1],
        agreement_ok=_agrees(agreements) and status is not Status.WRONG_RESULT,
        host_bound_index=_host_bound_index(outcomes)
        if on_gpu and mode_of(label).entry.queues
        else None,
        rounds=sum(map(len, blocks)),
        replicates=len(blocks),
        failure=failure,
        cv_percent=_cv_percent(blocks),
        sustained=_estimate_of(figures.get(("sustained", (label,)))),
    )


def _figure_columns(figures: Mapping[Key, Figure], label: str, samples: int) -> dict[str, Any]:
    """The columns of a mode that show its figures, in their units."""
    columns = {}
    for name, bands in _BANDS.items():
        one = figures.get((name, (label,)))
        if one is None:
            continue
        for column, *_ in bands:
            value, unit = math.exp(one.mean), COLUMNS[column].unit
            columns[column] = (
                1e3 * value if unit == "ms" else samples / value if unit == "samples/s" else value
            )
    return columns


def _start_parts(records: Sequence[Record], label: str) -> str:
    """Median seconds of each part of a mode's starts, in rounds that count; "" without parts."""
    parts: dict[str, list[float]] = {}
    for record in records:
        clean = [one for one in record.rounds if not one.dirty] or record.rounds
        for block in (block for one in clean for block in one.blocks if block.mode == label):
            for name, nanoseconds in block.parts_ns.items():
                parts.setdefault(name, []).append(nanoseconds / block.calls / 1e9)
    return " ".join(f"{name}={statistics.median(each):.3g}" for name, each in parts.items())


def _jit_compile(outcomes: Sequence[ModeOutcome]) -> str:
    """True or false: whether XLA compiled the mode, as the last replicate read it back; else ""."""
    values = [outcome.effective.get("jit_compile") for outcome in outcomes]
    newest = next((value for value in reversed(values) if isinstance(value, bool)), None)
    return "" if newest is None else str(newest).lower()


def _agrees(agreements: Sequence[Agreement]) -> bool | None:
    """The verdict on a mode's outputs; None where nothing can be told."""
    if any(not agreement.ok and not agreement.refused for agreement in agreements):
        return False
    return None if any(one.refused for one in agreements) or not agreements else True


def _host_bound_index(outcomes: Sequence[ModeOutcome]) -> float | None:
    """Median share of a single call's time that passes until it is enqueued.

    Not that of a block: once the device's launch queue is full (CUDA's holds about 1,000 kernels),
    enqueuing waits for the device, whatever bounds the mode.
    """
    shares = [
        enqueue_ns / (1e9 * latency_s)
        for outcome in outcomes
        for enqueue_ns, latency_s in zip(
            outcome.latency_enqueue_ns, outcome.latencies_s, strict=False
        )
    ]
    return min(1.0, statistics.median(shares)) if shares else None


def _sustained_ratio(records: Sequence[Record], label: str) -> Figure | None:
    """Time of a call alone, in the second half of that time, / in the rounds, as medians."""
    ratios = []
    for record in records:
        alone = record.modes[label].sustained_call_s if label in record.modes else ()
        rounds = [
            block.call_s
            for one in record.rounds
            for block in one.blocks
            if block.mode == label and not one.dirty
        ]
        if alone and rounds:
            late = alone[len(alone) // 2 :]
            ratios.append(statistics.median(late) / statistics.median(rounds))
    return _figure("sustained", (label,), ratios, False)


def _estimate_of(one: Figure | None) -> Estimate | None:
    """A figure with its interval, as far as it does not depend on other trials."""
    if one is None:
        return None
    interval = interval_alone(one)
    value, low, high = map(math.exp, (interval.estimate, interval.low, interval.high))
    return Estimate(value=value, low=low, high=high)


def _differs(sustained: Estimate | None) -> bool:
    """True if the whole interval lies more than 1 % from no difference."""
    if sustained is None or sustained.low is None or sustained.high is None:
        return False
    return sustained.low > 1 + MIN_FLOOR or sustained.high < 1 / (1 + MIN_FLOOR)


def _cv_percent(blocks: Sequence[Seconds]) -> float | None:
    """The replicates' coefficient of variation, percent: the root of the mean of the squares."""
    spreads = [
        float(seconds.var(ddof=1) / seconds.mean() ** 2) for seconds in blocks if seconds.size > 1
    ]
    return 100 * math.sqrt(statistics.fmean(spreads)) if spreads else None


def _mode_status(
    records: Sequence[Record], label: str, *, measured: bool
) -> tuple[Status, Failure | None]:
    """A withheld status of any replicate; else ok if any replicate is; else the first failure.

    Whether a mode computes the same twice is what the newest replicate found that could tell.
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


def _median(values: Iterable[float | None]) -> float | None:
    present = _present(values)
    return statistics.median(present) if present else None


def _present(values: Iterable[_T | None]) -> list[_T]:
    return [value for value in values if value is not None]
