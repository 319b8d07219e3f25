"""Contents of a trial's run, for any tracker: history rows, summary keys, histograms, notes, logs.

All numbers are finite.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xla_sweeps.report.advice import answer
from xla_sweeps.report.markdown import escape
from xla_sweeps.schema.columns import STATISTICS_VERSION
from xla_sweeps.schema.comparisons import baseline_of, by_role, headline_candidates
from xla_sweeps.schema.measurement import Round, Status
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.record import GpuSpan, Record
from xla_sweeps.schema.row import ComparisonRow, TrialSummary, value_of
from xla_sweeps.system.files import read_regular
from xla_sweeps.system.text import displayable, redact
from xla_sweeps.trial.tracking import RunHeader

LOG_CHARACTERS = 256 * 1024
NOTES_CHARACTERS = 4000

REPLICATES_KEY = "xla_sweeps_replicates"
"""Summary key with the number of replicates in a run; `push` compares it with the records."""

_COLUMNS = (
    *("speedup", "speedup_low", "speedup_high", "speedup_percent", "excluded_above"),
    *("latency_speedup", "latency_speedup_low", "latency_speedup_high"),
    *("replicates_to_settle", "joules_per_sample", "baseline_joules_per_sample", "idle_watts"),
    *("baseline", "candidate", "latency_p50_ms", "latency_p90_ms", "break_even_calls"),
)

_COLUMN_OF = {
    "throughput": "throughput_samples_per_s",
    "absolute_speedup": "absolute_speedup_samples_per_s",
    **dict(zip(_COLUMNS, _COLUMNS, strict=True)),
}
"""The column of the headline row that a summary key holds."""

TELEMETRY = ("foreign_cores", "gpu_watts", "gpu_mhz")
"""Keys of a round on request; their extremes are in the summary, with `_min` and `_max`."""

SUMMARY_KEYS = (
    *("status", "failure", REPLICATES_KEY, "statistics_version", *_COLUMN_OF),
    *("verdict", "speedup_log2", "speedup_vs_eager", "compile_s", "params_million", "gmacs"),
    *(f"{name}_{end}" for name in TELEMETRY for end in ("min", "max")),
    *("Throughput (samples/sec)", "Num parameters (million)", "FLOPs (giga)"),
)
"""All summary keys but `throughput_<mode>` and the histograms; outdated ones are removed."""

COMMAND_MARK = "Measured by:\n\n    "
"""What is before the command in the notes of a run, which tells them from somebody's own."""

ROUND_KEYS = ("replicate", "contaminated", "speedup_round")
"""Keys of a round beside `<mode>/call_ms` and `<mode>/throughput`."""


def run_content(
    header: RunHeader, records: Sequence[Record], summary: TrialSummary | None, *, exit_code: int
) -> dict[str, Any]:
    """Everything in a finished run: history rows, summary, histograms, notes, logs, exit code."""
    samples, rows = summary.trial.samples if summary else 1, list[dict[str, Any]]()
    for record in records:
        gpu, modes = record.gpu if header.tracker.telemetry else None, record.trial.modes
        rows += history_rows(
            record.replicate, record.rounds, batch_size=samples, modes=modes, gpu=gpu
        )
    return {
        "rows": rows,
        "summary": run_summary(records, summary),
        "histograms": histograms(records),
        "notes": run_notes(summary),
        "logs": logs_of(header.results_dir, records),
        "exit_code": exit_code,
    }


def history_rows(
    replicate: int,
    rounds: Sequence[Round],
    *,
    batch_size: int,
    modes: Sequence[str],
    gpu: Sequence[GpuSpan] | None = None,
) -> list[dict[str, Any]]:
    """Call time and throughput of each mode by round, its speedup, and telemetry with `gpu`."""
    rows = []
    for measured in rounds:
        times = {block.mode: block.call_s for block in measured.blocks}
        row: dict[str, Any] = {
            "replicate": replicate,
            "round": measured.round,
            "contaminated": bool(measured.dirty),
        }
        for mode, call_s in times.items():
            row[f"{mode}/call_ms"] = 1e3 * call_s
            row[f"{mode}/throughput"] = batch_size / call_s
        if len(modes) > 1:
            baseline, candidate = baseline_of(modes), headline_candidates(modes)[0]
            if {baseline, candidate} <= set(times):
                row["speedup_round"] = times[baseline] / times[candidate]
        if gpu is not None:
            row |= _telemetry(measured, gpu)
        rows.append(row)
    return rows


def _telemetry(measured: Round, gpu: Sequence[GpuSpan]) -> dict[str, float]:
    """Foreign cores around a round, and power and clock at the end of its Williams design."""
    spans = [span for span in gpu if span.rounds[0] <= measured.round <= span.rounds[1]]
    figures = (
        measured.load and measured.load.foreign_cores,
        *((spans[-1].watts, spans[-1].sm_mhz) if spans else ()),
    )
    return {
        name: value for name, value in zip(TELEMETRY, figures, strict=False) if _is_finite(value)
    }


