"""Show results as tables on standard output."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from xla_sweeps.analysis.summary import decomposition
from xla_sweeps.analysis.trust import trust
from xla_sweeps.report import advice, overall, row_cells, study
from xla_sweeps.report.figures import (
    NONE,
    decimals,
    digits,
    interval,
    number,
    percent,
    power,
    scale_count,
    size,
    times,
    with_bounds,
)
from xla_sweeps.report.next_steps import fastest_way, next_steps
from xla_sweeps.report.sentences import DRAWN_PIPELINE, FLAG_TEXTS, SETTLE, TOO_LITTLE
from xla_sweeps.report.terminal import console
from xla_sweeps.schema.columns import IMPORTED, ModeColumns
from xla_sweeps.schema.comparisons import by_role, by_scenario
from xla_sweeps.schema.measurement import NOT_REACHED, Failure, Flag, Flagged, Status
from xla_sweeps.schema.modes import Execution, Mode, Scenario, mode_of
from xla_sweeps.schema.row import ComparisonRow, ModeSummary, TrialSummary, precision_words
from xla_sweeps.system.text import count_noun, displayable

MOST_REASONS, LINES_SHOWN = 8, 60

_STEP_OF = {Mode.FIT_XLA.role: Mode.XLA.role, Mode.FIT_GRAPH.role: Mode.GRAPH.role}
"""The mode that runs the step alone, by mode of `fit`; the first measured one is described."""

_MOST_PARTS = 8
"""Columns that a terminal has place for."""

_PARTS = ("interpreter", "import", "build", "load", "trace", "compile", "call")


def show_trial(
    summary: TrialSummary, *, places: Mapping[str, str | Path], others: str = ""
) -> None:
    """Show a trial: modes, steps, answer, caveats (`others` contaminated the newest) and paths."""
    screen = console.results_console()
    screen.print()
    screen.print(_title(summary))
    if never := _never_started(summary):
        console.paragraph(f"✕ not measured: {never}", console.COLOURS["failed"])
    else:
        console.print_table(*(modes_table(summary, detail=detail) for detail in (3, 2, 1, 0)))
        if (starts := _starts_table(summary)) is not None:
            console.print_table(starts)
        _show_answers(summary, displayable(others))
    console.say("")
    for name, place in places.items():
        console.say(f"{name:<7} {displayable(place)}", "dim")


def _show_answers(summary: TrialSummary, others: str) -> None:
    notes = (_steps_note, _input_note, _last_batch_note, _energy_note, _cache_note)
    for text in filter(None, (note(summary) for note in notes)):
        console.paragraph(text, indent=8)
    console.say("")
    ways: list[str] = []
    for row in summary.comparisons:
        if row.headline:
            mark, weight = ("~", "") if row.status is Status.CONTAMINATED else ("", "bold ")
            verdict = row.speedup.verdict
            text = f"{mark}{advice.SYMBOLS[verdict]} {advice.answer(row)}"
            console.paragraph(text, f"{weight}{console.COLOURS[verdict]}")
            if row.failure.hint and not row.failure.mode:
                console.paragraph(f"  next: {row.failure.hint}", indent=8)
            if (way := fastest_way(row, summary.modes)) and way not in ways:
                console.paragraph(way)
            ways.append(way)
            for name, step in next_steps(row):
                console.paragraph(f"{name:<7} {displayable(step)}", indent=8)
    failures: dict[str, list[str]] = {}
    for mode in summary.modes:
        if mode.failure and mode.status not in (Status.OK, Status.INTERRUPTED):
            failures.setdefault(f"{mode.status}: {_reason(mode.failure)}", []).append(mode.label)
    for reason, labels in failures.items():
        console.paragraph(f"✕ {', '.join(labels)}: {reason}", console.COLOURS["failed"])
    flags = _shown_flags(summary)
    if str(Status.CONTAMINATED) in flags:
        flags[str(Status.CONTAMINATED)] = others
    words = [word for word in ("contaminated", *FLAG_TEXTS, *flags) if word in flags]
    for first in words[:1]:  # the one that matters most
        details = f" ({flags[first]})" if flags[first] else ""
        others = ", ".join(word for word in flags if word != first)
        also = f"; also {others}" if others else ""
        console.paragraph(f"! {first}: {FLAG_TEXTS.get(first, first)}{details}{also}", "yellow")


def _reason(failure: Failure) -> str:
    return f"{failure.message}{f' ({failure.hint})' if failure.hint else ''}"


def show_rows(rows: Sequence[ComparisonRow], *, price_per_hour: float | None = None) -> None:
    """Show comparison rows, a table for each scenario; a device that all share is shown below.

    No word and no number is cut, and marks are explained. With a price per hour, a million samples
    are priced.
    """
    shared = len({row.trial.device for row in rows}) == 1
    groups = by_scenario(rows, key=lambda row: row.trial.scenario)
    for group in console.scenario_groups(groups):
        lines = row_cells.cells_of(group, with_device=not shared, price_per_hour=price_per_hour)
        cells = [
            (*others, (_colour_verdict(verdict, row), replicates))
            for row, (*others, (verdict, replicates)) in zip(group, lines, strict=True)
        ]
        headings = row_cells.headings_of(price_per_hour)
        console.print_grouped(headings, cells, right=row_cells.RIGHT, folded=("candidate",))
    if shared:
        console.paragraph(f"on {rows[0].trial.device}", "dim")
    for note in row_cells.marks_of(rows):
        console.paragraph(note, "dim")
    for group in groups.values():
        if (aa_test := trust(group)) is not None and aa_test.untrusted:
            console.paragraph(overall.trust_words(aa_test), "bold red")
    if any(row.provenance.origin == IMPORTED for row in rows):
        text = "○ imported: published by others, a single measurement of each mode, no interval"
        console.paragraph(text, "dim")


def show_tables(tables: Sequence[study.Table]) -> None:
    """Show answers to the study's questions, each with its finding and how to read it."""
    several = len({table.scenario for table in tables}) > 1
    for table in tables:
        lines, more = table.lines[:LINES_SHOWN], len(table.lines) - LINES_SHOWN
        note = f"{table.note} {count_noun(more, 'more line')}." if more > 0 else table.note
        suffix = f", scenario={table.scenario}" if several else ""
        console.paragraph(f"{table.title}{suffix}", "bold")
        console.paragraph(table.finding)
        pairs = range(0, len(table.columns), 2)
        cells = [tuple(line[place : place + 2] for place in pairs) for line in lines]
        headings = [table.columns[place : place + 2] for place in pairs]
        if cells:
            console.print_grouped(
                headings,
                cells,
                right=("images/s", "by", "tau"),
                folded=("as fast", "first", "third", "larger", "faster than", "fastest", "devices"),
            )
        console.paragraph(note, "dim")


