"""A comparison of two results folders in words, for the terminal and the W&B report. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from xla_sweeps.analysis import matching
from xla_sweeps.analysis.changes import BROKE, Change, Difference, counts, verdicts_of
from xla_sweeps.report.advice import CONTAMINATED, SYMBOLS
from xla_sweeps.report.figures import NONE, decimals, interval, times
from xla_sweeps.report.labels import short_devices
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.comparisons import by_scenario
from xla_sweeps.system.text import count_noun

RATIOS = "ratios are B / A: above 1×, B is faster"

ALIKE = "both were measured with the same machine, software and flags"

COLUMNS = ("trial", "quantity", "ratio", "95 %", "q", "verdict", "replicates")

MOST_ROWS = 60
MOST_LINES = 10


def breaks(difference: Difference) -> list[str]:
    """A line for each mode that works on one side only, with its symbol."""
    return [f"{'✕' if entry.what == BROKE else '✓'} {entry}" for entry in difference.breaks]


def shown_changes(difference: Difference) -> Sequence[Change]:
    """The changes to show, the relevant ones first."""
    if len(difference.changes) <= MOST_ROWS:
        return difference.changes
    relevant = (Verdict.SLOWER, Verdict.FASTER)
    return [change for change in difference.changes if change.verdict in relevant][:MOST_ROWS]


def cells(changes: Sequence[Change]) -> list[tuple[str, ...]]:
    """A line of `COLUMNS` for each change; its name has the scenario where there are several."""
    several = len({change.scenario for change in changes}) > 1
    devices = {change.device: change.device.split(matching.ARROW) for change in changes}
    short = short_devices(name for names in devices.values() for name in names)
    lines: list[tuple[str, ...]] = []
    for change in changes:
        on = matching.ARROW.join(short[name] for name in devices[change.device])
        facts = [f" on {on}"] * (len(devices) > 1) + [f" in {change.scenario}"] * several
        lines.append(
            (
                "".join([change.name, *facts]),
                change.quantity,
                times(change.ratio),
                interval(change.low, change.high),
                "<0.001" if change.q_value < 0.001 else decimals(change.q_value, 3),
                f"{SYMBOLS[str(change.verdict)]} {change.verdict}",
                f"{change.replicates_a}:{change.replicates_b}{'~' if change.contaminated else ''}",
            )
        )
    return lines


def remarks(difference: Difference) -> list[str]:
    """Remarks on what the list leaves open: contaminated changes, and those that are not listed."""
    changes = shown_changes(difference)
    lines = []
    if any(change.contaminated for change in changes):
        text = "" if difference.accept_contaminated else "; ambiguous without --accept-contaminated"
        lines.append(f"{CONTAMINATED}{text}")
    if more := len(difference.changes) - len(changes):
        lines.append(f"{more} more not listed; compare --format csv lists all")
    return lines


def one_sided(difference: Difference) -> dict[str, list[str]]:
    """Trials and modes of one side only, below a heading for each side that has some."""
    sides = ((difference.title_a, difference.only_a), (difference.title_b, difference.only_b))
    lists = {}
    for title, names in sides:
        if names:
            more = len(names) - MOST_LINES
            rest = [f"and {more} more"] if more > 0 else []
            lists[f"only in {title} ({len(names)})"] = [*names[:MOST_LINES], *rest]
    return lists


def apart(difference: Difference) -> list[tuple[str, str, str]]:
    """The environment where the sides differ: what, A's and B's; of many the first."""
    lines = [(what, a or NONE, b or NONE) for what, a, b in difference.environment if a != b]
    more = len(lines) - MOST_ROWS
    return [*lines[:MOST_ROWS], (f"and {more:,} more", NONE, NONE)] if more > 0 else lines


def summary(difference: Difference) -> list[str]:
    """The number of comparisons, and their verdicts, on one line for each of several scenarios."""
    number = counts(difference)
    groups = by_scenario(difference.changes, key=lambda change: change.scenario)
    more = [f"{number[what]} {what}" for what in ("broke", "fixed") if number[what]]
    more += [f"{number['failed_both']} failed on both sides"] if number["failed_both"] else []
    both = f"{count_noun(number['matched'], 'trial')} on both sides"
    compared = f"{both}, {count_noun(number['compared'], 'comparison')}: "
    if len(groups) < 2:
        return [compared + ", ".join([*_verdicts(difference.changes), *more])]
    lines = [
        f"scenario={scenario}: {', '.join(_verdicts(group))}" for scenario, group in groups.items()
    ]
    return [", ".join([compared.removesuffix(": "), *more]), *lines]


def _verdicts(changes: Sequence[Change]) -> list[str]:
    numbers = verdicts_of(changes)
    shown = ("slower", "faster", "ambiguous", "equivalent")
    return [f"{numbers[verdict]} {verdict}" for verdict in shown]
