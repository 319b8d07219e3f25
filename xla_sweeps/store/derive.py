"""Derive comparison rows from records, and what depends on other trials from the rows' columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from xla_sweeps.analysis import noise
from xla_sweeps.analysis.judging import NEEDED, judge_columns
from xla_sweeps.analysis.matching import ComparedTrial, compared_trial
from xla_sweeps.analysis.pool import Evidence, Pool, pool_of
from xla_sweeps.analysis.summary import headline_clear, summarize, with_rows
from xla_sweeps.schema.backend import Backend, backends_of
from xla_sweeps.schema.measurement import Flag, Status
from xla_sweeps.schema.record import Record, build_of, outcome_of, wall_s
from xla_sweeps.schema.row import ComparisonRow, Figure, TrialSummary, value_of
from xla_sweeps.store.store import Store, try_trial
from xla_sweeps.store.table import join_tables, table_of
from xla_sweeps.system.parallel import in_parts

if TYPE_CHECKING:
    import pyarrow

_GROUP = ("effort", "scenario", "device", "environment_id", "runtime", "copies")
"""The columns that trials have in common which learn from each other."""


class RecordFacts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One record, in short: for planning, and to find drift; `software` is `software_identity`."""

    trial_id: str
    replicate: int
    outcome: Status
    request_id: str
    device: str
    device_name: str
    software: str
    model: str
    cost_s: float
    started_at: str
    build: dict[str, str]
    anchor: bool
    level: Figure | None = None


