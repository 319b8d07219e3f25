"""The words of a comparison: what one mode came to, one candidate against one baseline, a whole trial.

The row is what `results`, W&B and the dashboards share; its field names are its column names.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import get_args, get_type_hints

from xla_sweeps.schema.measurement import Failure, Status
from xla_sweeps.schema.record import ModelFacts

STATISTICS_VERSION = 1
"""Of the estimates and verdicts that are derived from records."""

MEASURED, IMPORTED = "measured", "imported"
"""Where a row comes from; the second is a flag too."""


class Verdict(StrEnum):
    """What a comparison came to."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUIVALENT = "equivalent"
    AMBIGUOUS = "ambiguous"
    FAILED = "failed"
    """The candidate or the baseline gave no number, or its numbers are withheld."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A positive figure with its 95 % confidence interval.

    Low and high are None where none can be given.
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSummary:
    """One execution mode of one trial, over all its replicates.

    Attributes:
        throughput_samples_per_s: images per second over blocks of back-to-back calls, one
            synchronization each.
        latency_ms: one call, from the same blocks (batch_size / throughput).
        latency_p50_ms: median of the latency pass (a synchronization after every call); p90
            likewise.
        latency_p99_ms: only from at least 1000 calls, else None.
        host_bound_index: enqueue time / synced time, median over blocks; None on a CPU, where calls
            do not queue.
        rmse_rel, top1_match: the worst over replicates.
        cv_percent: coefficient of variation of the undisturbed blocks, percent, the worst process.
    """

    label: str
    status: Status
    throughput_samples_per_s: Estimate | None
    latency_ms: Estimate | None
    latency_p50_ms: float | None
    latency_p90_ms: float | None
    latency_p99_ms: float | None
    trace_s: float | None
    first_call_s: float | None
    compile_s: float | None
    peak_memory_bytes: int | None
    rmse_rel: float | None
    top1_match: float | None
    agreement_ok: bool | None
    host_bound_index: float | None
    rounds: int
    replicates: int
    failure: Failure | None
    cv_percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One candidate against one baseline within a trial: the row that `results`, W&B and the page share.

    Attributes:
        speedup: baseline latency / candidate latency; above 1 the candidate is faster.
        preliminary: fewer than three replicates.
        floor: the smallest relative difference that is called one (0.01: 1 %).
        within_percent: standard error of one process's estimate from its own rounds, percent of the
            speedup.
        between_percent: standard deviation of the estimates of different processes, percent; None
            for one process.
        compile_s_extra: what preparing the candidate (trace and first call) costs more than the
            baseline, seconds.
        break_even_calls: calls after which that is paid back; None where it never is.
        peak_memory_ratio: candidate / baseline.
        eager_is_graph: whether eager calls run a restored graph, so that they compare with no Keras
            model's eager.
        replica_of: the published model's handle, where this is a copy of its architecture with
            random weights.
        speedup_raw: the estimate with disturbed rounds left in, where the trial is contaminated.
        status: of the candidate, or of the baseline where that is what failed.
        failed_mode: label of the mode that failed, or "".
        failure_hint: what to do about it, or "".
        p_value: how likely an estimate so far past the floor is where the true difference lies
            within it; below 0.05 exactly where the verdict is faster or slower. None where there is
            no interval.
        speedup_low_90, speedup_high_90: the speedup's interval at 90 %, which decides equivalence.
        cv_percent: coefficient of variation of the candidate's undisturbed blocks, percent, the
            worst process. sm_clock_mhz_low, sm_clock_mhz_high, temperature_high: the GPU while
            measured (MHz, MHz, °C); None on a CPU.
        foreign_cores: cores that other processes used meanwhile, the most of any process.
        origin: `measured`, or `imported` for published figures: single measurements without an
            interval.
        statistics_version: of the estimates and verdicts, which are derived anew on each reading.
        note: what to know about an imported figure, or "".
        request_id: of what was asked for, whatever device and versions measured it.
        measured_at: when its last process started, ISO 8601.
        software, driver, environment_flags, host: what measured it.
        log: the last process's log, relative to the results folder.
        command: what a person would type to measure it again (overridden keys of `effort.` and
            `timeouts.` left out).
    """

    trial_id: str
    family: str
    variant: str
    model: str
    source: str
    task: str
    resolution_px: int
    batch_size: int
    precision: str
    scenario: str
    effort: str
    device: str
    candidate: str
    baseline: str
    headline: bool
    throughput_samples_per_s: float | None
    throughput_low: float | None
    throughput_high: float | None
    baseline_throughput_samples_per_s: float | None
    baseline_throughput_low: float | None
    baseline_throughput_high: float | None
    latency_ms: float | None
    latency_low_ms: float | None
    latency_high_ms: float | None
    baseline_latency_ms: float | None
    baseline_latency_low_ms: float | None
    baseline_latency_high_ms: float | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    speedup_percent: float | None
    absolute_speedup_samples_per_s: float | None
    verdict: Verdict
    preliminary: bool
    floor: float
    replicates: int
    rounds: int
    within_percent: float | None
    between_percent: float | None
    compile_s_extra: float | None
    break_even_calls: float | None
    peak_memory_ratio: float | None
    host_bound: bool
    status: Status
    flags: tuple[str, ...]
    params: int | None
    macs: int | None
    speedup_raw: float | None
    failure_message: str
    failed_mode: str = ""
    eager_is_graph: bool = False
    replica_of: str = ""
    failure_hint: str = ""
    p_value: float | None = None
    speedup_low_90: float | None = None
    speedup_high_90: float | None = None
    cv_percent: float | None = None
    sm_clock_mhz_low: float | None = None
    sm_clock_mhz_high: float | None = None
    temperature_high: float | None = None
    foreign_cores: float | None = None
    origin: str = MEASURED
    note: str = ""
    request_id: str = ""
    measured_at: str = ""
    software: str = ""
    driver: str = ""
    environment_flags: str = ""
    host: str = ""
    log: str = ""
    command: str = ""
    statistics_version: int = STATISTICS_VERSION

    @classmethod
    def columns(cls) -> dict[str, type]:
        """The plain type of each column, in order: str, bool, int or float.

        Texts of a closed set and flags are str.

        Every column but the identifying ones may also hold None.
        """
        hints = get_type_hints(cls)
        types = {
            field.name: get_args(hints[field.name]) or (hints[field.name],) for field in fields(cls)
        }
        return {
            name: next((kind for kind in (bool, int, float) if kind in found), str)
            for name, found in types.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """All that is known of one trial: its modes and their comparisons, headline first."""

    trial_id: str
    model: ModelFacts
    device: str
    batch_size: int
    replicates: int
    flags: tuple[str, ...]
    modes: tuple[ModeSummary, ...]
    comparisons: tuple[ComparisonRow, ...]
