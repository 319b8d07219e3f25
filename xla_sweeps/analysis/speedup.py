"""One candidate against one baseline of a trial: the comparison row. Pure."""

from __future__ import annotations

import math
import re
import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xla_sweeps.analysis.contrast import contrast
from xla_sweeps.analysis.estimates import (
    Samples,
    Seconds,
    break_even,
    counting,
    judge,
    log_ratios,
    over_replicates,
    variance_budget,
    within_replicates,
)
from xla_sweeps.analysis.pool import MIN_FLOOR, MIN_REPLICATES, UNKNOWN, Pool, Prior
from xla_sweeps.schema import options
from xla_sweeps.schema.columns import (
    FailureColumns,
    ModeColumns,
    ProvenanceColumns,
    SpeedupColumns,
    TrialColumns,
    Verdict,
)
from xla_sweeps.schema.measurement import Failure, Phase, Status
from xla_sweeps.schema.overrides import overrides
from xla_sweeps.schema.record import ModelFacts, Record
from xla_sweeps.schema.row import ComparisonRow, ModeSummary
from xla_sweeps.schema.trial import (
    JIT_CANDIDATES,
    baseline_of,
    headline_candidates,
    is_aa_pair,
    mode_of,
)

HOST_BOUND_INDEX = 0.9

_TOO_FEW_ROUNDS = Failure(
    phase=Phase.MEASURE, kind="too_few_rounds", message="too few rounds were measured"
)

EXTRA_S = ("compile_s_extra", "compile_s_extra_low", "compile_s_extra_high")

_SWITCH = re.compile(r"(XLA|TF|ONEDNN|OMP|KMP|MKL|CUDA|CUDNN|NVIDIA)_[A-Z0-9_]+")
"""Variables that a row's command may set: a record is a file that anyone may have written."""

BREAK_EVEN = ("break_even_calls", "break_even_low", "break_even_high")


