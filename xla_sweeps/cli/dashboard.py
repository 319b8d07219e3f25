"""The commands `dashboard`, `report` and `workspace`."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xla_sweeps.analysis import changes
from xla_sweeps.cli import compare
from xla_sweeps.cli.arguments import (
    add_output,
    add_project,
    add_published,
    add_results_dir,
    command_parser,
    folder_type,
    read_trials,
)
from xla_sweeps.config.values import path_of
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.report import export
from xla_sweeps.report.dashboard import build
from xla_sweeps.report.terminal.console import paragraph, progress_bar, say, warn
from xla_sweeps.report.wandb import credentials
from xla_sweeps.report.wandb_report import publish
from xla_sweeps.store.rows import Rows, load
from xla_sweeps.store.table import rows_of
from xla_sweeps.system.installation import how_to_install
from xla_sweeps.system.text import count_noun

WATCH_S = 2.0
"""Time between two looks at the records of `dashboard --watch`, seconds."""


def dashboard_command(arguments: Sequence[str]) -> int:
    """Write the local page, and print where it is."""
    parser = command_parser("dashboard")
    text = "results folders (default: results)"
    parser.add_argument("dirs", nargs="*", metavar="DIR", type=folder_type(parser), help=text)
    text = "file to write (default: dashboard.html in the first folder)"
    parser.add_argument("-o", "--output", type=path_of, help=text)
    text = "only these rows: 'family=ConvNeXt and resolution=224'"
    parser.add_argument("--where", metavar="EXPR", help=text)
    changed = "add a section on what changed from the first folder to the second"
    parser.add_argument("--compare", action="store_true", help=changed)
    parser.add_argument("--title", help="the page's title (default: the folders' names)")
    add_published(parser)
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    watched = "write it again whenever there are new records, until Ctrl-C: reload it to see them"
    parser.add_argument("--watch", action="store_true", help=watched)
    options = parser.parse_args(arguments)
    dirs = options.dirs or [Path("results")]
    if options.compare and len(dirs) != 2:
        raise ConfigError(f"dashboard: --compare needs two results folders, got {len(dirs)}")
    target = options.output or dirs[0] / build.DEFAULT_NAME
    if options.output is None and target.is_symlink():
        raise StoreError(f"{target} is a link: name the file with -o, or remove the link")

    def write() -> None:
        comparison = None
        if options.compare:
            comparison = changes.as_section(compare.between(*dirs, where=options.where))
        with progress_bar("making the page") as advance:
            written = build.write_page(
                dirs,
                target,
                where=options.where or None,
                comparison=comparison,
                title=options.title,
                published=options.with_published,
                advance=advance,
            )
        warn(*written.problems)
        paragraph(written.answer)
        say(
            f"{target}: {count_noun(written.rows, 'row')} of "
            f"{count_noun(written.trials, 'trial')}, {written.size / 1e6:.2f} MB, opens offline"
        )

    seen = _newest(dirs)
    try:
        write()
    except StoreError as error:
        if not options.watch:
            raise
        warn(f"{error}; waiting for it")
    if options.open and not webbrowser.open(target.resolve().as_uri()):
        print("cannot start a browser; open the file yourself", file=sys.stderr)
    with contextlib.suppress(KeyboardInterrupt):
        while options.watch:
            time.sleep(WATCH_S)
            if (now := _newest(dirs)) != seen:
                seen = now
                try:
                    write()
                except StoreError as error:  # as of a folder without a row to show yet
                    warn(str(error))
    return 0


def _newest(dirs: Sequence[Path]) -> tuple[tuple[str, int], ...]:
    """The folders of records and when each changed: a new record changes its folder."""
    folders = [path for folder in dirs for path in folder.glob("records/*")]
    times = []
    for path in sorted(folders):
        with contextlib.suppress(OSError):
            times.append((str(path), path.stat().st_mtime_ns))
    return tuple(times)


def report_command(arguments: Sequence[str]) -> int:
    """Write the W&B report and summary run, or with --dry-run print the report's JSON."""
    options = _report_options(arguments)
    publish.require_extra()
    if not options.dry_run:
        credentials.require_login()
    rows = load(options.dir, published=options.with_published)
    records, _ = read_trials(options.dir, rows)
    entity, project = publish.place(records, options.entity, options.project)
    difference = compare.between(options.against, options.dir) if options.against else None
    with progress_bar("making the report"):
        plan = publish.plan_document(
            records,
            rows_of(rows.table),
            entity=entity or "",
            project=project,
            difference=difference,
        )
        spec = publish.spec(plan) if options.dry_run else {}
    if options.dry_run:
        export.write_json(spec, options.output)
        return 0
    code = _send(options, plan, rows)
    if unsent := publish.unsent_trials(options.dir, records, entity, project):
        warn(
            f"{unsent:,} of {len(records):,} trials may not be on W&B, and the panels lack them; "
            "run `xla-sweeps push`"
        )
    return code


