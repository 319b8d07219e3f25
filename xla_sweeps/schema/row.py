"""Results of a trial: one mode, one candidate against one baseline (a row), the whole trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, get_args, get_type_hints

from xla_sweeps.schema.measurement import Failure, Status
from xla_sweeps.schema.record import ModelFacts

STATISTICS_VERSION = 3
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
    NONE = "none"
    """The trial has one mode alone: nothing to compare it with."""


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
        call_ms: one call, from the same blocks (batch_size / throughput).
        latency_p50_ms: median of the latency pass (a synchronization after every call); p90
            likewise.
        latency_p99_ms: only from at least 1000 calls, else None.
        prepare_s: trace and first call of each replicate, seconds; None where one is not known.
        host_bound_index: time to enqueue one call after a synchronization / time of a call in the
            blocks; None on a CPU, where calls do not queue.
        rmse_rel, top1_match: the worst over replicates.
        sustained: time of a call of the mode alone and for long / in turns with the others; above 1
            it is slower.
        cv_percent: coefficient of variation of the uncontaminated blocks, percent, the worst
            replicate's.
    """

    label: str
    status: Status
    throughput_samples_per_s: Estimate | None
    call_ms: Estimate | None
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
    prepare_s: tuple[float | None, ...] = ()
    sustained: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of comparison rows: declared once, by a field of a part of `ComparisonRow`.

    Attributes:
        path: of attributes, from the row: `speedup.low`.
        kind: str, bool, int or float. Words of a closed set and flags are str; texts are never
            missing, and of the numbers only those that identify a trial never are.
        unit: "" for none.
        meaning: for docs/results.md.
        page: whether the local page gets it.
        wandb: whether the table of the W&B report has it.
    """

    name: str
    path: str
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
    name: str = "",
    default: Any = MISSING,
) -> Any:
    facts = {"meaning": meaning, "unit": unit, "page": page, "wandb": wandb, "name": name}
    return field(default=default, metadata=facts)


def _number(
    meaning: str, *, unit: str, page: bool = False, wandb: bool = False, name: str = ""
) -> Any:
    """A number that may be missing."""
    return _column(meaning, unit=unit, page=page, wandb=wandb, name=name, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialColumns:
    """What was measured."""

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
    modes: str = _column("all modes of the trial: eager,graph,xla", page=True, default="")
    device: str = _column("the device's name, as its driver reports it", page=True, wandb=True)
    params: int | None = _number(
        "parameters, moving statistics included", unit="1", page=True, wandb=True
    )
    macs: int | None = _number(
        "multiply-accumulates of one sample", unit="1", page=True, wandb=True
    )
    macs_at_least: bool = _column(
        "how often a loop runs is not known: `macs` counts its body once",
        page=True,
        default=False,
    )
    effective_precision: str = _column(
        "types of the operands that it multiplies, by their share of `macs`, as XLA writes them: "
        "`f32`, `bf16 98 %, f32 2 %`",
        default="",
    )
    eager_is_graph: bool = _column(
        "eager calls run a saved graph, so they do not compare with a Keras model's eager",
        page=True,
        default=False,
    )
    replica_of: str = _column(
        "the published model whose architecture this is, with random weights", default=""
    )
    request_id: str = _column(
        "sixteen hex digits of the request, whatever device and versions measured it", default=""
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeColumns:
    """One of the two modes that are compared; columns of the baseline begin with `baseline_`."""

    mode: str = _column(
        "eager, default, graph, xla, autocluster; a second copy ends in `_2`; empty for the "
        "baseline of a mode that was measured alone",
        page=True,
        wandb=True,
    )
    throughput_samples_per_s: float | None = _number(
        "throughput, from blocks of back-to-back calls",
        unit="samples/s",
        page=True,
        wandb=True,
    )
    throughput_low: float | None = _number(
        "lower bound of its 95 % interval; missing for fewer than three replicates",
        unit="samples/s",
        page=True,
        wandb=True,
    )
    throughput_high: float | None = _number(
        "upper bound of its 95 % interval", unit="samples/s", page=True, wandb=True
    )
    call_ms: float | None = _number(
        "one call, from the same blocks (batch_size / throughput)", unit="ms"
    )
    call_low_ms: float | None = _number(
        "lower bound of its 95 % interval; missing for fewer than three replicates", unit="ms"
    )
    call_high_ms: float | None = _number("upper bound of its 95 % interval", unit="ms")
    latency_p50_ms: float | None = _number(
        "median time of one call with a synchronization after it (the latency pass)",
        unit="ms",
        page=True,
        wandb=True,
    )
    latency_p90_ms: float | None = _number(
        "90 % of these calls took at most so long", unit="ms", page=True, wandb=True
    )
    latency_p99_ms: float | None = _number("99 %; only from at least 1,000 calls", unit="ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupColumns:
    """The candidate against the baseline."""

    value: float | None = _number(
        "baseline latency / candidate latency, paired; above 1 the candidate is faster",
        unit="ratio",
        page=True,
        wandb=True,
        name="speedup",
    )
    low: float | None = _number(
        "lower bound of its 95 % interval", unit="ratio", page=True, wandb=True, name="speedup_low"
    )
    high: float | None = _number(
        "upper bound of its 95 % interval", unit="ratio", page=True, wandb=True, name="speedup_high"
    )
    low_90: float | None = _number(
        "lower bound of the 90 % interval, which decides equivalence",
        unit="ratio",
        name="speedup_low_90",
    )
    high_90: float | None = _number(
        "upper bound of the 90 % interval", unit="ratio", name="speedup_high_90"
    )
    percent: float | None = _number(
        "100 × (speedup - 1)", unit="%", wandb=True, name="speedup_percent"
    )
    absolute_samples_per_s: float | None = _number(
        "the candidate's throughput less the baseline's",
        unit="samples/s",
        wandb=True,
        name="absolute_speedup_samples_per_s",
    )
    raw: float | None = _number(
        "the speedup over all rounds of all replicates, where a replicate is contaminated",
        unit="ratio",
        name="speedup_raw",
    )
    sustained: float | None = _number(
        "the speedup of the modes each alone for `effort.sustained_s`, on an accelerator",
        unit="ratio",
        name="speedup_sustained",
    )
    verdict: Verdict = _column(
        "faster, slower, equivalent, ambiguous, failed; none where a mode was measured alone",
        page=True,
        wandb=True,
    )
    preliminary: bool = _column("fewer than three replicates", page=True, wandb=True)
    freedom: float | None = _number(
        "degrees of freedom of the interval; missing where it holds within the processes only: "
        "fewer than three replicates, and no other trials say how processes differ",
        unit="1",
        page=True,
        wandb=True,
    )
    floor: float = _column(
        "the smallest relative difference that counts: 0.01 is 1 %",
        unit="relative",
        page=True,
        wandb=True,
    )
    aa_across: float | None = _number(
        "A/A of six replicates or more: the baseline in every second process over its copy in the "
        "others",
        unit="ratio",
        page=True,
    )
    aa_across_low: float | None = _number(
        "lower bound of its 95 % interval", unit="ratio", page=True
    )
    aa_across_high: float | None = _number(
        "upper bound of its 95 % interval", unit="ratio", page=True
    )
    floor_across: float = _column(
        "the smallest relative difference between processes that counts, in `compare` and for "
        "`aa_across`",
        unit="relative",
        page=True,
        default=0.01,
    )
    p_value: float | None = _number(
        "of the speedup against the floor; below 0.05 exactly where the verdict is faster "
        "or slower; missing where `freedom` is",
        unit="1",
        page=True,
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
    compile_s_extra_low: float | None = _number("the least of any replicate", unit="s")
    compile_s_extra_high: float | None = _number("the most of any replicate", unit="s")
    break_even_calls: float | None = _number(
        "calls after which that time is paid back; missing unless the verdict is faster",
        unit="calls",
        page=True,
        wandb=True,
    )
    break_even_low: float | None = _number(
        "the same at the upper end of the speedup's interval, with the least extra time",
        unit="calls",
        page=True,
        wandb=True,
    )
    break_even_high: float | None = _number(
        "the same at the lower end of the speedup's interval, with the most extra time",
        unit="calls",
        page=True,
        wandb=True,
    )
    peak_memory_ratio: float | None = _number(
        "the most memory in steady calls, weights included, by the device's allocator: candidate / "
        "baseline",
        unit="ratio",
        page=True,
        wandb=True,
    )
    host_bound: bool = _column("the device waits for the host", page=True)
    cv_percent: float | None = _number(
        "coefficient of variation of the candidate's uncontaminated blocks, the worst replicate's",
        unit="%",
        page=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureColumns:
    """Why there is no speedup; empty texts where there is one."""

    mode: str = _column("the mode that failed", page=True, default="", name="failed_mode")
    message: str = _column(
        "why the failed mode failed", page=True, wandb=True, default="", name="failure_message"
    )
    hint: str = _column("what to do about the failure", page=True, default="", name="failure_hint")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceColumns:
    """Where the figures come from."""

    origin: str = _column(
        "measured, or imported: published figures without an interval", page=True, default=MEASURED
    )
    note: str = _column("caveats of an imported figure", page=True, default="")
    measured_at: str = _column(
        "start of the last replicate, ISO 8601", unit="ISO 8601", page=True, default=""
    )
    software: str = _column(
        "versions of TensorFlow and Keras, and of CUDA on a GPU", page=True, default=""
    )
    driver: str = _column("version of the accelerator's driver", page=True, default="")
    environment_flags: str = _column(
        "environment variables that change what is measured", page=True, default=""
    )
    environment_id: str = _column(
        "eight hex digits of device, CPU, libraries and these variables: only trials with the same "
        "learn from each other; empty in older records",
        default="",
    )
    host: str = _column("the machine, as a hash", page=True, default="")
    log: str = _column(
        "log of the last replicate, relative to the results folder", page=True, default=""
    )
    command: str = _column(
        "command that measures it again; an early record does not tell keys of `effort.`",
        page=True,
        default="",
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
    statistics_version: int = _column(
        "version of the estimates and verdicts, which are derived again on each reading",
        default=STATISTICS_VERSION,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One candidate against one baseline of a trial: what `results`, W&B and the page share.

    A mode that was measured alone has a row too, with an empty baseline.

    Each field of a part is a column, and its only declaration: the Parquet schema, the filter, the
    page, the W&B table and docs/results.md are made from `COLUMNS`.
    """

    trial: TrialColumns
    headline: bool = _column("whether this is the trial's main comparison", page=True)
    candidate: ModeColumns
    baseline: ModeColumns
    speedup: SpeedupColumns
    status: Status = _column("ok, contaminated, or why there is no number", page=True, wandb=True)
    flags: tuple[str, ...] = _column("caveats, separated by blanks", page=True, wandb=True)
    failure: FailureColumns = field(default_factory=FailureColumns)
    provenance: ProvenanceColumns = field(default_factory=ProvenanceColumns)