def show_reasons(rows: Sequence[ComparisonRow]) -> None:
    """Show why rows have no figures, a line for each reason; only the first of very many."""
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        if row.failure.message and row.speedup.verdict.is_missing:
            reason = row.failure.message.removeprefix("not reached: ")
            key = (str(row.speedup.verdict), reason)
            reasons.setdefault(key, {})[row.trial.model] = None
    for (verdict, reason), (first, *others) in itertools.islice(reasons.items(), MOST_REASONS):
        more = f" and {len(others)} more" if others else ""
        console.paragraph(
            f"{advice.SYMBOLS[verdict]} {first}{more}: {reason}", console.COLOURS[verdict]
        )


def show_findings(findings: Sequence[tuple[str, str, str, str]], conclusion: str) -> None:
    """Show `doctor`'s findings: (level, subject, finding, fix), and the conclusion."""
    marks = {"ok": "✓", "absent": "–", "warn": "!", "bad": "✕"}
    colours = {"ok": "green", "absent": "default", "warn": "yellow", "bad": "red"}
    start = 3 + max(len(subject) for _, subject, _, _ in findings)
    for level, subject, text, fix in findings:
        text = f"{marks[level]} {subject:<{start - 2}}{text}"
        console.paragraph(text, colours[level], indent=start)
        if fix:
            console.paragraph(" " * start + f"-> {fix}", indent=start + 3)
    console.say("")
    for line in conclusion.splitlines():
        console.paragraph(line)


def _title(summary: TrialSummary) -> Text:
    model, trial = summary.model, summary.trial
    facts = [model.size] if model.size else []
    facts.append(f"batch {trial.batch_size}")
    facts += [f"{trial.batches} batches a call"] if trial.batches > 1 else []
    steps, left = trial.steps_per_execution, trial.samples % trial.batch_size
    facts += [f"steps_per_execution {steps}"] if steps > 1 else []
    epoch = trial.samples < trial.batch_size * trial.batches
    facts += [f"the last of {left}"] if epoch else []
    facts += [trial.scenario] if trial.scenario not in ("", Scenario.CALL) else []
    facts += [f"shapes {trial.shapes}"] if trial.shapes else []
    facts += [f"Keras {trial.keras}"] if trial.keras else []
    facts += precision_words(trial.precision, trial.tf32)
    if model.params:
        facts.append(f"{scale_count(model.params)} params")
    if model.macs:
        macs = (
            f"{number(model.macs / 1e9)} G" if model.macs >= 1e8 else scale_count(model.macs) + " "
        )
        facts.append(f"{'≥ ' if model.macs_at_least else ''}{macs}MACs")
    if model.source not in ("", "applications", "local"):
        facts.append(f"{model.source}{', random weights' if model.replica_of else ''}")
    text = Text(displayable(f"{model.variant} "), style="bold")
    device = trial.device.replace("(R)", "").replace("(TM)", "")  # all of it fits into 80 columns
    text.append(" · ".join(map(displayable, [*facts, device])), style="default")
    return text


