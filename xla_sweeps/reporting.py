"""The command `report`: from a results folder to a W&B report, a saved workspace and a summary run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import operator
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xla_sweeps import __version__, analysis, dashboarding, imported, report_text, results
from xla_sweeps.comparison import ComparisonRow, TrialSummary
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.overview import overview
from xla_sweeps.record import Record
from xla_sweeps.trackers import report as tracker
from xla_sweeps.trackers import wandb

TABLE_ROWS = 10_000
TABLE_COLUMNS = (
    "model", "family", "variant", "source", "resolution_px", "batch_size", "precision", "scenario", "device",
    "candidate", "baseline", "verdict", "speedup", "speedup_low", "speedup_high", "throughput_samples_per_s",
    "throughput_low", "throughput_high", "baseline_throughput_samples_per_s", "speedup_percent",
    "absolute_speedup_samples_per_s", "compile_s_extra", "break_even_calls", "peak_memory_ratio",
    "params", "macs", "replicates", "preliminary",
    "floor", "status", "flags", "failure_message", "trial_id",
)  # fmt: skip
PROJECT = "xla-sweeps"


def report(
    results_dir: Path,
    *,
    entity: str | None,
    project: str | None,
    dry_run: bool,
    output: Path | None,
) -> int:
    """Write the report to W&B, or with `dry_run` its JSON to a file or standard output.

    Args:
        results_dir: the results folder.
        entity: owner of the project (default: as recorded, else W&B's default).
        project: name of the project (default: as recorded).
        dry_run: ask nobody, need no account.
        output: file for the JSON of a dry run.

    Raises:
        XlaSweepsError: something is missing, or W&B did not take it.
    """
    tracker.require_extra()
    if output is not None and not dry_run:
        raise ConfigError("report: -o takes the JSON of --dry-run; without --dry-run the report goes to W&B")
    if not dry_run:
        wandb.require_api_key(os.environ)
    records, summaries = results.load(results_dir)
    entity, project = _place(records, entity, project)
    log = results_dir / "wandb" / "report.log"
    if dry_run:
        plan = plan_document(records, summaries, entity=entity or "", project=project, unsent=0, project_runs=None)
        with _writing(log.parent):
            spec = tracker.spec(plan, log=log)
        results.write_text(json.dumps(spec, indent=1, ensure_ascii=False) + "\n", output)
        return 0
    unsent = _unsent(results_dir, records, entity, project)
    rows = _table_rows(summaries)
    with _writing(log.parent):
        published = tracker.publish(
            lambda owner, runs: plan_document(
                records, summaries, entity=owner, project=project, unsent=unsent, project_runs=runs
            ),
            entity=entity, project=project, table=rows, attachments=_files(results_dir, summaries, log.parent), log=log,
        )  # fmt: skip
    print(f"report     {published.report} ({'updated' if published.updated else 'new'})")
    print(f"workspace  {published.workspace}")
    print(f"summary    {published.run}")
    if not published.run_confirmed:
        print("warning: W&B does not show the summary run's table; the same command sends it again if it has to",
              file=sys.stderr)  # fmt: skip
    if unsent:
        print(f"warning: {unsent:,} of {len(records):,} trials are not known to be on W&B: the panels lack them until "
              "`xla-sweeps push`", file=sys.stderr)  # fmt: skip
    return 0 if published.run_confirmed else 1


def plan_document(
    records: Mapping[str, Sequence[Record]],
    summaries: Mapping[str, TrialSummary],
    *,
    entity: str,
    project: str,
    unsent: int,
    project_runs: int | None,
) -> dict[str, Any]:
    """All that report, workspace and summary run say, as plain data.

    Args:
        records: of each trial.
        summaries: of each trial.
        entity: owner of the project.
        project: name of the project.
        unsent: trials that are not known to be on the server.
        project_runs: runs of trials that the project has; None where nobody asked.
    """
    rows = _sorted_rows(summaries)
    headline = sum(row.headline for row in rows)
    facts = report_text.Facts(
        trials=len(summaries), unsent=unsent, project_runs=project_runs, table_rows=min(headline, TABLE_ROWS),
        headline_rows=headline,
    )  # fmt: skip
    identity = identity_of(records)
    marker = f"[xla-sweeps:{identity}]"
    figures = {key: value for key, value in asdict(overview(rows)).items() if isinstance(value, int | float)}
    return {
        "entity": entity,
        "project": project,
        "title": f"XLA on or off - {project}",
        "workspace_title": "XLA on or off",
        "description": f"Computed from {len(summaries):,} trials by xla-sweeps {__version__}. {marker}",
        "marker": marker,
        "run_id": f"summary-{identity}",
        "run_name": f"Summary of {len(summaries):,} trials",
        "figures": {**figures, "trials": len(summaries), "table_rows": facts.table_rows, "headline_rows": headline},
        "sections": [asdict(section) for section in report_text.sections(rows, facts)],
    }


def identity_of(records: Mapping[str, Sequence[Record]]) -> str:
    """What tells these results from others, however much they grow: their first record."""
    first = min((record.started_at, record.trial_id) for group in records.values() for record in group)
    return hashlib.sha256(" ".join(first).encode()).hexdigest()[:12]


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """What cannot be written there is one line."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {error.strerror or error}") from error