def workspace_command(arguments: Sequence[str]) -> int:
    """Save the view of the W&B project, or update it, and print its address."""
    parser = command_parser(
        "workspace",
        "The view of the project's page shows the trials by device, the highest speedup first, and "
        "panels. Run it again to restore it. Needs wandb-workspaces "
        f"({how_to_install('report')}) and `wandb login` or WANDB_API_KEY.",
    )
    add_results_dir(parser)
    add_project(parser)
    options = parser.parse_args(arguments)
    publish.require_extra("workspace")
    credentials.require_login()
    entity, project = options.entity, options.project
    if not (entity and project):
        records, _ = read_trials(options.dir, load(options.dir))
        entity, project = publish.place(records, entity, project)
    with progress_bar("saving the view"):
        view = publish.save_workspace(entity, project)
    say(f"workspace  {view['url']} ({'updated' if view['updated'] else 'new'})")
    return 0


def _report_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = command_parser(
        "report",
        "The report answers the page's questions in sentences and live panels; the summary run "
        "holds the local page and the Parquet file of all rows. Run it again to update both. Needs "
        f"wandb-workspaces ({how_to_install('report')}) and, except with --dry-run, `wandb login` "
        "or WANDB_API_KEY; `xla-sweeps push` sends the runs that the panels show.",
    )
    add_results_dir(parser)
    add_project(parser)
    dry = "print the report's JSON; needs no account and no network"
    parser.add_argument("--dry-run", action="store_true", help=dry)
    add_output(parser)
    add_published(parser)
    text = "add a section on what changed since these baseline results, as `compare` says it"
    parser.add_argument("--against", metavar="DIR", type=folder_type(parser), help=text)
    text = "link the Parquet file's artifact to this W&B registry of your organization"
    parser.add_argument("--registry", metavar="NAME", type=publish.registry_of, help=text)
    options = parser.parse_args(arguments)
    if options.output is not None and not options.dry_run:
        raise ConfigError("report: -o is for the JSON of --dry-run; else it goes to W&B")
    if options.registry and options.dry_run:
        raise ConfigError("report: --registry links what is sent to W&B; --dry-run sends nothing")
    return options


def _send(options: argparse.Namespace, plan: Mapping[str, Any], rows: Rows) -> int:
    """Write report and summary run, and say what is missing; returns the exit code."""
    log = options.dir / "wandb" / "report.log"
    try:
        with progress_bar("sending the report"):
            run, report = publish.publish(
                plan,
                log=log,
                attachments=publish.attachments(
                    options.dir, rows, log.parent, published=options.with_published, warn=warn
                ),
                registry=options.registry or "",
            )
    except OSError as error:
        raise StoreError(f"cannot write {log.parent}: {error.strerror or error}") from error
    say(f"report     {report['url']} ({'updated' if report['updated'] else 'new'})")
    say(f"summary    {run['url']}")
    if run["unlinked"]:
        warn(f"not linked to the registry {options.registry}: {run['unlinked']}")
    if not run["confirmed"]:
        warn("W&B does not show the summary run's figures; run the same command again to send them")
    return 0 if run["confirmed"] and not run["unlinked"] else 1