def _never_started(summary: TrialSummary) -> str:
    """The reason if no mode was measured for one and the same reason, else ""."""
    failures = {mode.failure for mode in summary.modes if mode.failure}
    if len(failures) != 1 or not all(map(_is_unreached, summary.modes)):
        return ""
    return _reason(failures.pop()).removeprefix("not reached: ")


def _is_unreached(mode: ModeSummary) -> bool:
    """True if a replicate ended before this mode, unless it was interrupted."""
    ended = mode.failure is not None and mode.failure.kind == NOT_REACHED
    return mode.status is Status.SKIPPED or (ended and mode.status is not Status.INTERRUPTED)


def modes_table(summary: TrialSummary, *, detail: int = 3) -> Table:
    """A line for each mode: its figures and, in full `detail`, its rounds and its status.

    With 1 there are fewer figures, and with 0 names are folded too.
    """
    columns, wide = _mode_columns(summary), detail == 3
    for name in () if detail > 1 else ("p90 ms", "memory"):
        del columns[name]
    headings = ("mode", *columns, *(("rounds", "status") if wide else ()))
    table = console.empty_table(*headings, right=(*columns, "rounds"), gap=2 if wide else 1)
    for mode in summary.modes:
        name = mode.label if detail else console.fold(mode.label, console.WRAPPED_WIDTH)
        cells = [name, *(cell(mode) for cell in columns.values())]
        if wide:
            cells += [str(mode.rounds), str(mode.status)]
        table.add_row(*cells, style="" if mode.status is Status.OK else "magenta")
    return table


def _starts_table(summary: TrialSummary) -> Table | None:
    """A line for each mode: median seconds of each part, and its cache; None of other scenarios."""
    parts = {
        mode.label: dict(word.split("=") for word in mode.columns.start_parts.split())
        for mode in summary.modes
        if mode.columns.start_parts
    }
    present = dict.fromkeys(name for each in parts.values() for name in each)
    named = [name for name in _PARTS if name in present] or list(present)
    if not parts or len(named) > _MOST_PARTS:
        return None
    cached = summary.trial.compile_cache != "off"
    columns = [*named, *(["cache, MiB"] if cached else [])]
    heading = "call, s" if summary.trial.shapes else "start, s"
    table = console.empty_table(heading, *columns, right=columns)
    for mode in summary.modes:
        if own := parts.get(mode.label):
            cells = [number(float(own[name])) if name in own else NONE for name in named]
            cells += [number((mode.columns.cache_bytes or 0) / 2**20)] if cached else []
            table.add_row(mode.label, *cells)
    return table


def _mode_columns(summary: TrialSummary) -> dict[str, Callable[[ModeSummary], str]]:
    """The figures of a mode by heading; with Keras's modes, whether XLA compiles them."""
    unit = advice.throughput_unit(summary.model.task, summary.model.resolution_px)
    columns: dict[str, Callable[[ModeSummary], str]] = {
        unit: lambda mode: number(mode.columns.throughput_samples_per_s),
        "95 %": lambda mode: _rates(mode.columns),
        "p50 ms": lambda mode: number(mode.columns.latency_p50_ms),
        "p90 ms": lambda mode: number(mode.columns.latency_p90_ms),
        "compile s": lambda mode: (
            NONE if mode.compile_s is None or _is_eager(mode) else decimals(mode.compile_s, 1)
        ),
        "memory": lambda mode: size(mode.steady_memory_bytes),
        "agrees": _agreement,
    }
    if not any(mode_of(mode.label).entry.is_method for mode in summary.modes):
        return columns
    compiled = {"true": "yes", "false": "no"}
    return {"XLA": lambda mode: compiled.get(mode.columns.jit_compile, NONE), **columns}


def _is_eager(summary: ModeSummary) -> bool:
    mode = mode_of(summary.label)
    return mode.execution is Execution.EAGER and not mode.entry.is_method


def _steps_note(summary: TrialSummary) -> str:
    parts = [
        f"{step.replace('->', '→')} {times(estimate.value)}"
        + (f" ({interval(estimate.low, estimate.high)})" if estimate.low else "")
        for step, estimate in decomposition(summary).items()
    ]
    return "   ".join(["steps", *parts]) if len(parts) > 1 else ""


