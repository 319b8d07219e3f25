"""Load a results folder: its comparison rows, and its records in short, which planning needs.

`cache/rows.parquet` keeps both, with floors, verdicts and drift as they follow from all trials.
Whoever loads the folder brings it up to date; it may be deleted at any time.

A trial is read again when its folder changed, or when not all of it could be used. What was kept
elsewhere is not believed: in a copy of the folder, whose records lie elsewhere on the disk, all are
read again. A file that is damaged in place, with its folder's time as it was, goes unnoticed until
then; so does an edited cache, which `check` names.
"""

from __future__ import annotations

import base64
import contextlib
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from xla_sweeps.analysis.matching import FIGURES, ComparedTrial
from xla_sweeps.analysis.pool import NOTHING, Pool
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.errors import StoreError
from xla_sweeps.schema.columns import STATISTICS_VERSION
from xla_sweeps.schema.record import SCHEMA_VERSION, Record
from xla_sweeps.schema.row import ComparisonRow, TrialSummary
from xla_sweeps.store import derive
from xla_sweeps.store.derive import Facts, RecordFacts, Trials
from xla_sweeps.store.store import RACY_NS, Store, try_trial
from xla_sweeps.store.table import (
    check_size,
    differing,
    join_tables,
    rows_of,
    schema,
    sort_rows,
    table_of,
)
from xla_sweeps.system import files
from xla_sweeps.system.text import displayable

if TYPE_CHECKING:
    import pyarrow

VERSION = 28

_LIMIT_BYTES = 2**30

_MOST_BYTES, _MOST_BYTES_OF_TRIAL = 2**24, 2**18  # unpacked, of what is kept beside the rows


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a results folder: the columns of `COLUMNS`, sorted by `table.ORDER`."""

    table: pyarrow.Table
    trials: int
    records: int
    problems: tuple[str, ...]
    facts: Mapping[str, Facts] = field(default_factory=dict)

    @property
    def anchors(self) -> tuple[str, ...]:
        """The anchor trials."""
        return tuple(
            name for name, fact in self.facts.items() if any(run.anchor for run in fact.runs)
        )

    def pools(self) -> dict[str, Pool]:
        """The pool of the other trials, by trial."""
        return derive.pools_of(self.facts)


@dataclass(frozen=True, slots=True)
class Runs:
    """The records of a results folder, in short."""

    by_trial: Mapping[str, Sequence[RecordFacts]]
    clear: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, records: Mapping[str, Sequence[Record]]) -> Runs:
        """Records by trial, in short."""
        runs = {name: list(map(derive.record_facts, group)) for name, group in records.items()}
        clear = frozenset(name for name, group in records.items() if derive.is_clear(group))
        return cls(runs, clear)

    def all(self) -> Iterator[RecordFacts]:
        """Every record."""
        return (run for runs in self.by_trial.values() for run in runs)


class _Beside(msgspec.Struct):
    """Content of `rows.parquet` beside the rows."""

    modified_ns: dict[str, int] = {}
    facts: dict[str, Facts] = {}


class _InShort(msgspec.Struct, array_like=True):
    """The first of a trial's `Facts`."""

    runs: tuple[RecordFacts, ...] = ()


class _BesideInShort(msgspec.Struct):
    """Content of `rows.parquet` beside the rows, as far as `check` compares it."""

    modified_ns: dict[str, int] = {}
    facts: dict[str, _InShort] = {}


_Kept = TypeVar("_Kept", _Beside, _BesideInShort)


