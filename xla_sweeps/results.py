"""What is done with records that are there: show and export comparison rows, and send runs to W&B."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Collection
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from xla_sweeps import analysis, drift
from xla_sweeps.comparison import ComparisonRow, TrialSummary
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.record import Record
from xla_sweeps.store import Store
from xla_sweeps.terminal.progress import Progress
from xla_sweeps.terminal.tables import show_rows
from xla_sweeps.trackers import RunHeader, run_header, wandb

COLUMNS = tuple(field.name for field in fields(ComparisonRow))


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


def show(results_dir: Path, *, form: str, output: Path | None, every: bool) -> int:
    """Comparison rows as a table, CSV, JSON or Parquet; the headline ones, or every baseline."""
    _, summaries = load(results_dir)
    rows = [row for summary in summaries.values() for row in summary.comparisons if every or row.headline]
    rows.sort(key=lambda row: (row.family, row.model, row.resolution_px, row.batch_size, row.candidate, row.baseline))
    if form == "table" and output is None:
        show_rows(rows)
        return 0
    documents = [analysis.row_dict(row) for row in rows]
    if form == "parquet":
        if output is None:
            raise ConfigError("results: --format parquet needs a file: -o rows.parquet")
        write_parquet(documents, output)
        return 0
    text = json.dumps(documents, indent=1) + "\n" if form == "json" else _csv(documents)
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
    return 0


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


def _csv(documents: list[dict[str, Any]]) -> str:
    """CSV with stable columns; texts that a spreadsheet would take for a formula are quoted with an apostrophe."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for document in documents:
        writer.writerow(
            {
                key: f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value
                for key, value in document.items()
            }
        )
    return buffer.getvalue()


def write_parquet(documents: list[dict[str, Any]], output: Path) -> None:
    """Rows as a Parquet file.

    Raises:
        StoreError: it cannot be written.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(documents), output)
    except OSError as error:
        raise StoreError(f"cannot write {output}: {error.strerror or error}") from error
