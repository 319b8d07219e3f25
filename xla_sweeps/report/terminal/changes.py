"""Show the comparison of two sets of results on standard output."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from xla_sweeps.analysis import matching
from xla_sweeps.analysis.changes import BROKE, Change, Difference, counts, verdicts_of
from xla_sweeps.report.advice import CONTAMINATED, SYMBOLS
from xla_sweeps.report.labels import short_devices
from xla_sweeps.report.terminal.console import (
    COLOURS,
    empty_table,
    paragraph,
    print_grouped,
    progress_console,
    results_console,
    say,
    scenario_groups,
)
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.modes import by_scenario
from xla_sweeps.system.text import counted, displayable

MOST_ROWS = 60
"""With more rows than this, only changes are listed."""

MOST_LINES = 10


def show_difference(difference: Difference) -> None:
    """Show breaks, changes, trials of one side only, and differences of the environments."""
    console = results_console()
    a, b = displayable(difference.title_a), displayable(difference.title_b)
    console.print(
        Text(f"{b} against {a}", style="bold").append(
            ": ratios are B / A: above 1×, B is faster", style="default"
        )
    )
    console.print()
    for entry in difference.breaks:
        symbol, colour = ("✕", "magenta") if entry.what == BROKE else ("✓", "green")
        say(f"{symbol} {displayable(entry)}", colour)
    changed = [
        change
        for change in difference.changes
        if change.verdict in (Verdict.SLOWER, Verdict.FASTER)
    ]
    shown = difference.changes if len(difference.changes) <= MOST_ROWS else changed[:MOST_ROWS]
    for group in scenario_groups(by_scenario(shown, key=lambda change: change.scenario)):
        _print_changes(group)
    if any(change.contaminated for change in shown):
        text = "" if difference.accept_contaminated else "; ambiguous without --accept-contaminated"
        paragraph(f"{CONTAMINATED}{text}", "dim")
    if len(difference.changes) > len(shown):
        more = len(difference.changes) - len(shown)
        paragraph(f"{more} more not listed; --format csv lists all", "dim")
    _only(f"only in {a}", difference.only_a)
    _only(f"only in {b}", difference.only_b)
    _environment(difference)
    for note in difference.notes:
        paragraph(f"! {note}", "yellow")
    for line in _summary(difference):
        paragraph(line, "bold")


def show_failures(lines: Sequence[str]) -> None:
    """Show the matches of `--fail-on`, and the rows that it ignored, on standard error."""
    for line in lines:
        say(f"--fail-on {displayable(line)}", "red", console=progress_console())


def _print_changes(changes: Sequence[Change]) -> None:
    """Print a line for each change, or several where figures are stacked."""
    devices = {change.device: change.device.split(matching.ARROW) for change in changes}
    short = short_devices(name for names in devices.values() for name in names)
    headings = (("trial", "quantity"), ("ratio", "95 %"), ("q",), ("verdict", "replicates"))
    rows = []
    for change in changes:
        verdict = str(change.verdict)
        on = matching.ARROW.join(short[name] for name in devices[change.device])
        name = f"{change.name} on {on}" if len(devices) > 1 else change.name
        mark = "~" if change.contaminated else ""
        rows.append(
            (
                (displayable(name), displayable(change.quantity)),
                (f"{change.ratio:.3f}×", f"{change.low:.3f}–{change.high:.3f}"),
                ("<0.001" if change.q_value < 0.001 else f"{change.q_value:.3f}",),
                (
                    Text(f"{SYMBOLS[verdict]} {verdict}", style=COLOURS[verdict]),
                    f"{change.replicates_a}:{change.replicates_b}{mark}",
                ),
            )
        )
    print_grouped(headings, rows, right=("ratio", "95 %", "q"))


def _only(title: str, names: Sequence[str]) -> None:
    if not names:
        return
    say(f"\n{title} ({len(names)})")
    for name in names[:MOST_LINES]:
        say(f"  {displayable(name)}")
    if len(names) > MOST_LINES:
        say(f"  and {len(names) - MOST_LINES} more", "dim")


def _environment(difference: Difference) -> None:
    apart = [(what, a, b) for what, a, b in difference.environment if a != b]
    if not apart:
        say("\nboth were measured with the same machine, software and flags", "dim")
        return
    titles = map(displayable, (difference.title_a, difference.title_b))
    headings = ("differs", *titles)
    table = empty_table(*headings, wrapped=headings, gap=2)
    for what, a, b in apart:
        table.add_row(what, displayable(a) or "—", displayable(b) or "—")
    results_console().print(table)


def _summary(difference: Difference) -> list[str]:
    """The number of comparisons, and their verdicts, on one line for each of several scenarios."""
    number = counts(difference)
    groups = by_scenario(difference.changes, key=lambda change: change.scenario)
    more = [f"{number[what]} {what}" for what in ("broke", "fixed") if number[what]]
    more += [f"{number['failed_both']} failed on both sides"] if number["failed_both"] else []
    both = f"{counted(number['matched'], 'trial')} on both sides"
    compared = f"{both}, {counted(number['compared'], 'comparison')}: "
    if len(groups) < 2:
        return [compared + ", ".join([*_verdicts(difference.changes), *more])]
    lines = [
        f"scenario={displayable(scenario)}: {', '.join(_verdicts(group))}"
        for scenario, group in groups.items()
    ]
    return [", ".join([compared.removesuffix(": "), *more]), *lines]


def _verdicts(changes: Sequence[Change]) -> list[str]:
    numbers = verdicts_of(changes)
    shown = ("slower", "faster", "ambiguous", "equivalent")
    return [f"{numbers[verdict]} {verdict}" for verdict in shown]
