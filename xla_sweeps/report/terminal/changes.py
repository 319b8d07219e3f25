"""Show the comparison of two sets of results on standard output."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from xla_sweeps.analysis.changes import Change, Difference
from xla_sweeps.report import changes
from xla_sweeps.report.terminal import console
from xla_sweeps.schema.comparisons import by_scenario
from xla_sweeps.system.text import displayable


def show_difference(difference: Difference) -> None:
    """Show breaks, changes, trials of one side only, and differences of the environments."""
    screen = console.results_console()
    a, b = displayable(difference.title_a), displayable(difference.title_b)
    screen.print(
        Text(f"{b} against {a}", style="bold").append(f": {changes.RATIOS}", style="default")
    )
    screen.print()
    for line in changes.breaks(difference):
        console.paragraph(line, "magenta" if line.startswith("✕") else "green")
    shown = changes.shown_changes(difference)
    for group in console.scenario_groups(by_scenario(shown, key=lambda change: change.scenario)):
        _print_changes(group)
    for line in changes.remarks(difference):
        console.paragraph(line, "dim")
    for heading, names in changes.one_sided(difference).items():
        console.say(f"\n{displayable(heading)}")
        for name in names:
            console.paragraph(f"  {name}", indent=4)
    if apart := changes.apart(difference):
        headings = ("differs", a, b)
        table = console.empty_table(*headings, wrapped=headings, gap=2)
        for row in apart:
            table.add_row(*map(displayable, row))
        screen.print(table)
    else:
        console.say(f"\n{changes.ALIKE}", "dim")
    for note in difference.notes:
        console.paragraph(f"! {note}", "yellow")
    for line in changes.summary(difference):
        console.paragraph(line, "bold")


def show_failures(lines: Sequence[str]) -> None:
    """Show the matches of `--fail-on`, and the rows that it ignored, on standard error."""
    for line in lines:
        console.paragraph(f"--fail-on {line}", "red", console=console.progress_console())


def _print_changes(group: Sequence[Change]) -> None:
    name, quantity, ratio, interval, q, verdict, replicates = changes.COLUMNS
    rows = []
    for change, line in zip(group, changes.cells(group), strict=True):
        cells = [Text(displayable(cell)) for cell in line]
        cells[5].stylize(console.COLOURS[str(change.verdict)])
        rows.append((cells[:2], cells[2:4], cells[4:5], cells[5:]))
    headings = ((name, quantity), (ratio, interval), (q,), (verdict, replicates))
    console.print_grouped(headings, rows, right=(ratio, interval, q))
