"""A sweep's plan, and what came of it, on standard output and error."""

from __future__ import annotations

import math
import shlex
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from rich.text import Text

from xla_sweeps.report.terminal.console import (
    COLOURS,
    SYMBOLS,
    displayable,
    duration,
    progress_console,
    results_console,
)
from xla_sweeps.schema.row import ComparisonRow, Verdict

FAILURES_SHOWN = 8


class PlannedTask(Protocol):
    """What is shown of a planned trial."""

    words: tuple[str, ...]
    model: str
    wanted: int


class SweepOutcome(Protocol):
    """What is shown of a finished run."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Trials by status."""

    @property
    def signal_number(self) -> int:
        """The signal that stopped it, or 0."""

    @property
    def broken(self) -> str:
        """Why the circuit breaker stopped it, or ""."""

    @property
    def gave_up(self) -> Mapping[str, str]:
        """Why some trials were left."""


def show_plan(
    name: str,
    tasks: Sequence[PlannedTask],
    *,
    search: int | None,
    repeated: int,
    known: int,
    left_s: tuple[float, float] | None,
) -> None:
    """The commands of what is left; and how many trials there are, are done, and how long they take.

    Args:
        name: the sweep's.
        tasks: its trials.
        search: how many trials a search will propose; None where all are known.
        repeated: trials of the definition that are the same as others.
        known: how many trials to measure are of a model that was measured before.
        left_s: seconds that they may take, as a range; None where nothing is known.
    """
    for task in tasks:
        if task.wanted:
            print(shlex.join(["python", "-m", "xla_sweeps", *task.words]))
    console = progress_console()
    if search is not None:
        console.print(
            Text(f"{name}: {search:,} trials, proposed one after the other as results come in")
        )
        return
    left = [task for task in tasks if task.wanted]
    replicates = sum(task.wanted for task in left)
    done = len(tasks) - len(left)
    same = f", {repeated:,} more are the same as others" if repeated else ""
    console.print(
        Text(
            f"{name}: {len(tasks):,} trials{same}; {done:,} done, {len(left):,} to measure"
            f" ({replicates:,} replicates)"
        ),
        soft_wrap=True,
    )
    if not left:
        return
    if left_s is None:
        console.print(
            Text("no estimate of the time: nothing like it has been measured into this folder yet")
        )
        return
    low, high = (duration(seconds) for seconds in left_s)
    basis = f"from past records of {known:,} of these {len(left):,} trials' models"
    console.print(Text(f"about {low} to {high}, {basis}"), soft_wrap=True)


def show_sweep(
    name: str,
    *,
    rows: Sequence[ComparisonRow],
    outcome: SweepOutcome,
    planned: int,
    results_dir: Path,
    again: str,
) -> None:
    """What came of a sweep: verdicts, the geometric mean with its coverage, failures by class, where it lies."""
    console = results_console()
    statuses = "  ".join(
        f"{count} {word}"
        for word, count in sorted(outcome.counts.items(), key=lambda item: -item[1])
    )
    console.print(
        Text(f"{displayable(name)}: {planned} trials: {statuses}", style="bold"), soft_wrap=True
    )
    verdicts = Counter(
        str(row.verdict)
        for row in rows
        if row.baseline.split("_")[0] != row.candidate.split("_")[0]
    )
    if verdicts:
        line = Text()
        for verdict in Verdict:
            if verdicts[str(verdict)]:
                line.append(
                    f"{SYMBOLS[str(verdict)]} {verdicts[str(verdict)]} {verdict}   ",
                    style=COLOURS[str(verdict)],
                )
        console.print(line)
    for pair, speedups in _by_pair(rows).items():
        mean = math.exp(statistics.fmean(math.log(value) for value in speedups))
        console.print(
            Text(
                f"{pair}: geometric mean speedup {mean:.3f}× over {len(speedups)} of {planned} planned trials"
            )
        )
    _show_failures(rows, outcome)
    if outcome.broken:
        console.print(Text(f"stopped: {displayable(outcome.broken)}", style="red"), soft_wrap=True)
    console.print(Text(f"records {results_dir}/records   logs {results_dir}/logs"), soft_wrap=True)
    console.print(Text(f"results xla-sweeps results {results_dir}"), soft_wrap=True)
    left = (
        outcome.signal_number or outcome.broken or outcome.gave_up or outcome.counts.get("missing")
    )
    if left:
        console.print(Text(f"to go on: {displayable(again)}", style="bold"), soft_wrap=True)


def _by_pair(rows: Sequence[ComparisonRow]) -> dict[str, list[float]]:
    """Valid speedups by what is compared; A/A pairs apart from the rest."""
    pairs: dict[str, list[float]] = {}
    for row in rows:
        if row.speedup:
            pairs.setdefault(f"{row.candidate} over {row.baseline}", []).append(row.speedup)
    return pairs


def _show_failures(rows: Sequence[ComparisonRow], outcome: SweepOutcome) -> None:
    """Failures by class, each with how many and an example."""
    console = results_console()
    classes: dict[str, list[str]] = {}
    for row in rows:
        if row.verdict is Verdict.FAILED:
            classes.setdefault(str(row.status), []).append(f"{row.model}: {row.failure_message}")
    for why in outcome.gave_up.values():
        classes.setdefault("gave up", []).append(why)
    for status, examples in sorted(classes.items(), key=lambda item: -len(item[1]))[
        :FAILURES_SHOWN
    ]:
        console.print(
            Text(
                f"{SYMBOLS['failed']} {len(examples)} {status}: {displayable(examples[0])[:200]}",
                style=COLOURS["failed"],
            ),
            soft_wrap=True,
        )