_PARTS: Mapping[str, Any] = {
    name: kind for name, kind in get_type_hints(ComparisonRow).items() if is_dataclass(kind)
}


def _columns() -> Iterator[Column]:
    own = get_type_hints(ComparisonRow)
    for part in fields(ComparisonRow):
        if part.name not in _PARTS:
            yield _column_of(part, own[part.name], part.name, part.name)
            continue
        kind, label = own[part.name], part.name
        hints = get_type_hints(kind)
        for item in fields(kind):
            name = item.metadata["name"] or item.name
            if kind is ModeColumns:
                prefix = "baseline_" if label == "baseline" else ""
                name = label if item.name == "mode" else f"{prefix}{name}"
            column = _column_of(item, hints[item.name], name, f"{part.name}.{item.name}")
            yield (
                replace(column, meaning=f"{label}: {column.meaning}")
                if kind is ModeColumns
                else column
            )


def _column_of(item: Field[Any], hint: Any, name: str, path: str) -> Column:
    types = get_args(hint) or (hint,)
    kind = next((kind for kind in (bool, int, float) if kind in types), str)
    facts = {key: value for key, value in item.metadata.items() if key != "name"}
    return Column(name=name, path=path, kind=kind, **facts)


COLUMNS: Mapping[str, Column] = {column.name: column for column in _columns()}
"""All columns, in order."""

