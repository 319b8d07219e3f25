"""Derive comparison rows from records, and what depends on other trials from the rows' columns."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from xla_sweeps.analysis import noise
from xla_sweeps.analysis.interval import JUDGED_FROM, UNKNOWN, judge
from xla_sweeps.analysis.noise import Level
from xla_sweeps.analysis.pool import FORKED, LATEST, NOTHING, Evidence, pool_of
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.results.store import Store, guarded
from xla_sweeps.results.table import joined, table_of
from xla_sweeps.schema.backend import Backend, backend_of
from xla_sweeps.schema.measurement import Flag, Status
from xla_sweeps.schema.record import Record, build_of, outcome_of
from xla_sweeps.schema.row import COLUMNS, ComparisonRow, TrialSummary

if TYPE_CHECKING:
    import pyarrow

_ROWS_AT_ONCE = 1000
"""Rows that are kept as objects before they become a table, which takes less memory."""

_GROUP = ("effort", "scenario", "device", "environment_id", "runtime", "copies")
"""The columns that trials have in common which learn from each other."""

_EVIDENCE = Evidence.__struct_fields__

_NAMES = {column.path: name for name, column in COLUMNS.items()}

_ROWS_A_TRIAL = 10
"""About as many rows as a trial ever has."""


class RecordFacts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One record, in short: for planning, and to find drift.

    Attributes:
        outcome: `schema.record.outcome_of`.
        device: `noise.device_of`.
        device_name: as the device calls itself.
        software: versions that make records comparable (`software_identity`).
        cost_s: wall time of the replicate.
        build: `schema.record.build_of`.
        level: the anchor's `noise.level_of`.
    """

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
    level: Level | None = None


