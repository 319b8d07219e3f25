"""The command `compare`: changes between two results folders."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import msgspec

from xla_sweeps.analysis import changes
from xla_sweeps.analysis.changes import Difference
from xla_sweeps.analysis.matching import Side
from xla_sweeps.cli.arguments import (
    add_fail_on,
    add_output,
    command_parser,
    conditions_of,
    folder_type,
)
from xla_sweeps.errors import LEFT_CODE, StoreError
from xla_sweeps.report import export
from xla_sweeps.report.terminal.changes import show_difference, show_failures
from xla_sweeps.report.terminal.console import progress_bar, warn
from xla_sweeps.store.filter import Filter, matching, no_match, parse_filter
from xla_sweeps.store.rows import load, to_compare
from xla_sweeps.store.store import Store


def compare_command(arguments: Sequence[str]) -> int:
    """Compare two results folders.

    Exit code 1 if a condition (`changes.FAIL_ON`) is met, 3 if nothing could be judged by one.
    """
    parser = command_parser(
        "compare",
        "Gives a verdict for each trial and quantity, with a false discovery rate of 5 %. Exit "
        "code 1 if a condition of --fail-on is met, 3 if nothing could be judged by one, for CI.",
    )
    parser.add_argument("a", metavar="A", type=folder_type(parser), help="baseline results")
    parser.add_argument("b", metavar="B", type=folder_type(parser), help="candidate results")
    add_fail_on(parser, changes.FAIL_ON, ", with 3 if nothing could be judged")
    text = "judge contaminated results like others (default: they are ambiguous)"
    parser.add_argument("--accept-contaminated", action="store_true", help=text)
    add_output(parser, "table", "csv", "json", where="a table as JSON; default: standard output")
    filtered = "only these trials, as in `results --where`"
    parser.add_argument("--where", metavar="EXPR", help=filtered)
    for side in ("a", "b"):
        filtered = f"filter of {side.upper()} only, besides --where"
        parser.add_argument(f"--where-{side}", metavar="EXPR", help=filtered)
    options = parser.parse_args(arguments)
    conditions = conditions_of(options.fail_on, changes.FAIL_ON)
    difference = between(
        options.a,
        options.b,
        where=options.where,
        each=(options.where_a, options.where_b),
        accept_contaminated=options.accept_contaminated,
    )
    if options.format == "csv":
        rows = list(map(msgspec.structs.asdict, difference.changes))
        export.write_text(export.csv_text(rows, changes.Change.__struct_fields__), options.output)
    elif options.format == "json" or options.output is not None:
        export.write_json(changes.as_section(difference), options.output)
    else:
        show_difference(difference)
    met = changes.failures(difference, conditions)
    unjudged = changes.lines_unjudged(difference, conditions)
    ignored = changes.line_on_ignored(difference, conditions)
    show_failures([*met, *filter(None, [ignored]), *unjudged])
    return 1 if met else LEFT_CODE if unjudged else 0


def between(
    first: Path,
    second: Path,
    *,
    where: str | None = None,
    each: tuple[str | None, str | None] = (None, None),
    accept_contaminated: bool = False,
) -> Difference:
    """The changes from one results folder, A, to another, B.

    A trial matches the filter `where`, and that of its side in `each`, if any of its rows does.

    Raises:
        StoreError: a folder has no records, or no row of either matches.
    """
    name, other = (folder.resolve().name for folder in (first, second))
    chosen = [[parse_filter(text) for text in (where, own) if text is not None] for own in each]
    sides = [
        _side(folder, str(folder) if name == other else folder.resolve().name, filters)
        for folder, filters in zip((first, second), chosen, strict=True)
    ]
    if not any(side.trials for side in sides):
        asked = " and ".join(text for text in (where, *each) if text) or None
        raise StoreError(f"compare: {no_match(asked)} in {first} or {second}")
    with progress_bar("comparing"):
        return changes.difference_of(*sides, accept_contaminated=accept_contaminated)


def _side(folder: Path, title: str, filters: Sequence[Filter]) -> Side:
    """The trials of a folder that match every filter; its rows are let go of."""
    with progress_bar(f"reading {folder}") as advance:
        rows = load(folder, advance=advance)
    trials = None
    if filters:
        table = functools.reduce(matching, filters, rows.table)
        trials = table["trial_id"].unique().to_pylist()
    by_trial = to_compare(folder, rows, only=trials)
    warn(*rows.problems)
    store = Store(folder)
    anchors = {name: store.load(name).records.get(name, []) for name in rows.anchors}
    return Side(
        title=title,
        trials=[one for name, one in by_trial.items() if name not in anchors],
        pools=rows.pools(),
        anchors=anchors,
    )