def _place(records: Mapping[str, Sequence[Record]], entity: str | None, project: str | None) -> tuple[str | None, str]:
    """Entity and project: as asked for, else as recorded, else as W&B's variables say."""
    settings = [dict(record.config.get("tracker") or {}) for group in records.values() for record in group]
    places: dict[str, str | None] = {}
    for name, asked in (("project", project), ("entity", entity)):
        recorded = sorted({str(item[name]) for item in settings if item.get(name)})
        if not asked and len(recorded) > 1:
            raise ConfigError(
                f"report: the records name several W&B {name}s ({', '.join(recorded[:6])}): choose with --{name}"
            )
        places[name] = asked or (recorded[0] if recorded else os.environ.get(f"WANDB_{name.upper()}"))
    chosen = places["project"] or PROJECT
    if chosen == "sweeps":
        raise ConfigError("report: W&B's client cannot read a project named sweeps; choose another with --project")
    return places["entity"], chosen


def _unsent(results_dir: Path, records: Mapping[str, Sequence[Record]], entity: str | None, project: str) -> int:
    headers = (
        results.header_of(results_dir, group[0], project=project, entity=entity) for group in records.values()
    )  # fmt: skip
    return sum(wandb.published_replicates(header) is None for header in headers)


def _files(results_dir: Path, summaries: Mapping[str, TrialSummary], folder: Path) -> list[Path]:
    """The Parquet file of all rows, and the page; a page of the same rows is kept, since it tells when it was made."""
    parquet, page, made_from = (folder / name for name in ("comparison.parquet", dashboarding.DEFAULT_NAME, "page.key"))
    folder.mkdir(parents=True, exist_ok=True)
    published, _ = imported.load(results_dir)
    results.write_parquet([*_sorted_rows(summaries), *published], parquet)
    key = f"{__version__} {hashlib.sha256(parquet.read_bytes()).hexdigest()}"
    if page.is_file() and made_from.is_file() and made_from.read_text(encoding="utf-8") == key:
        return [parquet, page]
    try:
        dashboarding.write_page([results_dir], page)
    except ConfigError as error:
        print(f"warning: the summary run gets no page: {error}", file=sys.stderr)
        return [parquet]
    made_from.write_text(key, encoding="utf-8")
    return [parquet, page]


def _sorted_rows(summaries: Mapping[str, TrialSummary]) -> list[ComparisonRow]:
    columns = ("family", "model", "resolution_px", "batch_size", "trial_id", "candidate", "baseline")
    rows = [row for summary in summaries.values() for row in summary.comparisons]
    return sorted(rows, key=operator.attrgetter(*columns))


def _table_rows(summaries: Mapping[str, TrialSummary]) -> dict[str, Any]:
    """The headline rows as a table; the first of them where there are too many."""
    documents = [analysis.row_dict(row) for row in _sorted_rows(summaries) if row.headline][:TABLE_ROWS]
    data = [
        [" ".join(value) if isinstance(value := document[name], list | tuple) else value for name in TABLE_COLUMNS]
        for document in documents
    ]
    return {"columns": list(TABLE_COLUMNS), "data": data}
