"""The commands `results`, `import` and `push`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from xla_sweeps.cli import command_parser
from xla_sweeps.config.values import folder_of, path_of
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.report.export import csv_of, write_parquet, write_text
from xla_sweeps.results.filter import matching, no_match, parse_filter
from xla_sweeps.results.rows import load, require, summaries
from xla_sweeps.results.store import guarded
from xla_sweeps.results.table import rows_of
from xla_sweeps.schema.row import ComparisonRow


def results_command(arguments: Sequence[str]) -> int:
    """Show the comparison rows of a results folder."""
    parser = command_parser("results", "One row per trial, candidate and baseline.")
    parser.add_argument(
        "dir",
        nargs="?",
        default="results",
        type=folder_of,
        help="results folder (default: results)",
    )
    parser.add_argument(
        "--format",
        choices=("table", "csv", "json", "parquet"),
        default="table",
        help="(default: table); parquet needs -o",
    )
    parser.add_argument(
        "-o", "--output", type=path_of, help="file to write to (default: standard output)"
    )
    parser.add_argument(
        "--all", action="store_true", help="every baseline, not only the headline comparison"
    )
    parser.add_argument(
        "--where",
        metavar="EXPR",
        help="only these rows: 'family=ConvNeXt and resolution>=224', "
        "'verdict=slower or not device~A100'; columns: docs/results.md",
    )
    options = parser.parse_args(arguments)
    return show(
        options.dir,
        form=options.format,
        output=options.output,
        every=options.all,
        where=options.where,
    )


def import_command(arguments: Sequence[str]) -> int:
    """Add published figures to a results folder."""
    parser = command_parser(
        "import",
        "`results` and the dashboards show them beside measured rows, marked as imported.",
    )
    parser.add_argument("file", type=path_of, help="the CSV file")
    parser.add_argument(
        "--into",
        default="results",
        type=folder_of,
        metavar="DIR",
        help="results folder (default: results)",
    )
    parser.add_argument(
        "--name",
        metavar="LABEL",
        help="name of the import (default: the file's name); the same name replaces it",
    )
    options = parser.parse_args(arguments)
    return add_published(options.file, options.into, label=options.name)


def push_command(arguments: Sequence[str]) -> int:
    """Send W&B the records that it does not have."""
    parser = command_parser("push", "Safe to repeat.")
    parser.add_argument(
        "dir",
        nargs="?",
        default="results",
        type=folder_of,
        help="results folder (default: results)",
    )
    parser.add_argument("--project", help="W&B project (default: as recorded)")
    parser.add_argument("--entity", help="W&B entity (default: as recorded)")
    parser.add_argument("--force", action="store_true", help="send them again even if W&B has them")
    options = parser.parse_args(arguments)
    return push(options.dir, project=options.project, entity=options.entity, force=options.force)


def add_published(file: Path, results_dir: Path, *, label: str | None) -> int:
    """Import published figures and print what was added."""
    from xla_sweeps.results import imported

    done = imported.add(file, results_dir, label=label)
    _warn(f"{file}, {warning}" for warning in done.warnings)
    compared = sum(row.speedup.value is not None for row in done.rows)
    verb = "replaced" if done.replaced else "wrote"
    print(
        f"{done.figures} figures of {len({row.trial.model for row in done.rows})} models: "
        f"{len(done.rows)} rows, {compared} of them with a speedup over eager; {verb} {done.path}"
    )
    return 0


def show(
    results_dir: Path, *, form: str, output: Path | None, every: bool, where: str | None = None
) -> int:
    """Comparison rows as a table, CSV, JSON or Parquet; the headline ones, or every baseline.

    Args:
        results_dir: the folder.
        form: `table`, `csv`, `json` or `parquet`.
        output: file to write to (default: standard output).
        every: whether to show every baseline.
        where: a filter (`parse_filter`).
    """
    if form == "parquet" and output is None:
        raise ConfigError("results: --format parquet needs a file: -o rows.parquet")
    chosen = parse_filter(where) if where is not None else None
    rows = load(results_dir)
    _warn(rows.problems)
    require(results_dir, rows)
    table = rows.table if every else rows.table.filter(rows.table["headline"])
    table = matching(table, chosen)
    if chosen is not None and not table.num_rows:
        print(no_match(where), file=sys.stderr)
    if form == "table" and output is None:
        _show_table(rows_of(table))
    elif form == "parquet" and output is not None:
        write_parquet(table, output)
    elif form == "json":
        write_text(json.dumps(table.to_pylist(), indent=1) + "\n", output)
    else:
        write_text(csv_of(table), output)
    return 0


def _warn(lines: Iterable[str]) -> None:
    for line in lines:
        from xla_sweeps.report.terminal.console import warn

        warn(line)


def _show_table(rows: Sequence[ComparisonRow]) -> None:
    from xla_sweeps.report.terminal.tables import show_rows

    if rows:
        show_rows(rows)


def push(results_dir: Path, *, project: str | None, entity: str | None, force: bool) -> int:
    """Send the runs that W&B does not have; exit code 1 if one fails."""
    from xla_sweeps.report.wandb import credentials
    from xla_sweeps.report.wandb import push as wandb

    credentials.require_login()
    rows = load(results_dir)
    _warn(rows.problems)
    records, found, problems = summaries(results_dir, rows)
    _warn(problems)
    trials = []
    for trial, group in records.items():
        header, unusable = guarded(
            results_dir / "records" / trial,
            partial(wandb.header_of, results_dir, group[0], project=project, entity=entity),
        )
        _warn(unusable)
        if header is not None:
            trials.append((header, group, found[trial]))
    log = results_dir / "wandb" / "push.log"
    try:
        report = wandb.push(trials, log=log, force=force)
    except OSError as error:
        raise StoreError(f"cannot write {log}: {error.strerror or error}") from error
    print(f"W&B: {report.sent} sent, {report.already} there already, {len(report.failed)} failed")
    _warn(report.failed)
    return 1 if report.failed else 0