def _extremes(records: Sequence[Record]) -> dict[str, float]:
    figures: dict[str, list[float]] = {}
    for record in records:
        for measured in record.rounds:
            for name, value in _telemetry(measured, record.gpu).items():
                figures.setdefault(name, []).append(value)
    return {
        f"{name}_{end}": choose(values)
        for name, values in figures.items()
        for end, choose in (("min", min), ("max", max))
    }


def histograms(records: Sequence[Record]) -> dict[str, list[float]]:
    """Latencies of single calls in milliseconds, by `latency_histogram/<mode>`."""
    values: dict[str, list[float]] = {}
    for record in records:
        for mode, outcome in record.modes.items():
            values.setdefault(f"latency_histogram/{mode}", []).extend(
                1e3 * second for second in outcome.latencies_s
            )
    return {name: latencies for name, latencies in values.items() if latencies}


def run_summary(records: Sequence[Record], summary: TrialSummary | None) -> dict[str, Any]:
    """A run's summary, including the keys that the published study used."""
    headline = next((row for row in summary.comparisons if row.headline), None) if summary else None
    keys: dict[str, Any] = {
        "status": _status(records, headline),
        REPLICATES_KEY: summary.replicates if summary else 0,
        "statistics_version": STATISTICS_VERSION,
        **_extremes(records),
    }
    failures = [record.failure.message for record in records if record.failure]
    if headline and headline.failure.message:
        failures.append(headline.failure.message)
    if failures:
        keys["failure"] = failures[-1]
    if summary is None:
        return keys
    keys |= {
        f"throughput_{mode.label}": mode.columns.throughput_samples_per_s or None
        for mode in summary.modes
    }
    if headline is not None:
        keys.update(_headline(headline, summary))
    if summary.model.params is not None:
        keys["params_million"] = keys["Num parameters (million)"] = summary.model.params / 1e6
    if summary.model.macs is not None:
        keys["gmacs"] = keys["FLOPs (giga)"] = summary.model.macs / 1e9
    keys["Throughput (samples/sec)"] = keys.get("throughput")
    return {key: value for key, value in keys.items() if _is_finite(value)}


def result_point(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The headline figures as one row of history, which W&B charts; bars of logs begin at 0."""
    return {
        f"result/{name}": value
        for name, value in keys.items()
        if name in ("speedup_log2", "compile_s") or name.startswith("throughput_")
    }


def logs_of(results_dir: Path, records: Sequence[Record]) -> list[str]:
    """The log of each replicate, below a line with its name; a long one has its end only.

    A record may come from anybody: only the trial's own folder of logs is read, through no link.
    """
    logs = []
    for record in records:
        path, folder = results_dir / record.log, results_dir.resolve() / "logs" / record.trial_id
        with contextlib.suppress(OSError, ValueError):
            if path.resolve() == folder / path.name:
                text = redact(read_regular(path).decode("utf-8", "replace"))
                lines = map(displayable, text[-LOG_CHARACTERS:].splitlines())
                logs.append("\n".join([f"--- {displayable(record.log)}", *lines]))
    return logs


def run_notes(summary: TrialSummary | None) -> str:
    """A trial's answer and its command in Markdown; "" where nothing is compared."""
    rows = [row for row in summary.comparisons if row.headline] if summary else []
    if not rows:
        return ""
    told = escape(" ".join(map(answer, rows)), NOTES_CHARACTERS)
    command = "\n    ".join(map(displayable, rows[0].provenance.command.splitlines()))
    return f"{told}\n\n{COMMAND_MARK}{command}" if command else told


def _headline(row: ComparisonRow, summary: TrialSummary) -> Mapping[str, Any]:
    candidate = next(mode for mode in summary.modes if mode.label == row.candidate.mode)
    eager = by_role(mode.label for mode in summary.modes).get(Mode.EAGER.role, "")
    speedups = {
        (comparison.baseline.mode, comparison.candidate.mode): comparison.speedup.value
        for comparison in summary.comparisons
    }
    speedup = row.speedup.value
    return {
        **{key: value_of(row, column) for key, column in _COLUMN_OF.items()},
        "verdict": str(row.speedup.verdict),
        "speedup_log2": math.log2(speedup) if speedup else None,
        "speedup_vs_eager": speedups.get((eager, row.candidate.mode)),
        "compile_s": candidate.compile_s,
    }


def _status(records: Sequence[Record], headline: ComparisonRow | None) -> str:
    """The trial's status: the headline's if there are results, else that of the last replicate."""
    statuses = [record.status for record in records]
    if not statuses or statuses[-1] is Status.INTERRUPTED:
        return str(Status.INTERRUPTED)
    if headline is not None and (Status.OK in statuses or Status.CONTAMINATED in statuses):
        return str(headline.status)
    return str(Status.OK if Status.OK in statuses else statuses[-1])


def _is_finite(value: Any) -> bool:
    return value not in (None, "") and not (isinstance(value, float) and not math.isfinite(value))
