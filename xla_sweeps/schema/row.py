"""Results of a trial: one mode, one candidate against one baseline (a row), the whole trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from typing import Any, get_args, get_type_hints

from xla_sweeps.schema.measurement import Failure, Status
from xla_sweeps.schema.record import ModelFacts

STATISTICS_VERSION = 1
"""Of the estimates and verdicts that are derived from records."""

MEASURED, IMPORTED = "measured", "imported"
"""Where a row comes from; the second is a flag too."""


class Verdict(StrEnum):
    """The result of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUIVALENT = "equivalent"
    AMBIGUOUS = "ambiguous"
    FAILED = "failed"
    """The candidate or the baseline gave no number, or its numbers are withheld."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A positive figure with its 95 % confidence interval; low and high may be None."""

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
        cv_percent: coefficient of variation of the uncontaminated blocks, percent, the worst
            replicate's.
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


@dataclass(frozen=True, slots=True)
class Column:
    """A column of comparison rows: declared once, by a field of `ComparisonRow`.

    Attributes:
        kind: str, bool, int or float. Words of a closed set and flags are str; texts are never
            missing, and of the numbers only those that identify a trial never are.
        unit: "" for none.
        meaning: for docs/results.md.
        page: whether the local page gets it.
        wandb: whether the table of the W&B report has it.
    """

    name: str
    kind: type
    unit: str
    meaning: str
    page: bool
    wandb: bool


def _column(
    meaning: str,
    *,
    unit: str = "",
    page: bool = False,
    wandb: bool = False,
    default: Any = MISSING,
) -> Any:
    facts = {"meaning": meaning, "unit": unit, "page": page, "wandb": wandb}
    return field(default=default, metadata=facts)


