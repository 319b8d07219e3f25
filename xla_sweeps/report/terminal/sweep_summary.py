"""Show a sweep's plan and its results."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.text import Text

from xla_sweeps.analysis.overview import LIKE, geometric_mean, spread
from xla_sweeps.analysis.trust import trust
from xla_sweeps.report.advice import SYMBOLS
from xla_sweeps.report.figures import duration, times
from xla_sweeps.report.labels import short_devices
from xla_sweeps.report.overall import busy_words, range_words, spread_words, trust_words
from xla_sweeps.report.sentences import SETTLE_ALL
from xla_sweeps.report.terminal import console
from xla_sweeps.report.terminal.progress import words_of
from xla_sweeps.report.terminal.tables import show_rows
from xla_sweeps.schema.columns import AA_TAG, Verdict
from xla_sweeps.schema.comparisons import by_scenario, is_aa_pair
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import ComparisonRow, value_of
from xla_sweeps.system.text import count_noun, displayable
from xla_sweeps.trial.monitor import WAIT_LIMIT_S

FAILURES_SHOWN = 8

ROWS_SHOWN = 40


def show_plan(
    name: str,
    trials: Sequence[tuple[Sequence[str], int]],
    *,
    search: int | None,
    repeated: int,
    twins: int,
    twice: int,
    estimated: int,
    left_s: tuple[float, float] | None,
    timed_s: float,
) -> None:
    """Show the commands of all trials to measure, and the time that they may take.

    `trials` have overrides and missing replicates. A `search` will propose so many; `repeated` are
    duplicates in the definition, `twins` the A/A trials that it adds, `twice` those measured twice,
    `estimated` those whose models were measured before. Timing takes at most `timed_s`.
    """
    left = [(words, replicates) for words, replicates in trials if replicates]
    for words, _ in left:
        console.say(shlex.join(["python", "-m", "xla_sweeps", *words]))
    count = len(left) if search is None else search
    screen = console.progress_console()
    if search is not None:
        text = f"{name}: {count_noun(search, 'trial')}, proposed one by one from earlier results"
    else:
        duplicates = f" ({repeated:,} duplicates ignored)" if repeated else ""
        missing = count_noun(sum(replicates for _, replicates in left), "replicate")
        text = (
            f"{name}: {count_noun(len(trials), 'trial')}{duplicates}; {len(trials) - count:,} "
            f"done, {count:,} to measure ({missing})"
        )
    console.paragraph(text, console=screen)
    if not count:
        return
    console.paragraph(time_words(left_s, timed_s, f"{estimated:,} of {count:,}"), console=screen)
    twice_words = f"{count_noun(twice, 'trial')} (effort.duplicates=0 for none)"
    remarks = {
        f"A/A trials among them, which test the verdicts: {twins:,}": twins,
        f"measured twice, to learn how processes differ: {twice_words}": twice,
        "contaminated and open trials first wait for a quiet machine, at most "
        f"{WAIT_LIMIT_S:g} s": True,
    }
    for remark in filter(remarks.get, remarks):
        console.paragraph(remark, "dim", console=screen)


def time_words(left_s: tuple[float, float] | None, timed_s: float, models: str) -> str:
    """The time that trials may take, seconds: by past records of `models`, else by their limits."""
    if left_s is not None:
        ends = " to ".join(dict.fromkeys(map(duration, left_s)))
        return f"about {ends}, estimated from records of the models of {models}"
    return (
        f"timing takes at most {duration(timed_s)} in all, by the limits of the effort; "
        "building and compiling come on top (no records of these models yet)"
    )


def show_sweep(
    name: str,
    *,
    rows: Sequence[ComparisonRow],
    counts: Mapping[str, int],
    gave_up: Mapping[str, str],
    stopped: str | None,
    planned: int,
    results_dir: Path,
    again: str,
    twins: int = 0,
    kept: bool = False,
) -> None:
    """Show a sweep's trials, verdicts, mean speedups, failures by status, and paths.

    `stopped` is why it stopped itself, "" after a signal; `twins` of the planned trials are A/A
    twins of others; `kept` keeps contaminated trials.
    """
    console.paragraph(f"{name}: {count_noun(planned, 'trial')}: {words_of(counts)}", "bold")
    show_headlines(rows, results_dir)
    show_sums(rows, planned, twins)
    _show_failures(rows, gave_up)
    if stopped:
        console.paragraph(f"stopped: {stopped}", "red")
    console.say(f"records {results_dir}/records   logs {results_dir}/logs")
    console.say(f"results xla-sweeps results {shlex.quote(str(results_dir))}")
    left_busy = 0 if kept else counts.get(str(Status.CONTAMINATED), 0)
    if left_busy:
        again_words = "measured again on resume; --accept-contaminated keeps them"
        console.paragraph(f"{left_busy} contaminated: {again_words}", "yellow")
    if left_busy or stopped is not None or gave_up or counts.get("missing"):
        console.say(f"resume with: {displayable(again)}", "bold")


def show_headlines(rows: Sequence[ComparisonRow], results_dir: Path) -> None:
    """Show headline rows as a table; only the first of very many."""
    if rows:
        show_rows(rows[:ROWS_SHOWN])
    if len(rows) > ROWS_SHOWN:
        folder = shlex.quote(str(results_dir))
        console.say(f"and {len(rows) - ROWS_SHOWN:,} more: xla-sweeps results {folder}")


def show_sums(rows: Sequence[ComparisonRow], planned: int, twins: int) -> None:
    """Show verdicts, mean speedups and the A/A test of so many trials and twins, by scenario."""
    for group in console.scenario_groups(by_scenario(rows, key=lambda row: row.trial.scenario)):
        _show_sums(group, planned, twins)


def _show_sums(rows: Sequence[ComparisonRow], planned: int, twins: int) -> None:
    """Show one scenario's verdicts, each pair's mean by device (A/A pairs too), the A/A test."""
    show_verdicts(rows)
    devices = short_devices(row.trial.device for row in rows)
    pairs: dict[str, list[ComparisonRow]] = {}
    for row in rows:
        if row.speedup.value:
            on = f" on {devices[row.trial.device]}" if len(devices) > 1 else ""
            pair = displayable(f"{row.candidate.mode} over {row.baseline.mode}{on}")
            pairs.setdefault(pair, []).append(row)
    for pair, group in pairs.items():
        speedups = [row.speedup.value or math.nan for row in group]
        clear = sum(row.speedup.verdict.is_clear for row in group)
        if 2 * clear <= len(group):
            some = f"{clear or 'none'} of {count_noun(len(group), 'trial')}"
            is_clear = f"{'are' if clear > 1 else 'is'} clear"
            console.paragraph(f"{pair}: not known yet, {some} {is_clear}: {SETTLE_ALL}")
            continue
        settings = len({tuple(value_of(row, name) for name in LIKE) for row in group})
        mean, models = geometric_mean(speedups, [row.trial.model for row in group])
        over = f"{len(group)} of {_planned_words(group, planned, twins)}"
        words = f"over {over}, {count_noun(models, 'model')}"
        between = spread_words(*spread(speedups, models))
        mark = "~ " * all(row.status is Status.CONTAMINATED for row in group)
        if settings > 1:
            ends = range_words(min(speedups), max(speedups))
            console.paragraph(f"{pair}: {mark}{ends} {words}, {settings} unlike settings: no mean")
            continue
        mean_words = f"{mark}geometric mean speedup {times(mean)} {words}"
        console.paragraph(f"{pair}: {'; '.join(filter(None, (mean_words, between)))}")
    if (aa_test := trust(rows)) is not None:
        console.paragraph(trust_words(aa_test), "bold red" if aa_test.untrusted else "dim")


def _planned_words(rows: Sequence[ComparisonRow], planned: int, twins: int) -> str:
    """The planned trials that can have the pair of these rows: an A/A twin has its own alone."""
    are_twins = [row.provenance.purpose == AA_TAG for row in rows]
    if all(are_twins):
        return count_noun(twins, "planned A/A trial")
    return count_noun(planned if any(are_twins) else planned - twins, "planned trial")


def show_verdicts(rows: Sequence[ComparisonRow]) -> None:
    """Show the number of comparisons by verdict, of interrupted and of contaminated ones."""
    apart = [
        row
        for row in rows
        if row.baseline.mode and not is_aa_pair(row.baseline.mode, row.candidate.mode)
    ]
    verdicts = Counter(str(row.speedup.verdict) for row in apart)
    words = [
        (
            f"{SYMBOLS[verdict]} {verdicts[verdict]} {verdict.replace('_', ' ')}   ",
            console.COLOURS[verdict],
        )
        for verdict in map(str, Verdict)
        if verdicts[verdict]
    ]
    if words:
        console.results_console().print(Text.assemble(*words))
    if busy := busy_words(row.status is Status.CONTAMINATED for row in apart):
        console.paragraph(busy, "yellow")


def _show_failures(rows: Sequence[ComparisonRow], gave_up: Mapping[str, str]) -> None:
    classes: dict[str, list[str]] = {}
    for row in rows:
        if row.speedup.verdict.is_missing and row.status is not Status.INTERRUPTED:
            classes.setdefault(str(row.status), []).append(
                f"{row.trial.model}: {row.failure.message}"
            )
    for why in gave_up.values():
        classes.setdefault("gave up", []).append(why)
    most_first = sorted(classes.items(), key=lambda pair: -len(pair[1]))
    for status, examples in most_first[:FAILURES_SHOWN]:
        example = f"{SYMBOLS['failed']} {len(examples)} {status}: {examples[0][:200]}"
        console.paragraph(example, console.COLOURS["failed"])
