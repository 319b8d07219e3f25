"""Columns of comparison rows, by what they tell of: modes, speedup, failure, provenance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from xla_sweeps.schema.column import Asked, Part, as_bound, as_column, as_number

STATISTICS_VERSION = 9
"""Version of the estimates and verdicts that are derived from records."""


MEASURED, IMPORTED = "measured", "imported"
"""Origins of a row; the second is a flag too."""

RESULT, AA_TAG, ANCHOR_TAG = "result", "aa", "anchor"
"""Purposes of a trial; the last two are tags of those by which a sweep tests itself."""


class Verdict(StrEnum):
    """The result of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUIVALENT = "equivalent"
    AMBIGUOUS = "ambiguous"
    FAILED = "failed"
    """The candidate gave no number, or its numbers are withheld; the baseline ran."""
    NOT_MEASURED = "not_measured"
    """The candidate was not reached or interrupted, or the baseline gave no number."""
    NONE = "none"
    """The trial has one mode alone: nothing to compare it with."""

    @property
    def is_clear(self) -> bool:
        """True if further replicates are not needed to settle it."""
        return self in (Verdict.FASTER, Verdict.SLOWER, Verdict.EQUIVALENT)

    @property
    def is_missing(self) -> bool:
        """True if there is no speedup where one was asked for."""
        return self in (Verdict.FAILED, Verdict.NOT_MEASURED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeColumns:
    """One of the two modes that are compared; columns of the baseline begin with `baseline_`."""

    mode: str = as_column(
        "one of the scenario's [modes](options.md#the-modes-of-each-scenario); a second copy ends "
        "in `_2`; empty for the baseline of a mode that was measured alone",
        on_page=True,
        asked=Asked(part=Part.SIDES),
    )
    throughput_samples_per_s: float | None = as_number(
        "throughput, from blocks of back-to-back calls with one synchronization; what filling and "
        "draining the device's queue takes is left out",
        figure="call",
        unit="samples/s",
        on_page=True,
    )
    throughput_low: float | None = as_bound("lower", on_page=True)
    throughput_high: float | None = as_bound("upper", on_page=True)
    call_ms: float | None = as_number(
        "one call, from the same blocks (samples / throughput)", figure="call", unit="ms"
    )
    call_low_ms: float | None = as_bound("lower")
    call_high_ms: float | None = as_bound("upper")
    copy_input_ms: float | None = as_number(
        "copying a call's input from NumPy to the device, alone; missing where it is there already",
        figure="copy_input",
        unit="ms",
    )
    copy_input_low_ms: float | None = as_bound("lower")
    copy_input_high_ms: float | None = as_bound("upper")
    copy_output_ms: float | None = as_number(
        "copying a call's output to NumPy, alone; missing where it stays on the device",
        figure="copy_output",
        unit="ms",
    )
    copy_output_low_ms: float | None = as_bound("lower")
    copy_output_high_ms: float | None = as_bound("upper")
    joules_per_sample: float | None = as_number(
        "energy that the device used for a sample while the mode ran alone, all that it draws "
        "included; missing where `energy` says why",
        figure="energy",
        unit="J",
        on_page=True,
    )
    joules_per_sample_low: float | None = as_bound("lower", on_page=True)
    joules_per_sample_high: float | None = as_bound("upper", on_page=True)
    compile_s: float | None = as_number(
        "time to prepare the mode: trace and first call; the median over replicates",
        unit="s",
        on_page=True,
    )
    memory_bytes: float | None = as_number(
        "the most memory in steady calls, weights included, by the device's allocator",
        unit="bytes",
        on_page=True,
    )
    last_batch_compile_s: float | None = as_number(
        "compiling for the last, smaller batch of an epoch, a part of compile_s; missing where all "
        "batches are of one size",
        unit="s",
    )
    start_parts: str = as_column(
        "median seconds of a cold start's parts, `interpreter=0.5 import=4.1 …`, or of the calls "
        "of new shapes, `b32=1.4 b32_later=0.03 …`",
        default="",
    )
    cache_bytes: int | None = as_number("the compiler's cache on disk", unit="bytes")
    damaged_cache: str = as_column(
        "a start whose warm cache is damaged: answers, or its failure", default=""
    )
    input_share: float | None = as_number(
        "the input pipeline alone takes this share of the mode's time; in scenario `fit`",
        figure="input_share",
        unit="ratio",
        on_page=True,
    )
    input_share_low: float | None = as_bound("lower")
    input_share_high: float | None = as_bound("upper")
    latency_p50_ms: float | None = as_number(
        "median time of one call with a synchronization after it",
        figure="latency_p50",
        unit="ms",
        on_page=True,
    )
    latency_p50_low_ms: float | None = as_bound("lower")
    latency_p50_high_ms: float | None = as_bound("upper")
    latency_p90_ms: float | None = as_number(
        "90th percentile of these calls", figure="latency_p90", unit="ms", on_page=True
    )
    latency_p90_low_ms: float | None = as_bound("lower")
    latency_p90_high_ms: float | None = as_bound("upper")
    latency_p99_ms: float | None = as_number(
        "99th percentile; given from 1,000 calls on", figure="latency_p99", unit="ms"
    )
    latency_p99_low_ms: float | None = as_bound("lower")
    latency_p99_high_ms: float | None = as_bound("upper")
    jit_compile: str = as_column(
        "whether XLA compiles it, read back after the first call, since Keras may choose: true, "
        "false; empty where nothing says so",
        on_page=True,
        default="",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupColumns:
    """The candidate against the baseline."""

    value: float | None = as_number(
        "baseline_call_ms / call_ms, paired by round: many calls with one synchronization, so the "
        "ratio of throughputs; above 1 the candidate is faster",
        unit="ratio",
        on_page=True,
        name="speedup",
    )
    low: float | None = as_bound("lower", on_page=True, name="speedup_low")
    high: float | None = as_bound("upper", on_page=True, name="speedup_high")
    low_90: float | None = as_number(
        "lower bound of the 90 % interval, which decides equivalence",
        unit="ratio",
        name="speedup_low_90",
    )
    high_90: float | None = as_number(
        "upper bound of the 90 % interval", unit="ratio", name="speedup_high_90"
    )
    percent: float | None = as_number("100 × (speedup - 1)", unit="%", name="speedup_percent")
    absolute_samples_per_s: float | None = as_number(
        "the baseline's throughput × (speedup - 1)",
        unit="samples/s",
        on_page=True,
        name="absolute_speedup_samples_per_s",
    )
    raw: float | None = as_number(
        "the speedup over all rounds of all replicates, where a replicate is contaminated",
        unit="ratio",
        name="speedup_raw",
    )
    sustained: float | None = as_number(
        "the speedup of the modes each alone for `effort.sustained_s`, on an accelerator",
        unit="ratio",
        name="speedup_sustained",
    )
    verdict: Verdict = as_column(
        "faster, slower, equivalent, ambiguous; failed: the candidate, where the baseline ran; "
        "not_measured: no speedup for another reason; none: a mode was measured alone",
        on_page=True,
    )
    latency: float | None = as_number(
        "the same of single calls, each with a synchronization: of latency",
        unit="ratio",
        on_page=True,
        name="latency_speedup",
    )
    latency_low: float | None = as_bound("lower", on_page=True, name="latency_speedup_low")
    latency_high: float | None = as_bound("upper", on_page=True, name="latency_speedup_high")
    latency_verdict: str = as_column(
        "the verdict on latency_speedup; empty without one", on_page=True, default=""
    )
    excluded_above: float | None = as_number(
        "larger differences are excluded at 95 %: the farther end of the 90 % interval",
        unit="relative",
        on_page=True,
    )
    replicates_to_settle: float | None = as_number(
        "about how many more replicates would settle an ambiguous verdict; 101 for more than 100",
        unit="replicates",
        on_page=True,
    )
    floor: float = as_column(
        "the smallest relative difference that counts: 0.01 is 1 %",
        unit="relative",
        on_page=True,
    )
    aa_across: float | None = as_number(
        "A/A of six replicates or more: the baseline in every second process over its copy in the "
        "others",
        unit="ratio",
        on_page=True,
    )
    aa_across_low: float | None = as_bound("lower", on_page=True)
    aa_across_high: float | None = as_bound("upper", on_page=True)
    floor_across: float = as_column(
        "the smallest relative difference between processes that counts, in `compare` and for "
        "`aa_across`",
        unit="relative",
        on_page=True,
        default=0.01,
    )
    p_value: float | None = as_number(
        "p-value of the speedup against the floor; below 0.05 exactly where the verdict is faster "
        "or slower",
        unit="1",
        on_page=True,
    )
    replicates: int = as_column(
        "how many replicates (processes) measured it", unit="replicates", on_page=True
    )
    rounds: int = as_column("rounds behind the speedup", unit="rounds", on_page=True)
    within_percent: float | None = as_number(
        "standard error of one replicate's estimate, from its own rounds", unit="%", on_page=True
    )
    between_percent: float | None = as_number(
        "standard deviation of the replicates' estimates; missing for one", unit="%", on_page=True
    )
    estimates: str = as_column(
        "log of the speedup of each replicate, separated by blanks; empty where nothing was "
        "compared",
        default="",
        name="replicate_log_speedups",
    )
    errors: str = as_column(
        "standard error of each of these, from the replicate's own rounds",
        default="",
        name="replicate_log_errors",
    )
    compile_s_extra: float | None = as_number(
        "extra time to prepare the candidate (trace and first call) over the baseline",
        unit="s",
        on_page=True,
    )
    compile_s_extra_low: float | None = as_bound("lower")
    compile_s_extra_high: float | None = as_bound("upper")
    break_even_calls: float | None = as_number(
        "calls after which that time is paid back; missing unless the verdict is faster",
        unit="calls",
        on_page=True,
    )
    break_even_low: float | None = as_bound("lower", on_page=True)
    break_even_high: float | None = as_bound("upper", on_page=True)
    peak_memory_ratio: float | None = as_number(
        "the most memory in steady calls, weights included, by the device's allocator: candidate / "
        "baseline",
        figure="memory",
        unit="ratio",
        on_page=True,
    )
    peak_memory_ratio_low: float | None = as_bound("lower")
    peak_memory_ratio_high: float | None = as_bound("upper")
    host_bound: bool = as_column(
        "the device waits for the host: enqueuing takes over 90 % of the candidate's single call",
        on_page=True,
    )
    cv_percent: float | None = as_number(
        "coefficient of variation of the candidate's uncontaminated blocks within a replicate",
        unit="%",
        on_page=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureColumns:
    """Reason for a missing speedup; empty texts where there is one."""

    mode: str = as_column("the mode that failed", on_page=True, default="", name="failed_mode")
    message: str = as_column(
        "why the failed mode failed", on_page=True, default="", name="failure_message"
    )
    hint: str = as_column(
        "what to do about the failure", on_page=True, default="", name="failure_hint"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceColumns:
    """Provenance of the figures."""

    origin: str = as_column(
        "measured, or imported: published figures without an interval",
        on_page=True,
        default=MEASURED,
        asked=Asked(part=Part.SIDES),
    )
    purpose: str = as_column(
        "why it was measured: result; or aa or anchor, by which a sweep tests itself: `results` "
        "has those rows only where its filter names this column, and never as a headline",
        default=RESULT,
    )
    note: str = as_column("caveats of an imported figure", on_page=True, default="")
    measured_at: str = as_column(
        "start of the last replicate, ISO 8601", unit="ISO 8601", on_page=True, default=""
    )
    software: str = as_column(
        "versions of TensorFlow and Keras, and of CUDA on a GPU", on_page=True, default=""
    )
    driver: str = as_column("version of the accelerator's driver", on_page=True, default="")
    commit: str = as_column(
        "commit of the checkout of xla_sweeps, with `+dirty` where its files differed; empty "
        "outside one",
        on_page=True,
        default="",
    )
    environment_flags: str = as_column(
        "environment variables that change what is measured", on_page=True, default=""
    )
    environment_id: str = as_column(
        "eight hex digits of device, CPU, libraries and these variables: only trials with the same "
        "one, and the same `runtime`, learn from each other",
        default="",
    )
    host: str = as_column("the machine, as a hash", on_page=True, default="")
    replicate_s: float | None = as_number(
        "wall time of a replicate, on average", unit="s", on_page=True
    )
    log: str = as_column(
        "log of the last replicate, relative to the results folder", on_page=True, default=""
    )
    command: str = as_column("command that measures it again", on_page=True, default="")
    sm_clock_mhz_low: float | None = as_number(
        "lowest clock of the GPU while measured; missing on a CPU", unit="MHz", on_page=True
    )
    sm_clock_mhz_high: float | None = as_number(
        "highest clock of the GPU while measured; missing on a CPU", unit="MHz", on_page=True
    )
    temperature_high: float | None = as_number(
        "highest temperature of the GPU while measured; missing on a CPU", unit="°C", on_page=True
    )
    energy: str = as_column(
        "the energy counter that was read: GPU, CPU package; or not available, and why; empty "
        "where `effort.energy_s` is 0",
        on_page=True,
        default="",
    )
    idle_watts: float | None = as_number(
        "power of the device that this counter gives before the modes run alone, with all of them "
        "loaded",
        figure="idle_power",
        unit="W",
        on_page=True,
    )
    idle_watts_low: float | None = as_bound("lower")
    idle_watts_high: float | None = as_bound("upper")
    watts_high: float | None = as_number(
        "highest power of the GPU while measured, of all modes; missing on a CPU",
        unit="W",
        on_page=True,
    )
    foreign_cores: float | None = as_number(
        "cores that other processes used meanwhile, the most of any replicate",
        unit="cores",
        on_page=True,
    )
    statistics_version: int = as_column(
        "version of the estimates and verdicts, which are derived again on each reading",
        default=STATISTICS_VERSION,
    )
