"""What to do after a trial: what to write in Keras, why, and what to run next. Pure."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator

from xla_sweeps.analysis.interval import MOST_TO_SETTLE
from xla_sweeps.report.advice import name_of
from xla_sweeps.report.figures import times
from xla_sweeps.report.sentences import fill
from xla_sweeps.schema.columns import IMPORTED, Verdict
from xla_sweeps.schema.comparisons import facts_of, is_aa_pair, is_told_by
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import DEFAULT_BACKEND, Execution, Scenario, mode_of
from xla_sweeps.schema.row import ComparisonRow, ModeSummary

_OF_THE_MODEL = frozenset(
    ("model", "source", "resolution", "batch_size", "path", "import", "trust_code", "precision")
)

_SWITCH = {Verdict.FASTER: True, Verdict.SLOWER: False}

_PROGRAM = "python -m xla_sweeps "

_VARIABLES = re.compile(r"(?:[A-Z][A-Z0-9_]*=(?:'[^']*'|[^'\s])* )*")
"""`OMP_NUM_THREADS=1 XLA_FLAGS='--a --b'`: what a row's command begins with at some sites."""


def next_steps(row: ComparisonRow) -> Iterator[tuple[str, str]]:
    """The next steps after a comparison of XLA with the same execution without it, by their names.

    Of a mode outside TensorFlow, what to write where it is faster than another mode of its
    framework. Of new shapes the command that prices them. Nothing for other pairs, published rows
    and failures.
    """
    baseline, candidate = row.baseline.mode, row.candidate.mode
    if row.provenance.origin == IMPORTED or not baseline or is_aa_pair(baseline, candidate):
        return
    executions = (mode_of(baseline).execution, mode_of(candidate).execution)
    mode, verdict = mode_of(candidate), row.speedup.verdict
    if row.trial.shapes:
        if executions[1] in (Execution.XLA, Execution.COMPILED) and not verdict.is_missing:
            yield from _shapes_step(row)
        return
    if mode.backend != DEFAULT_BACKEND:
        told = mode.entry.is_method or not is_told_by(row.trial.scenario, candidate)
        if verdict is Verdict.FASTER and not told:
            yield "write", mode.switch
        if verdict in _SWITCH and mode_of(baseline).backend == mode.backend:
            yield from _why(row, mode.backend)
    elif executions == (Execution.GRAPH, Execution.XLA) and verdict in _SWITCH:
        switch = _SWITCH[verdict]
        yield "write", facts_of(row.trial.scenario).write.format(switch=switch)
        yield from _why(row)
    more = row.speedup.replicates_to_settle
    if verdict is Verdict.AMBIGUOUS and more and more <= MOST_TO_SETTLE and row.provenance.command:
        variables, program, line = row.provenance.command.partition(_PROGRAM)
        words = [word for word in shlex.split(line) if not word.startswith("effort.replicates=")]
        words.append(f"effort.replicates={int(more)}")
        yield "next", variables + program + shlex.join(words)


def fastest_way(row: ComparisonRow, modes: Iterable[ModeSummary]) -> str:
    """A sentence on a mode that is faster than both sides of a row; "" for none, and for `fit`."""
    sides = {row.baseline.mode: row.baseline, row.candidate.mode: row.candidate}
    others = [
        (mode.columns.throughput_samples_per_s, mode.columns.throughput_low or 0.0, mode.label)
        for mode in modes
        if mode.columns.throughput_samples_per_s
        and mode.label not in sides
        and mode.status is Status.OK
    ]
    usual = row.baseline.throughput_samples_per_s
    if row.trial.scenario == Scenario.FIT or not others or not usual:
        return ""
    best, low, label = max(others)
    if low <= max(side.throughput_high or math.inf for side in sides.values()):
        return ""
    text = fill(
        "fastest way",
        mode=name_of(label),
        speedup=times(best / usual),
        baseline=name_of(row.baseline.mode),
    )
    return f"{'~ ' if row.status is Status.CONTAMINATED else ''}{text}."


def _why(row: ComparisonRow, backend: str = "") -> Iterator[tuple[str, str]]:
    if explained := command_of("explain", row.provenance.command, backend):
        trains = facts_of(row.trial.scenario).trains
        yield "why", f"{explained}{'  # of the forward pass' if trains else ''}"


def _shapes_step(row: ComparisonRow) -> Iterator[tuple[str, str]]:
    """The command that says from how many calls of each shape which mode pays."""
    names = row.trial.shapes.split()
    sizes = [name for name in names if not name.startswith("b")]
    counts = [name[1:] for name in names if name.startswith("b")]
    given = [word for word in ("--sizes", ",".join(sizes)) if sizes]
    given += [word for word in ("--batches", ",".join(counts)) if counts]
    backend = mode_of(row.candidate.mode).backend
    others = "" if backend == DEFAULT_BACKEND else backend
    if command := command_of("shapes", row.provenance.command, others, given):
        yield "calls", command


def command_of(name: str, command: str, backend: str = "", given: Iterable[str] = ()) -> str:
    """A command on a trial's model, with its variables; "" for another program."""
    variables, program, line = command.partition(_PROGRAM)
    if not program or not _VARIABLES.fullmatch(variables):
        return ""
    words = shlex.split(line)
    kept = words[:2] if words[:1] == ["--config-dir"] else []
    kept += [word for word in words if word.partition("=")[0] in _OF_THE_MODEL]
    kept += [f"backend={backend}"] if backend else []
    return variables + shlex.join(["xla-sweeps", name, *kept, *given])