def _input_note(summary: TrialSummary) -> str:
    """Throughput of an epoch, of its input alone and of its steps alone, and what the input is."""
    by_label = {mode.label: mode for mode in summary.modes}
    modes = {role: by_label[label] for role, label in by_role(by_label).items()}
    unit = advice.throughput_unit(summary.model.task, summary.model.resolution_px)
    rates = {role: mode.columns.throughput_samples_per_s for role, mode in modes.items()}
    for fit, alone in _STEP_OF.items():
        whole, pipeline, step = (rates.get(role) for role in (fit, Mode.INPUT.role, alone))
        share = modes[fit].columns.input_share if fit in modes else None
        if not (whole and pipeline and step and share):
            continue
        called = mode_of(modes[fit].label).called
        sides = ("input", modes[Mode.INPUT.role].columns), ("step", modes[alone].columns)
        drawn = "" if summary.trial.data else f" {DRAWN_PIPELINE}"
        return (
            f"{called} trains on {digits(whole)} {unit}. Its input pipeline alone gives "
            f"{digits(pipeline)} ({percent(share)} of an epoch's time), its step alone "
            f"{digits(step)}: {_pace(*sides)}.{drawn}"
        )
    return ""


def _pace(*sides: tuple[str, ModeColumns]) -> str:
    (slow, first), (_, second) = sorted(sides, key=lambda side: side[1].throughput_high or math.inf)
    if (first.throughput_high or math.inf) < (second.throughput_low or 0.0):
        return f"the {slow} sets the pace"
    return (
        f"{TOO_LITTLE} which of the two limits it ({_rates(first)} and {_rates(second)}); {SETTLE}"
    )


def _rates(columns: ModeColumns) -> str:
    return interval(columns.throughput_low, columns.throughput_high, number)


def _last_batch_note(summary: TrialSummary) -> str:
    seconds = {mode.label: mode.columns.last_batch_compile_s for mode in summary.modes}
    written = ", ".join(
        f"{label} {decimals(value, 1)} s" for label, value in seconds.items() if value is not None
    )
    batch, rest = summary.trial.batch_size, summary.trial.samples % summary.trial.batch_size
    text = (
        f"The last batch of an epoch has {rest} of {batch} samples. Compiling for its size takes: "
        f"{written}. drop_remainder=true leaves it out."
    )
    return text if written else ""


def _energy_note(summary: TrialSummary) -> str:
    """Joules of a sample by mode and the idle power, or why they are not known."""
    facts = summary.comparisons[0].provenance if summary.comparisons else None
    if not facts or not facts.energy:
        return ""
    modes = [
        f"{mode.label} {with_bounds(joules, columns.joules_per_sample_low, high)}"
        for mode in summary.modes
        if (columns := mode.columns)
        and (joules := columns.joules_per_sample)
        and (high := columns.joules_per_sample_high)
    ]
    if not modes:
        return f"energy  {facts.energy}"
    idle = with_bounds(facts.idle_watts, facts.idle_watts_low, facts.idle_watts_high)
    return f"energy  {'   '.join(modes)} J a sample, each alone; {facts.energy}, idle {idle} W"


def _cache_note(summary: TrialSummary) -> str:
    """A line on starts with a damaged cache, by mode; "" where none was tried."""
    ends = {mode.label: mode.columns.damaged_cache for mode in summary.modes}
    told = [f"{label}: {displayable(end)}" for label, end in ends.items() if end]
    return f"with a damaged cache   {'; '.join(told)}" if told else ""


def _colour_verdict(verdict: str, row: ComparisonRow) -> Text:
    is_imported = row.provenance.origin == IMPORTED
    return Text(verdict, style="dim" if is_imported else console.COLOURS[row.speedup.verdict])


def _shown_flags(summary: TrialSummary) -> dict[str, str]:
    """Modes and reasons by flag, without `not_converged` where every verdict is clear."""
    is_clear = all(row.speedup.verdict.is_clear for row in summary.comparisons if row.headline)
    grouped: dict[str, list[str]] = {}
    for flag in summary.flags:
        flagged = Flagged.parse(flag)
        if flagged.flag == Flag.NOT_CONVERGED and is_clear:
            continue
        details = filter(None, (flagged.mode, flagged.note))
        grouped.setdefault(flagged.flag, []).extend(details)
    return {word: ", ".join(rests) for word, rests in grouped.items()}


def _agreement(mode: ModeSummary) -> str:
    if mode.agreement_ok is None:
        return NONE
    mark = "yes" if mode.agreement_ok else "NO"
    if mode.rmse_rel is None:
        return mark
    allowed = f" of {power(mode.allowed_rel)}" if mode.rmse_rel and mode.allowed_rel else ""
    if not mode.agreement_ok and mode.rmse_rel < (mode.allowed_rel or 0.0):
        allowed = ""  # it fails elsewhere, such as in one small weight, as the reason says
    return f"{mark} {power(mode.rmse_rel)}{allowed}"