def load(
    results_dir: Path,
    *,
    published: bool = False,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Rows:
    """All rows of a results folder; what changed is read and kept.

    Args:
        results_dir: one that does not exist has no rows.
        published: adds the public study's figures, which ship with the package.
        advance: called with (trials read, trials to read) now and then.
    """
    table, beside, problems = _load_measured(Store(results_dir), advance)
    counts = [len(fact.runs) for fact in beside.facts.values() if fact.has_rows and fact.runs]
    rows = Rows(table, len(counts), sum(counts), problems, beside.facts)
    if not published:
        return rows
    from xla_sweeps.store.published import study

    return replace(rows, table=sort_rows(join_tables([table, table_of(study())])))


def load_runs(store: Store) -> Runs:
    """The records of a store, in short; what changed is read and kept, as `load` does."""
    _, beside, problems = _load_measured(store)
    clear = frozenset(name for name, fact in beside.facts.items() if fact.clear)
    return Runs({name: fact.runs for name, fact in beside.facts.items()}, clear, problems)


def require(results_dir: Path, rows: Rows) -> None:
    """Require a record or a published figure to show; else `StoreError`."""
    if rows.records or rows.table.num_rows:
        return
    shown = displayable(results_dir)
    if not (results_dir / "records").is_dir():
        raise StoreError(
            f"{shown} holds no records; measure first: python -m xla_sweeps model=NAME"
        )
    raise StoreError(f"{shown} holds no readable record")


def summaries(
    results_dir: Path,
    rows: Rows,
    *,
    only: Collection[str] | None = None,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[dict[str, list[Record]], dict[str, TrialSummary], tuple[str, ...]]:
    """Records and summaries by trial, for what needs more than rows; and lines that these lack.

    Raises:
        StoreError: there is no readable record.
    """

    def make(mine: Sequence[Record], own: Sequence[ComparisonRow]) -> TrialSummary:
        return derive.among_others(summarize(mine, pool=None if own else NOTHING), own)

    require(results_dir, replace(rows, table=rows.table.slice(0, 0)))
    store = Store(results_dir)
    settled: dict[str, list[ComparisonRow]] = {}
    for row in rows_of(rows.table if only is None else derive.only(rows.table, only)):
        settled.setdefault(row.trial.trial_id, []).append(row)
    records: dict[str, list[Record]] = {}
    made: dict[str, TrialSummary] = {}
    problems: list[str] = []
    names = sorted(dict(store.folders()) if only is None else only)
    for done, name in enumerate(names, start=1):
        advance(done, len(names))
        loaded = store.load(name)
        mine, own = loaded.records.get(name), settled.pop(name, [])
        problems += loaded.problems
        if mine:
            trial, unusable = try_trial(store.records_dir / name, partial(make, mine, own))
            problems += unusable
            if trial:
                records[name], made[name] = mine, trial
    if only is None and not made:
        raise StoreError(f"{results_dir} holds no readable record")
    return records, made, tuple(line for line in problems if line not in rows.problems)


def to_compare(
    results_dir: Path, rows: Rows, *, only: Collection[str] | None = None
) -> dict[str, ComparedTrial]:
    """Each trial as `compare` needs it, from its rows and facts.

    Raises:
        StoreError: there is no readable record.
    """
    require(results_dir, replace(rows, table=rows.table.slice(0, 0)))
    chosen = rows.facts.keys() if only is None else set(only)
    headlines = rows.table.filter(rows.table["headline"])
    judged: dict[str, dict[str, Any]] = {}
    for row in headlines.select(["trial_id", "floor", "floor_across", "flags"]).to_pylist():
        judged.setdefault(row.pop("trial_id"), {**row, "flags": tuple(row["flags"].split())})
    return {
        name: msgspec.structs.replace(
            fact.compared,
            figures=tuple(one for one in fact.figures if one.name in FIGURES),
            **judged.get(name, {}),
        )
        for name, fact in rows.facts.items()
        if fact.compared and name in chosen
    }


def end_trial(store: Store, trial_id: str) -> tuple[TrialSummary | None, tuple[str, ...]]:
    """Summarize a trial that ended, among all others: None without usable records; and problems."""
    loaded = store.load(trial_id)
    records = loaded.records.get(trial_id, [])
    if not records:
        return None, loaded.problems
    summary, unusable = try_trial(store.records_dir / trial_id, partial(summarize, records))
    every, unread = try_trial(store.records_dir, partial(_load_measured, store))
    if every:
        table, _, read = every
        unread += read
        if summary:
            summary = derive.among_others(summary, rows_of(derive.only(table, [trial_id])))
    return summary, tuple(dict.fromkeys((*loaded.problems, *unread, *unusable)))


def _load_measured(
    store: Store, advance: Callable[[int, int], None] = lambda done, total: None
) -> tuple[pyarrow.Table, _Beside, tuple[str, ...]]:
    """The measured rows, what is kept beside them, and a line for each file that cannot be used."""
    folders = dict(store.folders())
    table, beside = join_tables([]), _Beside()
    with contextlib.suppress(Exception):  # it is missing, too large, or not ours
        table, beside = _open_kept(store, len(folders), _Beside)
    if beside.modified_ns == folders:
        return table, beside, ()
    try:
        table, changed, problems = _update_rows(store, table, beside, folders, advance)
    except Exception:
        if not beside.modified_ns:
            raise
        beside = _Beside()  # what is kept is wrong: all are read
        table, changed, problems = _update_rows(store, join_tables([]), beside, folders, advance)
    if changed != beside:
        _save(store, table, changed)
    return table, changed, problems


def _update_rows(
    store: Store,
    table: pyarrow.Table,
    beside: _Beside,
    folders: Mapping[str, int],
    advance: Callable[[int, int], None],
) -> tuple[pyarrow.Table, _Beside, tuple[str, ...]]:
    """The kept rows brought up to date with the records."""
    now_ns = time.time_ns()
    changed = [name for name in folders if beside.modified_ns.get(name) != folders[name]]
    read = derive.read_trials(store, changed, advance)
    same = folders.keys() - {*changed}
    kept = {name: fact for name, fact in beside.facts.items() if name in same}
    facts = kept | dict(read.facts)
    if changed or len(kept) < len(beside.facts):
        rows = [derive.only(table, kept), read.table.select(table.column_names)]
        table = sort_rows(derive.with_verdicts(join_tables(rows), facts))
    modified_ns = {
        name: changed_ns if facts[name].complete and now_ns - changed_ns > RACY_NS else 0
        for name, changed_ns in folders.items()
    }
    return table, _Beside(modified_ns, facts), read.problems


def unlike_records(results_dir: Path, read: Trials) -> Iterator[str]:
    """Compare what the next reader would use with the records; a line if it is not theirs."""
    store, path = Store(results_dir), _path(results_dir)
    folders = dict(store.folders())

    def settle(table: pyarrow.Table) -> pyarrow.Table:
        facts = {name: read.facts[name] for name in same if name in read.facts}
        return derive.with_verdicts(derive.only(table, same), facts)

    try:
        kept, beside = _open_kept(store, len(folders), _BesideInShort)
        same = {name for name, _ in folders.items() & beside.modified_ns.items()}
        if beside.modified_ns != folders:  # then a reader settles the kept rows with the others
            kept = settle(kept)
        differences = differing(kept, settle(read.table))
        differences += [
            f"{name}: its records are described differently there"
            for name in sorted(same)
            if beside.facts[name].runs != read.facts[name].runs
        ]
    except FileNotFoundError:
        return
    except Exception as error:
        yield f"{path}: cannot be read: {type(error).__name__}: {error}"
        return
    if differences:
        more = f" and {len(differences) - 1} more" if differences[1:] else ""
        yield f"{path}: not the rows of the records: {differences[0]}{more}; delete {path}"


def _save(store: Store, table: pyarrow.Table, beside: _Beside) -> None:
    """Replace what is kept; a failure costs time only."""
    import pyarrow
    import pyarrow.parquet

    buffer = pyarrow.BufferOutputStream()
    with pyarrow.parquet.ParquetWriter(
        buffer, table.schema, compression="zstd", store_schema=False
    ) as writer:
        writer.write_table(table)
        packed = pyarrow.compress(msgspec.json.encode(beside), codec="zstd", asbytes=True)
        writer.add_key_value_metadata({_key(store): base64.b64encode(packed)})
    path = _path(store.results_dir)
    with contextlib.suppress(OSError):
        files.folder_in(store.results_dir, "cache")
        files.replace_whole(path, buffer.getvalue().to_pybytes())
        files.remove_left_over(path.parent.glob(".*.tmp"))


def _open_kept(store: Store, trials: int, kind: type[_Kept]) -> tuple[pyarrow.Table, _Kept]:
    """Kept rows and facts; none where they are of another version."""
    import pyarrow
    import pyarrow.parquet

    path = _path(store.results_dir)
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError("not a regular file")
    with pyarrow.memory_map(str(path)) as source:
        limit = {"thrift_string_size_limit": _LIMIT_BYTES}
        metadata = pyarrow.parquet.ParquetFile(source, **limit).metadata
        kept = metadata.metadata.get(_key(store))
        if kept is None or metadata.schema.to_arrow_schema().names != schema().names:
            return join_tables([]), kind()
        beside = msgspec.json.decode(_unpack(kept, trials), type=kind)
        check_size(metadata, trials)
        return pyarrow.parquet.ParquetFile(source, metadata=metadata).read(), beside


def _unpack(kept: bytes, trials: int) -> bytearray:
    """Content beside the rows; `ValueError` where it is more than so many trials can have."""
    import pyarrow

    most, unpacked = _MOST_BYTES + _MOST_BYTES_OF_TRIAL * trials, bytearray()
    packed = pyarrow.py_buffer(base64.b64decode(kept))
    with pyarrow.input_stream(packed, compression="zstd") as stream:
        while block := stream.read(2**20):  # which allocates so much, however little there is
            unpacked += block
            if len(unpacked) > most:
                raise ValueError(f"holds more than {most / 2**20:,.0f} MiB beside its rows")
    return unpacked


def _path(results_dir: Path) -> Path:
    return results_dir / "cache" / "rows.parquet"


def _key(store: Store) -> bytes:
    """Key of what is kept beside the rows: versions and place that it must have to be used."""
    versions = (VERSION, STATISTICS_VERSION, SCHEMA_VERSION, store.place())
    return f"xla_sweeps {'.'.join(map(str, versions))}".encode()
