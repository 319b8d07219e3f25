"""Summary of one mode of a trial, of its figures and what its workers answered. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from xla_sweeps.analysis.estimates import counting
from xla_sweeps.analysis.measured import Measured, prepare_s
from xla_sweeps.analysis.pool import Key
from xla_sweeps.schema.columns import ModeColumns
from xla_sweeps.schema.measurement import (
    NOT_REACHED,
    UNFINISHED,
    Agreement,
    Failure,
    ModeOutcome,
    Status,
)
from xla_sweeps.schema.modes import mode_of
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import COLUMNS, Figure, ModeSummary, bands_of

_T = TypeVar("_T")

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


def summarize_mode(trial: Measured, figures: Mapping[Key, Figure], label: str) -> ModeSummary:
    """Summarize a mode of a trial, with its columns and why it may have no figures."""
    counted, _ = counting(trial.samples, label)
    status, failure = _mode_status(trial.records, label, measured=bool(counted))
    outcomes = [record.modes[label] for record in trial.counted if label in record.modes]
    agreements = [outcome.agreement for outcome in outcomes if outcome.agreement]
    prepared_s = _median(map(prepare_s, outcomes))
    memory = max(_present(one.steady_memory_bytes or None for one in outcomes), default=None)
    on_gpu = any(record.on_gpu for record in trial.records)
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
            compile_s=prepared_s,
            memory_bytes=memory,
            last_batch_compile_s=_median(outcome.last_batch_compile_s for outcome in outcomes),
            jit_compile=_jit_compile(outcomes),
            start_parts=_start_parts(trial.counted, label),
            cache_bytes=max(_present(one.cache_bytes for one in outcomes), default=None),
            damaged_cache=next((one.damaged_cache for one in outcomes[::-1]), ""),
        ),
        status=status,
        compile_s=_median(outcome.compile_s for outcome in outcomes),
        steady_memory_bytes=memory,
        rmse_rel=largest[0],
        allowed_rel=largest[1],
        agreement_ok=_agrees(agreements) and status is not Status.WRONG_RESULT,
        host_bound_index=_host_bound_index(outcomes)
        if on_gpu and mode_of(label).entry.queues
        else None,
        rounds=sum(map(len, counted)),
        replicates=len(counted),
        failure=failure,
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


def _mode_status(
    records: Sequence[Record], label: str, *, measured: bool
) -> tuple[Status, Failure | None]:
    """A withheld status of any replicate; else ok if any replicate is; else the newest failure.

    Whether a mode computes the same twice is what the newest replicate found that could tell. A
    replicate that tried the mode to its end counts before later ones that did not; the failure of
    one that ended before any mode is its own.
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
    failed = [
        one for one in records if label in one.modes and one.modes[label].status is not Status.OK
    ]
    if failed and not works:
        newest = ([one for one in failed if fails(one.modes[label])] or failed)[-1]
        outcome = newest.modes[label]
        return newest.status if _reached_none(newest) else outcome.status, outcome.failure
    cut = next((record for record in reversed(records) if record.failure), None)
    if cut is not None and not (works and measured):
        return cut.status, cut.failure
    return (Status.OK, None) if works else (Status.SKIPPED, None)


def fails(mode: ModeOutcome | ModeSummary) -> bool:
    """True if a mode was tried to its end and gave no number."""
    is_tried = not (mode.failure and mode.failure.kind == NOT_REACHED)
    return is_tried and mode.status not in (Status.OK, Status.SKIPPED, *UNFINISHED)


def _reached_none(record: Record) -> bool:
    """True if a replicate ended before any of its modes, so that its failure is that of all."""
    failures = [outcome.failure for outcome in record.modes.values()]
    return record.failure is not None and all(one and one.kind == NOT_REACHED for one in failures)


def _median(values: Iterable[float | None]) -> float | None:
    present = _present(values)
    return statistics.median(present) if present else None


def _present(values: Iterable[_T | None]) -> list[_T]:
    return [value for value in values if value is not None]