def comparison_pairs(labels: Sequence[str]) -> list[tuple[str, str]]:
    """(baseline, candidate) of every comparison: the headline's first, then against eager."""
    if len(labels) < 2:
        return []
    baseline = baseline_of(labels)
    pairs = [(baseline, candidate) for candidate in headline_candidates(labels)]
    if "eager" in labels:
        pairs += [("eager", label) for label in labels if label != "eager"]
    return list(dict.fromkeys(pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all rows of a trial share."""

    trial: TrialColumns
    provenance: ProvenanceColumns
    flags: tuple[str, ...]


def shared_of(records: Sequence[Record], model: ModelFacts, *, also: Sequence[str] = ()) -> Shared:
    """What all rows of a trial share: model, device, flags, provenance.

    Args:
        records: those that count, at least one.
        model: as built.
        also: further flags.
    """
    first, last = records[0], records[-1]
    return Shared(
        trial=TrialColumns(
            trial_id=first.trial_id,
            family=model.family,
            variant=model.variant,
            model=model.name,
            source=model.source,
            task=model.task,
            resolution_px=model.resolution_px,
            batch_size=batch_size_of(first),
            precision=str(first.config.get("precision", "")),
            scenario=options.name_of(first.config.get("scenario")),
            effort=options.name_of(first.config.get("effort")),
            modes=",".join(map(str, first.config.get("modes") or ())),
            device=str(first.device.get("name", "")),
            params=model.params,
            macs=model.macs,
            macs_at_least=model.macs_at_least,
            effective_precision=model.precision,
            eager_is_graph=model.eager_is_graph,
            replica_of=model.replica_of,
            request_id=last.request_id,
        ),
        provenance=ProvenanceColumns(
            **telemetry_of(records),
            measured_at=last.started_at,
            software=software_of(last),
            driver=driver_of(last),
            environment_flags=flags_of(last),
            environment_id=str(last.environment.get("id", "")),
            host=str(last.environment.get("host", "")),
            log=last.log,
            command=command_of(last),
        ),
        flags=tuple(sorted({*_flags(records), *also})),
    )


def batch_size_of(record: Record) -> int:
    """Samples of one call."""
    return int(record.config.get("batch_size") or 1)


def compare(
    samples: Sequence[Samples],
    modes: Mapping[str, ModeSummary],
    baseline: str,
    candidate: str,
    *,
    pool: Pool,
    shared: Shared,
) -> ComparisonRow:
    """The row of one candidate against one baseline.

    Args:
        samples: of each replicate.
        modes: all modes of the trial, by label.
        baseline: label of the baseline mode.
        candidate: label of the candidate mode.
        pool: what other trials of the device and effort say.
        shared: `shared_of`.
    """
    first, second = modes[baseline], modes[candidate]
    failed = next((mode for mode in (second, first) if mode.status is not Status.OK), None)
    counted, contaminated = counting(samples, baseline, candidate)
    within = [wide for wide, _ in within_replicates(log_ratios(counted))]
    failure = failed.failure if failed else None if within else _TOO_FEW_ROUNDS
    value = None
    if within and not failed:
        value = math.exp(statistics.fmean(interval.estimate for interval in within))
    budget = variance_budget(within)
    prior = UNKNOWN if contaminated else pool.prior(baseline, candidate)
    floor = pool.floor(shared.provenance.host)
    costs = _costs(first, second)
    labels = list(modes)
    return ComparisonRow(
        trial=shared.trial,
        headline=baseline == baseline_of(labels) and candidate in headline_candidates(labels),
        candidate=_mode_columns(second),
        baseline=_mode_columns(first),
        speedup=SpeedupColumns(
            **_ratio(value, first, second),
            **_judgement(
                value, budget, costs, first, replicates=len(within), floor=floor, prior=prior
            ),
            rounds=sum(map(len, counted)),
            **_across([] if failed or contaminated else counted, baseline, candidate),
            floor_across=pool.floor_across(shared.provenance.host),
            **budget,
            **costs,
            raw=None if failed else _raw(samples, baseline, candidate),
            sustained=_sustained(value, first, second),
            cv_percent=second.cv_percent,
        ),
        status=failed.status if failed else _status(bool(within), contaminated=contaminated),
        flags=shared.flags,
        failure=FailureColumns(
            mode=failed.label if failed else "",
            message=failure.message if failure else "",
            hint=failure.hint if failure else "",
        ),
        provenance=shared.provenance,
    )


def alone(samples: Sequence[Samples], mode: ModeSummary, *, shared: Shared) -> ComparisonRow:
    """The row of a trial with a single mode: its throughput, without a baseline."""
    counted, contaminated = counting(samples, mode.label)
    measured = bool(counted) and mode.status is Status.OK
    status = _status(bool(counted), contaminated=contaminated)
    failure = mode.failure or (None if counted else _TOO_FEW_ROUNDS)
    return ComparisonRow(
        trial=shared.trial,
        headline=True,
        candidate=_mode_columns(mode),
        baseline=ModeColumns(mode=""),
        speedup=SpeedupColumns(
            verdict=Verdict.NONE if measured else Verdict.FAILED,
            preliminary=len(counted) < MIN_REPLICATES,
            floor=MIN_FLOOR,
            replicates=len(counted),
            rounds=sum(map(len, counted)),
            host_bound=(mode.host_bound_index or 0.0) > HOST_BOUND_INDEX,
            cv_percent=mode.cv_percent,
        ),
        status=status if mode.status is Status.OK else mode.status,
        flags=shared.flags,
        failure=FailureColumns()
        if measured
        else FailureColumns(
            mode=mode.label,
            message=failure.message if failure else "",
            hint=failure.hint if failure else "",
        ),
        provenance=shared.provenance,
    )


def _status(measured: bool, *, contaminated: bool) -> Status:
    if not measured:
        return Status.SKIPPED
    return Status.CONTAMINATED if contaminated else Status.OK


def _mode_columns(mode: ModeSummary) -> ModeColumns:
    throughput, call = mode.throughput_samples_per_s, mode.call_ms
    return ModeColumns(
        mode=mode.label,
        throughput_samples_per_s=throughput.value if throughput else None,
        throughput_low=throughput.low if throughput else None,
        throughput_high=throughput.high if throughput else None,
        call_ms=call.value if call else None,
        call_low_ms=call.low if call else None,
        call_high_ms=call.high if call else None,
        latency_p50_ms=mode.latency_p50_ms,
        latency_p90_ms=mode.latency_p90_ms,
        latency_p99_ms=mode.latency_p99_ms,
    )


def _costs(baseline: ModeSummary, candidate: ModeSummary) -> dict[str, Any]:
    """What the candidate costs before it pays back, and in memory."""
    extra = _extra_s(baseline, candidate)
    each = [
        second - first
        for first, second in zip(baseline.prepare_s, candidate.prepare_s, strict=True)
        if first is not None and second is not None
    ]
    each += [] if extra is None else [extra]
    peaks = (baseline.peak_memory_bytes, candidate.peak_memory_bytes)
    waits = max(baseline.host_bound_index or 0.0, candidate.host_bound_index or 0.0)
    return {
        "compile_s_extra": extra,
        "compile_s_extra_low": min(each, default=None),
        "compile_s_extra_high": max(each, default=None),
        "peak_memory_ratio": peaks[1] / peaks[0] if peaks[0] and peaks[1] else None,
        "host_bound": waits > HOST_BOUND_INDEX,
    }


def _sustained(value: float | None, baseline: ModeSummary, candidate: ModeSummary) -> float | None:
    """The speedup of the modes each alone and for long."""
    if value is None or not baseline.sustained or not candidate.sustained:
        return None
    return value * baseline.sustained.value / candidate.sustained.value


def _ratio(value: float | None, baseline: ModeSummary, candidate: ModeSummary) -> dict[str, Any]:
    rates = (baseline.throughput_samples_per_s, candidate.throughput_samples_per_s)
    known = value is not None and rates[0] and rates[1]
    return {
        "value": value,
        "percent": None if value is None else 100 * (value - 1),
        "absolute_samples_per_s": rates[1].value - rates[0].value
        if known and rates[0] and rates[1]
        else None,
    }


def _judgement(
    value: float | None,
    budget: Mapping[str, float | None],
    costs: Mapping[str, float | None],
    baseline: ModeSummary,
    *,
    replicates: int,
    floor: float,
    prior: Prior,
) -> dict[str, Any]:
    """The columns that depend on other trials, and the number of replicates."""
    known: dict[str, Any] = {
        "floor": floor,
        "verdict": Verdict.FAILED,
        "preliminary": replicates < MIN_REPLICATES,
        "replicates": replicates,
    }
    if value is None:
        return known
    numbers = {name: np.array([found], dtype=float) for name, found in budget.items()}
    found = judge(
        np.array([value]),
        **numbers,
        replicates=np.array([replicates]),
        priors=np.array([prior]),
        floor=np.array([floor]),
    )
    names = ("low", "high", "low_90", "high_90", "freedom", "p_value")
    figures = {name: float(getattr(found, name)[0]) for name in names}
    call_ms = baseline.call_ms.value if baseline.call_ms else math.nan
    calls = break_even(
        found,
        np.array([value]),
        extra_s=np.array([[costs[name] for name in EXTRA_S]], dtype=float),
        baseline_s=np.array([call_ms / 1e3]),
    )
    figures |= {name: float(item[0]) for name, item in zip(BREAK_EVEN, calls, strict=True)}
    return {
        **known,
        "verdict": found.verdict[0],
        **{name: None if math.isnan(figure) else figure for name, figure in figures.items()},
    }


def _across(counted: Sequence[Seconds], baseline: str, candidate: str) -> dict[str, Any]:
    """An A/A pair across processes: the baseline in every second one over its copy in the others.

    Nothing pairs the two, so drift and what differs between processes are in it. Empty for other
    pairs, and for fewer than three replicates a side.
    """
    if not is_aa_pair(baseline, candidate) or len(counted) < 2 * MIN_REPLICATES:
        return {}
    copies = [np.log(call_s[:, 1]) for call_s in counted[1::2]]
    found = contrast(copies, [np.log(call_s[:, 0]) for call_s in counted[::2]], floor=0.0)
    if found is None:
        return {}
    interval = found.interval
    names = ("aa_across", "aa_across_low", "aa_across_high")
    return dict(
        zip(names, np.exp([interval.estimate, interval.low, interval.high]).tolist(), strict=True)
    )


def _raw(samples: Sequence[Samples], baseline: str, candidate: str) -> float | None:
    """The speedup over all rounds of all replicates; None where no replicate is contaminated."""
    if not any(item.contaminated for item in samples):
        return None
    every, _ = counting(samples, baseline, candidate, contaminated=True)
    interval = over_replicates([wide for wide, _ in within_replicates(log_ratios(every))])
    return math.exp(interval.estimate) if interval else None


def _extra_s(baseline: ModeSummary, candidate: ModeSummary) -> float | None:
    """What preparing the candidate costs more: its trace and first call less the baseline's."""
    if baseline.first_call_s is None or candidate.first_call_s is None:
        return None
    return (
        (candidate.trace_s or 0.0)
        + candidate.first_call_s
        - (baseline.trace_s or 0.0)
        - baseline.first_call_s
    )


def _flags(records: Sequence[Record]) -> tuple[str, ...]:
    flags = {flag for record in records for flag in record.flags}
    if any(record.status is Status.CONTAMINATED for record in records):
        flags.add(str(Status.CONTAMINATED))
    return tuple(sorted(flags))


_NAMES = {"tensorflow": "TensorFlow", "keras": "Keras", "cuda": "CUDA", "cudnn": "cuDNN"}


def software_of(record: Record) -> str:
    """The versions that were loaded: `TensorFlow 2.21.0, Keras 3.15.1, CUDA 12.5.1`.

    CUDA's only on a GPU.
    """
    loaded = {
        **(record.environment.get("packages") or {}),
        **(record.environment.get("loaded") or {}),
    }
    names = list(_NAMES) if record.device.get("kind") == "gpu" else ["tensorflow", "keras"]
    return ", ".join(f"{_NAMES[name]} {loaded[name]}" for name in names if loaded.get(name))


def driver_of(record: Record) -> str:
    """The accelerator driver's version, or ""."""
    driver = record.environment.get("driver") or {}
    return str(driver.get("driver") or "")


def flags_of(record: Record) -> str:
    """Environment variables that change what is measured: `XLA_FLAGS=...`, joined by blanks."""
    flags = record.environment.get("flags") or {}
    return " ".join(f"{name}={value}" for name, value in sorted(flags.items()))


def command_of(record: Record) -> str:
    """The shell command that measures the trial again, after the variables that change XLA."""
    flags = record.environment.get("flags") or {}
    variables = [
        f"{name}={shlex.quote(str(value))}"
        for name, value in sorted(flags.items())
        if _SWITCH.fullmatch(name)
    ]
    words = _words_of(record) if record.words is None else record.words
    return " ".join([*variables, "python -m xla_sweeps", *map(shlex.quote, words)])


def _words_of(record: Record) -> list[str]:
    """The arguments of an early record's command, which did not keep them.

    Without keys of `effort.` and without `--config-dir`: it does not tell which were given.
    """
    config = record.config
    words: dict[str, Any] = {}
    for option in options.OPTIONS:
        value = config.get(option.name)
        value = options.name_of(value) if option.in_files or option.choices else value
        is_shown = option.name in ("model", "source") or value not in (option.default, None, "")
        if is_shown and option.defines_trial and option.name not in ("jit", "modes"):
            words[option.name] = value
    if words.get("source") == "local":
        words["model"] = words.pop("source")
    if record.environment.get("driver") and config.get("device") not in (None, "gpu:0"):
        words["device"] = config["device"]  # there are GPUs, and it is not the first
    modes = [str(mode_of(str(label))) for label in config.get("modes") or ()]
    implied = {
        jit: list(dict.fromkeys(["eager", "graph", str(mode)]))
        for jit, mode in JIT_CANDIDATES.items()
    }
    jit = next((jit for jit, listed in implied.items() if listed == modes), None)
    plain = [f"jit={jit}"] if jit else []
    words |= {"modes": modes} if modes and not jit else {}
    return [*overrides(words), *plain]


def telemetry_of(records: Sequence[Record]) -> dict[str, Any]:
    """Clock, temperature, and other processes' share while the trial was measured.

    Medians or extremes over records.

    Returns:
        `sm_clock_mhz_low`, `sm_clock_mhz_high` (MHz), `temperature_high` (°C): None without a GPU;
        `foreign_cores`: cores that other processes used, the most of any record.
    """
    facts = [record.contamination for record in records if record.contamination]
    clocks = [_pair(fact.get("gpu_sm_mhz")) for fact in facts]
    heat = [_pair(fact.get("gpu_celsius")) for fact in facts]
    known = [
        float(fact["foreign_cores"])
        for fact in facts
        if isinstance(fact.get("foreign_cores"), int | float)
    ]
    return {
        "sm_clock_mhz_low": min((pair[0] for pair in clocks if pair), default=None),
        "sm_clock_mhz_high": max((pair[1] for pair in clocks if pair), default=None),
        "temperature_high": max((pair[1] for pair in heat if pair), default=None),
        "foreign_cores": max(known, default=None),
    }


def _pair(value: Any) -> tuple[float, float] | None:
    return (
        (float(value[0]), float(value[1]))
        if isinstance(value, list | tuple) and len(value) == 2
        else None
    )