class Facts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Facts of a trial that are kept beside its rows.

    Attributes:
        runs: its records.
        has_rows: whether its records can be summarized.
        complete: whether all of it could be used; else it is read again next time.
    """

    runs: tuple[RecordFacts, ...] = ()
    has_rows: bool = True
    complete: bool = True


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
        software=software_identity(record.environment, backend_of(record.trial)),
        model=record.model.name,
        cost_s=_cost_s(record),
        started_at=record.started_at,
        build=build_of(record),
        anchor=anchor,
        level=noise.level_of(record) if anchor else None,
    )


def software_identity(environment: Mapping[str, Any], backend: Backend) -> str:
    """The versions that make records of different machines comparable."""
    packages = environment.get("packages") or {}
    return " ".join(str(packages.get(name, "")) for name in backend.identity)


def _cost_s(record: Record) -> float:
    with contextlib.suppress(ValueError, TypeError):  # TypeError: one has a time zone, one has not
        begun, ended = (
            datetime.datetime.fromisoformat(text)
            for text in (record.started_at, record.finished_at)
        )
        return max(0.0, (ended - begun).total_seconds())
    return float(sum(record.seconds.values()))


def read_trials(
    store: Store,
    names: Sequence[str],
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Trials:
    """Read and summarize these trials.

    Args:
        store: of the records.
        names: of the trials.
        advance: called with (trials read, trials to read) after each.
    """

    def read() -> Iterator[tuple[str, Sequence[Record], tuple[str, ...]]]:
        for done, name in enumerate(names, start=1):
            loaded = store.load(name)
            yield name, loaded.records.get(name, []), loaded.problems
            advance(done, len(names))

    return summarized(store, read())


def summarized(
    store: Store, trials: Iterable[tuple[str, Sequence[Record], tuple[str, ...]]]
) -> Trials:
    """Summarize trials.

    Args:
        store: names the trials' folders in problems.
        trials: name and records of each, and a line for each of its files that cannot be used.
    """
    facts: dict[str, Facts] = {}
    problems: list[str] = []
    tables: list[pyarrow.Table] = []
    rows: list[ComparisonRow] = []
    for name, records, unread in trials:
        folder = store.records_dir / name
        runs, unusable = guarded(folder, partial(tuple, map(record_facts, records)))
        trial = None
        if runs:
            trial, unusable = guarded(folder, partial(summarize, records))
        facts[name] = Facts(runs or (), not unusable, complete=not (unread or unusable))
        rows += trial.comparisons if trial else ()
        problems += (*unread, *unusable)
        if len(rows) >= _ROWS_AT_ONCE:
            tables.append(table_of(rows))
            rows = []
    return Trials(joined([*tables, table_of(rows)]), facts, tuple(problems))


def settled(table: pyarrow.Table, facts: Mapping[str, Facts]) -> pyarrow.Table:
    """The rows with what depends on other trials: interval, floor, verdict and the flag `drift`."""
    spans = noise.spans_of(
        (run.device, run.started_at, run.level)
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
    return _with_drift(_judged(table), drifted)


def among_others(trial: TrialSummary, rows: Iterable[ComparisonRow]) -> TrialSummary:
    """A trial with its rows as `settled` has them; one that is not there is judged by itself."""
    by_pair = {(row.baseline.mode, row.candidate.mode): row for row in rows}
    comparisons = tuple(
        by_pair.get((row.baseline.mode, row.candidate.mode), row) for row in trial.comparisons
    )
    flags = comparisons[0].flags if comparisons else trial.flags
    return replace(trial, comparisons=comparisons, flags=flags)


def evidence_of(table: pyarrow.Table) -> dict[tuple[str, ...], list[Evidence]]:
    """Evidence of the latest trials, by the values of `_GROUP`.

    A comparison of contaminated or forked replicates is none, nor is that of a single replicate
    but of an A/A pair.
    """
    import pyarrow.compute as compute

    aa = compute.equal(
        *(
            compute.replace_substring_regex(table[side], r"_\d+$", "")
            for side in ("baseline", "candidate")
        )
    )
    counts = compute.and_(
        compute.and_(compute.is_valid(table["speedup"]), compute.equal(table["status"], "ok")),
        compute.or_(compute.greater(table["replicates"], 1), aa),
    )
    fresh = compute.invert(compute.match_substring(table["process"], FORKED))
    table = table.select([*_GROUP, *_EVIDENCE]).filter(compute.and_(counts, fresh))
    codes, names = _grouped(table, *_GROUP)
    moments = compute.rank(table["measured_at"], tiebreaker="dense").to_numpy()
    groups = {}
    for code, group in enumerate(names):
        mine = np.flatnonzero(codes == code)
        mine = mine[np.argsort(-moments[mine], kind="stable")][: _ROWS_A_TRIAL * LATEST]
        groups[group] = [Evidence(**row) for row in table.select(_EVIDENCE).take(mine).to_pylist()]
    return groups


def _judged(table: pyarrow.Table) -> pyarrow.Table:
    """The rows, each judged by what the other trials of its group say."""
    pools = {group: pool_of(evidence) for group, evidence in evidence_of(table).items()}
    ends = ("host", "baseline", "candidate", "status")
    codes, groups = _grouped(table, *_GROUP, *ends)
    priors, floors, floors_across = [], [], []
    for *group, host, baseline, candidate, status in groups:
        pool = pools.get(tuple(group), NOTHING)
        priors.append(pool.prior(baseline, candidate) if status == "ok" else UNKNOWN)
        floors.append(pool.floor(host))
        floors_across.append(pool.floor_across(host))
    floor = np.array(floors, dtype=float)[codes]
    numbers = {name: _floats(table, name) for name in JUDGED_FROM}
    measured = np.flatnonzero(~np.isnan(numbers["speedup"]) & (numbers["replicates"] > 0))
    judgement = judge(
        {name: column[measured] for name, column in numbers.items()},
        priors=np.array(priors, dtype=float).reshape(-1, len(UNKNOWN))[codes[measured]],
        floor=floor[measured],
    )
    verdicts = np.array(table["verdict"].to_pylist(), dtype=object)
    verdicts[measured] = [str(verdict) for verdict in judgement.pop("verdict")]
    columns = {"floor": floor, "floor_across": np.array(floors_across, dtype=float)[codes]}
    for field_name, values in judgement.items():
        name = _NAMES[f"speedup.{field_name}"]
        columns[name] = _floats(table, name)
        columns[name][measured] = values
    return _replaced(table, verdict=verdicts, **columns)


def _floats(table: pyarrow.Table, name: str) -> npt.NDArray[np.float64]:
    """A copy of a column of numbers; NaN where one is missing."""
    numbers: npt.NDArray[np.float64] = table[name].cast("float64").to_numpy().copy()
    return numbers


def _grouped(
    table: pyarrow.Table, *columns: str
) -> tuple[npt.NDArray[np.intp], list[tuple[str, ...]]]:
    """A code for each row, and the values of these columns that each code stands for."""
    coded = [table[name].combine_chunks().dictionary_encode() for name in columns]
    codes = np.zeros(table.num_rows, dtype=np.intp)
    for column in coded:
        both = codes * len(column.dictionary) + np.asarray(column.indices)
        codes = np.unique(both, return_inverse=True)[1]
    _, rows = np.unique(codes, return_index=True)
    values = [column.take(rows).to_pylist() for column in coded]
    return codes, list(zip(*values, strict=True))


def _with_drift(table: pyarrow.Table, drifted: set[str]) -> pyarrow.Table:
    """The rows with the flag `drift` where their trial drifted, and only there."""
    changed = []
    for trial, text in zip(table["trial_id"].to_pylist(), table["flags"].to_pylist(), strict=True):
        flags = {*text.split()} - {str(Flag.DRIFT)}
        if trial in drifted:
            flags.add(str(Flag.DRIFT))
        changed.append(" ".join(sorted(flags)))
    return _replaced(table, flags=changed)


def _replaced(table: pyarrow.Table, **columns: Any) -> pyarrow.Table:
    """The table with other columns; NaN is a missing number."""
    import pyarrow

    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        kept = table.schema.field(place)
        made = pyarrow.array(values, kept.type, from_pandas=True)
        table = table.set_column(place, kept, made)
    return table


def merged(table: pyarrow.Table, dropped: Iterable[str], read: Trials) -> pyarrow.Table:
    """The kept rows without the dropped trials, and the rows of what was read."""
    import pyarrow.compute as compute

    kept = table.filter(compute.invert(_are_of(table, dropped)))
    return joined([kept, read.table.select(table.column_names)])


def only(table: pyarrow.Table, trials: Iterable[str]) -> pyarrow.Table:
    """The rows of these trials."""
    return table.filter(_are_of(table, trials))


def _are_of(table: pyarrow.Table, trials: Iterable[str]) -> pyarrow.BooleanArray:
    """Array that holds for each row whether it is of one of these trials."""
    import pyarrow
    import pyarrow.compute as compute

    chosen = pyarrow.array(sorted(trials), pyarrow.string())
    return compute.is_in(table["trial_id"], value_set=chosen)