class Facts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Facts of a trial that are kept beside its rows.

    Attributes:
        group: values of `_GROUP`; none of a trial without rows, which learns from no other.
        complete: whether all of it could be used; else it is read again next time.
    """

    runs: tuple[RecordFacts, ...] = ()
    figures: tuple[Figure, ...] = ()
    group: tuple[str, ...] = ()
    host: str = ""
    measured_at: str = ""
    has_rows: bool = True
    complete: bool = True
    clear: bool = False
    compared: ComparedTrial | None = None


@dataclass(frozen=True, slots=True)
class Trials:
    """Some trials: their rows, not judged yet and without the flag `drift`."""

    table: pyarrow.Table
    facts: Mapping[str, Facts]
    problems: tuple[str, ...] = field(default=())


def record_facts(record: Record) -> RecordFacts:
    """A record, in short."""
    anchor = noise.is_anchor(record)
    return RecordFacts(
        trial_id=record.trial_id,
        replicate=record.replicate,
        outcome=outcome_of(record),
        request_id=record.request_id,
        device=noise.device_of(record),
        device_name=str(record.device.get("name", "")),
        software=software_identity(record.environment, *backends_of(record.trial)),
        model=record.model.name,
        cost_s=wall_s(record),
        started_at=record.started_at,
        build=build_of(record),
        anchor=anchor,
        level=noise.level_of(record) if anchor else None,
    )


def is_clear(records: Sequence[Record]) -> bool:
    """True if records, some of them contaminated, settle their headline; False for damaged ones."""
    return any(record.status is Status.CONTAMINATED for record in records) and bool(
        try_trial(Path(records[0].trial_id), lambda: headline_clear(records))[0]
    )


def software_identity(environment: Mapping[str, Any], *measured: Backend) -> str:
    """The versions that make records of different machines comparable."""
    packages = environment.get("packages") or {}
    names = (name for backend in measured for name in backend.identity)
    return " ".join(str(packages.get(name, "")) for name in names)


class Part(msgspec.Struct):
    """Some trials as they travel between processes: their rows as an Arrow stream."""

    rows: bytes
    facts: dict[str, Facts]
    problems: tuple[str, ...]

    @classmethod
    def of(cls, trials: Trials) -> Part:
        """These trials."""
        import pyarrow

        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, trials.table.schema) as writer:
            writer.write_table(trials.table)
        return cls(sink.getvalue().to_pybytes(), dict(trials.facts), trials.problems)


def join_parts(parts: Sequence[Part]) -> Trials:
    """The trials of all parts."""
    import pyarrow

    tables = (pyarrow.ipc.open_stream(part.rows).read_all() for part in parts)
    facts = {name: fact for part in parts for name, fact in part.facts.items()}
    problems = tuple(line for part in parts for line in part.problems)
    return Trials(join_tables(tables), facts, problems)


def read_trials(
    store: Store,
    names: Sequence[str],
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Trials:
    """Read and summarize these trials."""
    read = list[Part]()
    for done, part in in_parts(_read_part, str(store.results_dir), names, Part):
        read.append(part)
        advance(done, len(names))
    return join_parts(read)


def _read_part(folder: str, names: Sequence[str]) -> Part:
    store = Store(Path(folder))
    loaded = ((name, store.load(name)) for name in names)
    return Part.of(
        summarize_trials(
            store, ((name, one.records.get(name, []), one.problems) for name, one in loaded)
        )
    )


def summarize_trials(
    store: Store, trials: Iterable[tuple[str, Sequence[Record], tuple[str, ...]]]
) -> Trials:
    """Summarize trials."""
    facts: dict[str, Facts] = {}
    problems: list[str] = []
    rows: list[ComparisonRow] = []
    for name, records, unread in trials:
        folder = store.records_dir / name
        runs, unusable = try_trial(folder, partial(tuple, map(record_facts, records)))
        made = None
        if runs:
            made, unusable = try_trial(folder, partial(_summarize, records))
        trial, own = made or (None, Facts())
        facts[name] = msgspec.structs.replace(
            own,
            runs=runs or (),
            has_rows=not unusable,
            complete=not (unread or unusable),
            clear=is_clear(records),
        )
        rows += trial.comparisons if trial else ()
        problems += (*unread, *unusable)
    return Trials(table_of(rows), facts, tuple(problems))


def _summarize(records: Sequence[Record]) -> tuple[TrialSummary, Facts]:
    """A trial by itself, and the facts by which others learn from it and `compare` knows it."""
    trial = summarize(records, pool=None)
    spread = (msgspec.structs.replace(one, values=(), errors=()) for one in trial.figures)
    own = Facts(figures=tuple(spread), compared=compared_trial(records, trial))
    if not trial.comparisons:
        return trial, own
    row = trial.comparisons[0]
    return trial, msgspec.structs.replace(
        own,
        group=tuple(str(value_of(row, name)) for name in _GROUP),
        host=row.provenance.host,
        measured_at=row.provenance.measured_at,
    )


def with_verdicts(table: pyarrow.Table, facts: Mapping[str, Facts]) -> pyarrow.Table:
    """The rows with what depends on other trials: interval, floor, verdict and the flag `drift`."""
    spans = noise.spans_of(
        (run.device, run.trial_id, run.started_at, run.level)
        for fact in facts.values()
        for run in fact.runs
        if run.level is not None
    )
    drifted = {
        name
        for name, fact in facts.items()
        if any(
            not run.anchor and noise.is_within(run.started_at, spans.get(run.device, ()))
            for run in fact.runs
        )
    }
    columns = {name: table[name].to_pylist() for name in NEEDED}
    figures = {
        name: {(figure.name, figure.labels): figure for figure in fact.figures}
        for name, fact in facts.items()
    }
    made = judge_columns(columns, figures, pools_of(facts))
    made["verdict"] = list(map(str, made["verdict"]))
    made["flags"] = _with_drift(columns["trial_id"], table["flags"].to_pylist(), drifted)
    return _replace_columns(table, made)


def pools_of(facts: Mapping[str, Facts]) -> dict[str, Pool]:
    """The pool of each trial: what the trials of its group say together."""
    groups: dict[tuple[str, ...], list[Evidence]] = {}
    for trial, fact in facts.items():
        if fact.group:
            own = Evidence(trial, fact.measured_at, fact.host, fact.figures)
            groups.setdefault(fact.group, []).append(own)
    pools = {group: pool_of(evidence) for group, evidence in groups.items()}
    return {trial: pools[fact.group] for trial, fact in facts.items() if fact.group}


def among_others(trial: TrialSummary, rows: Iterable[ComparisonRow]) -> TrialSummary:
    """A trial with its rows as `settled` has them; one that is not there is judged by itself."""
    by_pair = {(row.baseline.mode, row.candidate.mode): row for row in rows}
    comparisons = tuple(
        by_pair.get((row.baseline.mode, row.candidate.mode), row) for row in trial.comparisons
    )
    noted = {flag.partition(": ")[0]: flag for flag in trial.flags}  # rows have no notes
    flags = comparisons[0].flags if comparisons else trial.flags
    flags = tuple(noted.get(flag, flag) for flag in flags)
    return replace(with_rows(trial, comparisons), flags=flags)


def _with_drift(trials: Sequence[str], flags: Sequence[str], drifted: set[str]) -> list[str]:
    """The flags of each row, with `drift` where its trial drifted, and only there."""
    drift = {str(Flag.DRIFT)}
    return [
        " ".join(sorted({*text.split()} - drift | (drift if trial in drifted else set())))
        for trial, text in zip(trials, flags, strict=True)
    ]


def _replace_columns(table: pyarrow.Table, columns: Mapping[str, Any]) -> pyarrow.Table:
    """The table with other columns; NaN is a missing number."""
    import pyarrow

    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        kept = table.schema.field(place)
        made = pyarrow.array(values, kept.type, from_pandas=True)
        table = table.set_column(place, kept, made)
    return table


def only(table: pyarrow.Table, trials: Iterable[str]) -> pyarrow.Table:
    """The rows of these trials."""
    import pyarrow
    import pyarrow.compute as compute

    chosen = pyarrow.array(sorted(trials), pyarrow.string())
    mask = compute.is_in(table["trial_id"], value_set=chosen)
    return table if compute.all(mask).as_py() else table.filter(mask)