def _number(meaning: str, *, unit: str, page: bool = False, wandb: bool = False) -> Any:
    """A number that may be missing."""
    return _column(meaning, unit=unit, page=page, wandb=wandb, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One candidate against one baseline of a trial: what `results`, W&B and the page share.

    Each field is a column, and its only declaration: the Parquet schema, the filter, the page, the
    W&B table and docs/results.md are made from `COLUMNS`.
    """

    trial_id: str = _column(
        "sixteen hex digits, shared by the rows of one trial; replicates with the same one "
        "are pooled",
        page=True,
        wandb=True,
    )
    family: str = _column("the model's family", page=True, wandb=True)
    variant: str = _column("the model's variant", page=True, wandb=True)
    model: str = _column("the model's name in the catalog", page=True, wandb=True)
    source: str = _column("applications, keras_cv, keras_hub, hub, local", page=True, wandb=True)
    task: str = _column("classification, detection, segmentation, …", page=True)
    resolution_px: int = _column(
        "side of the square input; 0 where the model takes something else",
        unit="px",
        page=True,
        wandb=True,
    )
    batch_size: int = _column("samples of one call", unit="samples", page=True, wandb=True)
    precision: str = _column("float32, mixed_float16, mixed_bfloat16", page=True, wandb=True)
    scenario: str = _column("call, detect", page=True, wandb=True)
    effort: str = _column("quick, standard, publish", page=True)
    device: str = _column("the device's name, as its driver reports it", page=True, wandb=True)
    candidate: str = _column(
        "the mode compared: eager, default, graph, xla, autocluster; a second copy ends in `_2`",
        page=True,
        wandb=True,
    )
    baseline: str = _column("the mode it is compared with", page=True, wandb=True)
    headline: bool = _column("whether this is the trial's main comparison", page=True)
    throughput_samples_per_s: float | None = _number(
        "throughput of the candidate, from blocks of back-to-back calls",
        unit="samples/s",
        page=True,
        wandb=True,
    )
    throughput_low: float | None = _number(
        "lower bound of its 95 % interval", unit="samples/s", page=True, wandb=True
    )
    throughput_high: float | None = _number(
        "upper bound of its 95 % interval", unit="samples/s", page=True, wandb=True
    )
    baseline_throughput_samples_per_s: float | None = _number(
        "throughput of the baseline, from blocks of back-to-back calls",
        unit="samples/s",
        page=True,
        wandb=True,
    )
    baseline_throughput_low: float | None = _number(
        "lower bound of its 95 % interval", unit="samples/s", page=True
    )
    baseline_throughput_high: float | None = _number(
        "upper bound of its 95 % interval", unit="samples/s", page=True
    )
    latency_ms: float | None = _number(
        "one call of the candidate, from the same blocks (batch_size / throughput)", unit="ms"
    )
    latency_low_ms: float | None = _number("lower bound of its 95 % interval", unit="ms")
    latency_high_ms: float | None = _number("upper bound of its 95 % interval", unit="ms")
    baseline_latency_ms: float | None = _number(
        "one call of the baseline, from the same blocks (batch_size / throughput)", unit="ms"
    )
    baseline_latency_low_ms: float | None = _number("lower bound of its 95 % interval", unit="ms")
    baseline_latency_high_ms: float | None = _number("upper bound of its 95 % interval", unit="ms")
    speedup: float | None = _number(
        "baseline latency / candidate latency, paired; above 1 the candidate is faster",
        unit="ratio",
        page=True,
        wandb=True,
    )
    speedup_low: float | None = _number(
        "lower bound of its 95 % interval", unit="ratio", page=True, wandb=True
    )
    speedup_high: float | None = _number(
        "upper bound of its 95 % interval", unit="ratio", page=True, wandb=True
    )
    speedup_percent: float | None = _number("100 × (speedup - 1)", unit="%", wandb=True)
    absolute_speedup_samples_per_s: float | None = _number(
        "the candidate's throughput less the baseline's", unit="samples/s", wandb=True
    )
    verdict: Verdict = _column(
        "faster, slower, equivalent, ambiguous, failed", page=True, wandb=True
    )
    preliminary: bool = _column("fewer than three replicates", page=True, wandb=True)
    floor: float = _column(
        "the smallest relative difference that counts: 0.01 is 1 %",
        unit="relative",
        page=True,
        wandb=True,
    )
    replicates: int = _column(
        "how many replicates (processes) measured it", unit="replicates", page=True, wandb=True
    )
    rounds: int = _column("rounds behind the speedup", unit="rounds", page=True)
    within_percent: float | None = _number(
        "standard error of one replicate's estimate, from its own rounds", unit="%", page=True
    )
    between_percent: float | None = _number(
        "standard deviation of the replicates' estimates; missing for one", unit="%", page=True
    )
    compile_s_extra: float | None = _number(
        "extra time to prepare the candidate (trace and first call) over the baseline",
        unit="s",
        page=True,
        wandb=True,
    )
    break_even_calls: float | None = _number(
        "calls after which that time is paid back; missing where it never is",
        unit="calls",
        page=True,
        wandb=True,
    )
    peak_memory_ratio: float | None = _number(
        "candidate / baseline", unit="ratio", page=True, wandb=True
    )
    host_bound: bool = _column("the device waits for the host", page=True)
    status: Status = _column("ok, contaminated, or why there is no number", page=True, wandb=True)
    flags: tuple[str, ...] = _column("caveats, separated by blanks", page=True, wandb=True)
    params: int | None = _number(
        "parameters, moving statistics included", unit="1", page=True, wandb=True
    )
    macs: int | None = _number(
        "multiply-accumulates of one sample", unit="1", page=True, wandb=True
    )
    speedup_raw: float | None = _number(
        "the speedup with contaminated rounds included, where the trial is contaminated",
        unit="ratio",
    )
    failure_message: str = _column("why the failed mode failed", page=True, wandb=True, default="")
    failed_mode: str = _column("the mode that failed", page=True, default="")
    eager_is_graph: bool = _column(
        "eager calls run a saved graph, so they do not compare with a Keras model's eager",
        page=True,
        default=False,
    )
    replica_of: str = _column(
        "the published model whose architecture this is, with random weights", default=""
    )
    failure_hint: str = _column("what to do about the failure", page=True, default="")
    p_value: float | None = _number(
        "of the speedup against the floor; below 0.05 exactly where the verdict is faster "
        "or slower",
        unit="1",
        page=True,
    )
    speedup_low_90: float | None = _number(
        "lower bound of the 90 % interval, which decides equivalence", unit="ratio"
    )
    speedup_high_90: float | None = _number("upper bound of the 90 % interval", unit="ratio")
    cv_percent: float | None = _number(
        "coefficient of variation of the candidate's uncontaminated blocks, the worst replicate's",
        unit="%",
        page=True,
    )
    sm_clock_mhz_low: float | None = _number(
        "lowest clock of the GPU while measured; missing on a CPU",
        unit="MHz",
        page=True,
    )
    sm_clock_mhz_high: float | None = _number(
        "highest clock of the GPU while measured; missing on a CPU",
        unit="MHz",
        page=True,
    )
    temperature_high: float | None = _number(
        "highest temperature of the GPU while measured; missing on a CPU",
        unit="°C",
        page=True,
    )
    foreign_cores: float | None = _number(
        "cores that other processes used meanwhile, the most of any replicate",
        unit="cores",
        page=True,
    )
    origin: str = _column(
        "measured, or imported: published figures without an interval", page=True, default=MEASURED
    )
    note: str = _column("caveats of an imported figure", page=True, default="")
    request_id: str = _column(
        "sixteen hex digits of the request, whatever device and versions measured it", default=""
    )
    measured_at: str = _column(
        "start of the last replicate, ISO 8601", unit="ISO 8601", page=True, default=""
    )
    software: str = _column(
        "versions of TensorFlow and Keras, and of CUDA on a GPU", page=True, default=""
    )
    driver: str = _column("version of the accelerator's driver", page=True, default="")
    environment_flags: str = _column(
        "environment variables that change XLA or TensorFlow", page=True, default=""
    )
    host: str = _column("the machine, as a hash", page=True, default="")
    log: str = _column(
        "log of the last replicate, relative to the results folder", page=True, default=""
    )
    command: str = _column(
        "command that measures it again (without keys of `effort.` and `timeouts.`)",
        page=True,
        default="",
    )
    statistics_version: int = _column(
        "version of the estimates and verdicts, which are derived again on each reading",
        default=STATISTICS_VERSION,
    )


def _columns() -> dict[str, Column]:
    hints = get_type_hints(ComparisonRow)
    columns = {}
    for item in fields(ComparisonRow):
        types = get_args(hints[item.name]) or (hints[item.name],)
        kind = next((kind for kind in (bool, int, float) if kind in types), str)
        columns[item.name] = Column(name=item.name, kind=kind, **item.metadata)
    return columns


COLUMNS: Mapping[str, Column] = _columns()
"""All columns, in order."""


def row_dict(row: ComparisonRow) -> dict[str, Any]:
    """A row as plain data, by column; flags joined by blanks."""
    document = {name: getattr(row, name) for name in COLUMNS}
    return {
        **document,
        "verdict": str(row.verdict),
        "status": str(row.status),
        "flags": " ".join(row.flags),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """One trial over all its replicates: its modes and their comparisons, headline first."""

    trial_id: str
    model: ModelFacts
    device: str
    batch_size: int
    replicates: int
    flags: tuple[str, ...]
    modes: tuple[ModeSummary, ...]
    comparisons: tuple[ComparisonRow, ...]