_GETTERS = {name: attrgetter(column.path) for name, column in COLUMNS.items()}


def value_of(row: ComparisonRow, column: str) -> Any:
    """The value of a column."""
    return _GETTERS[column](row)


def row_dict(row: ComparisonRow) -> dict[str, Any]:
    """A row as plain data, by column; flags joined by blanks."""
    document = {name: get(row) for name, get in _GETTERS.items()}
    return {
        **document,
        "verdict": str(document["verdict"]),
        "status": str(document["status"]),
        "flags": " ".join(document["flags"]),
    }


def row_of(document: Mapping[str, Any]) -> ComparisonRow:
    """The row that `row_dict` made plain."""
    parts: dict[str, Any] = {}
    for name, column in COLUMNS.items():
        value = document[name]
        part, _, inner = column.path.partition(".")
        if inner:
            parts.setdefault(part, {})[inner] = value
        else:
            parts[part] = value
    flags = parts["flags"]
    parts["flags"] = tuple(flags.split()) if isinstance(flags, str) else tuple(flags)
    parts["status"] = Status(parts["status"])
    parts["speedup"]["verdict"] = Verdict(parts["speedup"]["verdict"])
    made = {part: kind(**parts[part]) for part, kind in _PARTS.items()}
    return ComparisonRow(**{**parts, **made})


def with_columns(row: ComparisonRow, **changes: Any) -> ComparisonRow:
    """The row with other values in these columns."""
    unknown = changes.keys() - COLUMNS.keys()
    if unknown:
        raise ValueError(f"no column {', '.join(sorted(unknown))}")
    return row_of({**row_dict(row), **changes})


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
