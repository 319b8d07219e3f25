"""What is done with records that are there: show and export comparison rows, and send runs to W&B."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xla_sweeps import analysis, drift, imported, row_table
from xla_sweeps import where as filters
from xla_sweeps.comparison import ComparisonRow, TrialSummary
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.record import Record
from xla_sweeps.store import Store
from xla_sweeps.terminal.progress import Progress
from xla_sweeps.terminal.screen import displayable
from xla_sweeps.terminal.tables import show_rows
from xla_sweeps.trackers import RunHeader, run_header, wandb


def load(
    results_dir: Path, *, only: Collection[str] | None = None, missing_ok: bool = False
) -> tuple[dict[str, list[Record]], dict[str, TrialSummary]]:
    """Records and summaries of a results folder, by trial; what cannot be read is warned about.

    Args:
        results_dir: the folder.
        only: summarize these trials alone.
        missing_ok: whether a folder without records is empty rather than an error.

    Raises:
        StoreError: there is no such folder, or no record in it.
    """
    if not (results_dir / "records").is_dir():
        raise StoreError(f"{results_dir} holds no records; measure first: python -m xla_sweeps model=NAME")
    loaded = Store(results_dir).load()
    with Progress(ui="quiet") as screen:
        for problem in loaded.problems:
            screen.warn(problem)
    if not loaded.records and not missing_ok:
        raise StoreError(f"{results_dir} holds no readable record")
    spans = drift.drifting(record for group in loaded.records.values() for record in group if drift.is_anchor(record))
    if spans:
        loaded = replace(
            loaded, records={trial: drift.flagged(group, spans) for trial, group in loaded.records.items()}
        )
    everything = [record for group in loaded.records.values() for record in group]
    floors = {
        name: analysis.floor_for(everything, name)
        for name in {str(record.device.get("name", "")) for record in everything}
    }
    summaries = {
        trial: analysis.summarize(group, floor=floors[str(group[0].device.get("name", ""))])
        for trial, group in loaded.records.items()
        if only is None or trial in only
    }
    return loaded.records, summaries


def rows_of(results_dir: Path) -> list[ComparisonRow]:
    """Every comparison row of a results folder, measured and imported.

    Raises:
        StoreError: it holds neither records nor imports.
    """
    published, problems = imported.load(results_dir)
    with Progress(ui="quiet") as screen:
        for problem in problems:
            screen.warn(problem)
    if published and not (results_dir / "records").is_dir():
        return published
    _, summaries = load(results_dir, missing_ok=bool(published))
    return [row for summary in summaries.values() for row in summary.comparisons] + published


def add_published(file: Path, results_dir: Path, *, label: str | None) -> int:
    """Import published figures and say what came of it."""
    done = imported.add(file, results_dir, label=label)
    with Progress(ui="quiet") as screen:
        for warning in done.warnings:
            screen.warn(f"{file}, {warning}")
    compared = sum(row.speedup is not None for row in done.rows)
    verb = "replaced" if done.replaced else "wrote"
    print(
        f"{done.figures} figures of {len({row.model for row in done.rows})} models: {len(done.rows)} rows, {compared} "
        f"of them with a speedup over eager; {verb} {done.path}"
    )
    return 0


def show(results_dir: Path, *, form: str, output: Path | None, every: bool, where: str | None = None) -> int:
    """Comparison rows as a table, CSV, JSON or Parquet; the headline ones, or every baseline.

    Args:
        results_dir: the folder.
        form: `table`, `csv`, `json` or `parquet`.
        output: a file to write to, instead of standard output.
        every: whether to show every baseline.
        where: a filter (`where.compile`).
    """
    if form == "parquet" and output is None:
        raise ConfigError("results: --format parquet needs a file: -o rows.parquet")
    is_meant = filters.compile(where) if where is not None else None
    rows = [row for row in rows_of(results_dir) if every or row.headline]
    if is_meant:
        found = [row for row in rows if is_meant(analysis.row_dict(row))]
        if not found:
            print(f"none of the {len(rows)} rows is meant by: {displayable(where)}", file=sys.stderr)
        rows = found
    rows.sort(key=lambda row: (row.family, row.model, row.resolution_px, row.batch_size, row.candidate, row.baseline))
    if form == "table" and output is None:
        if rows:
            show_rows(rows)
        return 0
    if form == "parquet" and output is not None:
        write_parquet(rows, output)
    else:
        documents = [analysis.row_dict(row) for row in rows]
        write_text(
            json.dumps(documents, indent=1) + "\n" if form == "json" else csv_text(documents, analysis.COLUMNS), output
        )
    return 0


def write_text(text: str, output: Path | None) -> None:
    """To a file, or to standard output.

    Raises:
        StoreError: the file cannot be written.
    """
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {output}: {error.strerror or error}") from error


def push(results_dir: Path, *, project: str | None, entity: str | None, force: bool) -> int:
    """Send runs that W&B does not have; exit code 1 where one could not be sent."""
    wandb.require_api_key(os.environ)
    records, summaries = load(results_dir)
    trials = [
        (header_of(results_dir, group[0], project=project, entity=entity), group, summaries[trial])
        for trial, group in records.items()
    ]
    report = wandb.push(trials, log=results_dir / "wandb" / "push.log", force=force)
    print(f"W&B: {report.sent} sent, {report.already} there already, {len(report.failed)} failed")
    with Progress(ui="quiet") as screen:
        for line in report.failed:
            screen.warn(line)
    return 1 if report.failed else 0


def header_of(results_dir: Path, record: Record, *, project: str | None, entity: str | None) -> RunHeader:
    """The header of a recorded trial's run, as it was when it was measured unless told otherwise."""
    header = run_header(
        record.config, trial_id=record.trial_id, device_kind=str(record.device.get("kind", "")),
        device_name=str(record.device.get("name", "")), results_dir=results_dir,
    )  # fmt: skip
    return replace(header, project=project or header.project, entity=entity or header.entity)


def csv_text(documents: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """CSV with stable columns; texts that a spreadsheet would take for a formula are quoted with an apostrophe."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    for document in documents:
        writer.writerow(
            {
                key: f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value
                for key, value in document.items()
            }
        )
    return buffer.getvalue()


def write_parquet(rows: Sequence[ComparisonRow], output: Path) -> None:
    """Rows as a Parquet file.

    Raises:
        StoreError: it cannot be written.
    """
    import pyarrow.parquet

    try:
        pyarrow.parquet.write_table(row_table.table_of(rows), output)
    except OSError as error:
        raise StoreError(f"cannot write {output}: {error.strerror or error}") from error
