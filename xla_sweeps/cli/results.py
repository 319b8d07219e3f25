"""The commands `results`, `plot` and `push`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from xla_sweeps.cli.arguments import (
    add_output,
    add_project,
    add_published,
    add_results_dir,
    command_parser,
    read_trials,
)
from xla_sweeps.config.values import quantity_in
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.report import row_cells, study
from xla_sweeps.report.export import csv_text, write_chart, write_json, write_parquet, write_text
from xla_sweeps.report.terminal.console import progress_bar, progress_console, say, warn
from xla_sweeps.report.terminal.tables import show_reasons, show_rows, show_tables
from xla_sweeps.store.filter import matching, no_match, parse_filter, results_alone
from xla_sweeps.store.rows import load, require
from xla_sweeps.store.store import Store
from xla_sweeps.store.table import add_price, blocks_of, rows_of

RAW_FORMS = ("csv", "json", "parquet")

FORMS = ("table", *RAW_FORMS, "markdown", "latex", "svg")

ROWS_SHOWN = 300
"""Most rows of a table in the terminal, which takes 4 s for each thousand."""


def results_command(arguments: Sequence[str]) -> int:
    """Show the comparison rows of a results folder: the headline ones, or every baseline."""
    return _show(_options("results", FORMS, arguments))


def plot_command(arguments: Sequence[str]) -> int:
    """Save the sorted speedups of a results folder as a picture, and print its name."""
    return _show(_options("plot", FORMS[-1:], arguments))


def _options(command: str, forms: Sequence[str], arguments: Sequence[str]) -> argparse.Namespace:
    of_rows = command == "results"
    text = "One row per trial, candidate and baseline." if of_rows else ""
    parser = command_parser(command, text)
    add_results_dir(parser)
    where = "a table as CSV; default: standard output, svg: speedups.svg"
    add_output(parser, *forms, where=where if of_rows else "default: speedups.svg")
    every_baseline = "every baseline, not only the headline comparison"
    parser.add_argument("--all", action="store_true", help=every_baseline)
    text = "only these rows: 'family=ConvNeXt and resolution>=224', 'verdict=slower or not "
    text += "device~A100'; columns: docs/results.md"
    parser.add_argument("--where", metavar="EXPR", help=text)
    parser.set_defaults(show="rows", price_per_hour=None, raw=False)
    add_published(parser)
    if of_rows:
        _add_of_rows(parser)
    return _check_options(parser.parse_args(arguments))


def _add_of_rows(parser: argparse.ArgumentParser) -> None:
    text = "rows (default), fastest model at each resolution, distribution of its models, "
    text += "agreement of devices on their order, podium (by images/s and by gain), families (the "
    text += "best of each), compatibility, or inversions (larger and faster)"
    every = ("rows", *study.QUESTIONS)
    parser.add_argument("--show", metavar="WHAT", choices=every, default="rows", help=text)
    price = quantity_in({"": 1}, "a price above 0, such as 2.5")
    text = "what the machine costs an hour, in any currency: adds the price of a million samples"
    parser.add_argument("--price-per-hour", type=price, metavar="PRICE", help=text)
    raw = "every block of calls of these rows' trials, for csv, json and parquet"
    parser.add_argument("--raw", action="store_true", help=raw)


def _check_options(options: argparse.Namespace) -> argparse.Namespace:
    """The options, if they can be used together."""
    form, price = options.format, options.price_per_hour
    if options.show != "rows" and (form, options.output) != ("table", None):
        raise ConfigError("results: --show is for the table; --format and -o are for rows")
    if options.show != "rows" and price is not None:
        raise ConfigError("results: --price-per-hour is for rows, not for --show")
    if form == "svg" and price is not None:
        raise ConfigError("results: --price-per-hour is not in a picture; remove it")
    if options.raw and (form not in RAW_FORMS or price is not None):
        raise ConfigError("results: --raw takes --format csv, json or parquet, and no price")
    if form == "parquet" and options.output is None:
        raise ConfigError("results: --format parquet needs a file: -o rows.parquet")
    return options


def _show(options: argparse.Namespace) -> int:
    form, output, price = options.format, options.output, options.price_per_hour
    chosen = parse_filter(options.where) if options.where is not None else None
    with progress_bar("reading records") as advance:
        rows = load(options.dir, advance=advance, published=options.with_published)
    warn(*rows.problems)
    require(options.dir, rows)
    every_row = options.all or options.raw or options.show != "rows"
    table = rows.table if every_row else rows.table.filter(rows.table["headline"])
    every = results_alone(table, options.where)
    table = matching(every if price is None else add_price(every, price), chosen)
    if chosen is not None and not table.num_rows:
        say(no_match(options.where, every.num_rows), console=progress_console())
    if options.raw:
        with progress_bar("reading blocks"):
            table, problems = blocks_of(Store(options.dir), table["trial_id"])
        warn(*problems)
    if options.show != "rows":
        shown = [each for each in study.of_table(table) if each.key == options.show]
        show_tables(shown)
        if not shown:
            needed = study.QUESTIONS[options.show].needs
            print(f"nothing to show: it takes {needed}", file=sys.stderr)
    elif form == "table" and output is None:
        if table.num_rows:
            rows_shown = rows_of(table.slice(0, ROWS_SHOWN))
            show_rows(rows_shown, price_per_hour=price)
            show_reasons(rows_shown)
        if table.num_rows > ROWS_SHOWN:
            print(f"{table.num_rows - ROWS_SHOWN:,} more rows: --format csv, or --where EXPR")
    elif form in ("markdown", "latex"):
        write_text(row_cells.rows_text(form, rows_of(table), price), output)
    elif form == "svg":
        say(str(write_chart(rows_of(table), output or Path("speedups.svg"))))
    elif form == "parquet" and output is not None:
        write_parquet(table, output)
    elif form == "json":
        write_json(table.to_pylist(), output)
    else:
        with progress_bar("writing rows"):
            documents = (row for part in table.to_batches(1000) for row in part.to_pylist())
            text = csv_text(documents, table.column_names)
        write_text(text, output)
    return 0


def push_command(arguments: Sequence[str]) -> int:
    """Send W&B the records that it does not have; exit code 1 if one fails."""
    parser = command_parser("push", "Safe to repeat.")
    add_results_dir(parser)
    add_project(parser)
    parser.add_argument("--force", action="store_true", help="send them again even if W&B has them")
    options = parser.parse_args(arguments)
    from xla_sweeps.report.wandb import credentials, push

    credentials.require_login()
    records, by_trial = read_trials(options.dir, load(options.dir))
    place = {"project": options.project, "entity": options.entity}
    headers, unusable = push.headers_of(options.dir, records, **place)
    warn(*unusable)
    trials = [(header, records[trial], by_trial[trial]) for trial, header in headers.items()]
    log = options.dir / "wandb" / "push.log"
    try:
        report = push.push(trials, log=log, force=options.force)
    except OSError as error:
        raise StoreError(f"cannot write {log}: {error.strerror or error}") from error
    left = f", {report.not_tried} not tried" if report.not_tried else ""
    failed = f"{len(report.failed)} failed{left}"
    print(f"W&B: {report.sent} sent, {report.already} there already, {failed}")
    warn(*report.failed)
    return 1 if report.failed else 0
