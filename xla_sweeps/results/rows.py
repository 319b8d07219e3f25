"""Load a results folder: its comparison rows, and its records in short, which planning needs.

Both are kept in `cache/`, which may be deleted at any time:

- `rows.parquet`: all rows, with floors, verdicts and drift as they follow from all trials.
- `rows/<trial>.json`: what a trial wrote when it ended, until the next reader merges it.

A trial is read again when its folder changed, or when not all of it could be used. What was kept
elsewhere is not believed: in a copy of the folder, whose records lie elsewhere on the disk, all are
read again. A file that is damaged in place, with its folder's time as it was, goes unnoticed until
then; so does an edited cache, which `check` names.
"""

from __future__ import annotations

import contextlib
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from xla_sweeps.analysis import noise
from xla_sweeps.analysis.noise import Span
from xla_sweeps.analysis.pool import NOTHING, Pool
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.errors import StoreError
from xla_sweeps.results import derive
from xla_sweeps.results.derive import Facts, Run, Trials
from xla_sweeps.results.store import RACY_NS, Store, guarded
from xla_sweeps.results.table import (
    differing,
    joined,
    ordered,
    schema,
    table_of,
    table_of_documents,
)
from xla_sweeps.schema.columns import STATISTICS_VERSION
from xla_sweeps.schema.record import SCHEMA_VERSION, Record
from xla_sweeps.schema.row import COLUMNS, TrialSummary, row_dict
from xla_sweeps.system import files
from xla_sweeps.system.parquet import check_size

if TYPE_CHECKING:
    import pyarrow

VERSION = 16

_LIMIT_BYTES = 2**30

_MERGED_FROM = 100
"""Ended trials from which on the next one to end merges their rows with the others."""

_META = b"xla_sweeps"

_UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError, msgspec.MsgspecError)

_Key = tuple[int, int, int, int]
"""Versions and place that what is kept must have to be used."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a results folder.

    Attributes:
        table: the columns of `schema.row.COLUMNS`, sorted by `table.ORDER`.
        trials: how many were measured.
        records: how many there are.
        problems: a line for each file that cannot be used.
        spans: when each device drifted.
    """

    table: pyarrow.Table
    trials: int
    records: int
    problems: tuple[str, ...]
    spans: Mapping[str, list[Span]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Runs:
    """The records of a results folder, in short.

    Attributes:
        by_trial: those of each trial, oldest first.
        problems: a line for each file that cannot be used.
    """

    by_trial: Mapping[str, Sequence[Run]]
    problems: tuple[str, ...] = ()

    def all(self) -> Iterator[Run]:
        """Every record."""
        return (run for runs in self.by_trial.values() for run in runs)


@dataclass(frozen=True, slots=True)
class EndedTrial:
    """A trial at its end: None where it has no readable record."""

    summary: TrialSummary | None
    problems: tuple[str, ...]


class _Beside(msgspec.Struct):
    """What `rows.parquet` holds beside the rows."""

    version: _Key
    modified_ns: dict[str, int]
    trials: int
    records: int
    spans: dict[str, list[Span]]
    facts: msgspec.Raw


class _Stamp(msgspec.Struct):
    """What every version has kept beside its rows."""

    version: tuple[int, ...] = ()


class _KeptTrial(msgspec.Struct):
    """What `rows/<trial>.json` holds."""

    version: _Key
    facts: Facts
    rows: list[dict[str, str | bool | int | float | None]]


def load(
    results_dir: Path,
    *,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Rows:
    """All rows of a results folder, measured and imported; what changed is read and kept.

    Args:
        results_dir: the results folder; one that does not exist has no rows.
        advance: called with (trials read, trials to read) now and then.
    """
    table, beside, problems = _measured(Store(results_dir), advance)
    rows = Rows(table, beside.trials, beside.records, problems, beside.spans)
    if not (results_dir / "imported").is_dir():
        return rows
    from xla_sweeps.results import imported

    published, further = imported.load(results_dir)
    if published:
        table = ordered(joined([table, table_of(published)]))
    return replace(rows, table=table, problems=(*problems, *further))


def load_runs(store: Store) -> Runs:
    """The records of a store, in short; what changed is read and kept, as `load` does."""
    folders = dict(store.folders())
    problems: tuple[str, ...] = ()
    _, beside = _read_parquet(store, folders, rows=False)
    if beside.modified_ns != folders:
        _, beside, problems = _measured(store)
    facts = msgspec.json.decode(beside.facts, type=dict[str, Facts])
    return Runs({name: found.runs for name, found in facts.items()}, problems)


def require(results_dir: Path, rows: Rows) -> None:
    """Require something to show.

    Raises:
        StoreError: there is no such folder, or neither a record nor an import in it.
    """
    if rows.records or rows.table.num_rows:
        return
    if not (results_dir / "records").is_dir():
        raise StoreError(
            f"{results_dir} holds no records; measure first: python -m xla_sweeps model=NAME"
        )
    raise StoreError(f"{results_dir} holds no readable record")


def summaries(
    results_dir: Path, rows: Rows, *, only: Collection[str] | None = None
) -> tuple[dict[str, list[Record]], dict[str, TrialSummary], tuple[str, ...]]:
    """Records and summaries by trial, for what needs more than rows; lines that rows do not have.

    Args:
        results_dir: the results folder.
        rows: of the folder; what trials say of each other and drift are taken from them.
        only: these trials (default: all).

    Raises:
        StoreError: there is no readable record.
    """
    require(results_dir, replace(rows, table=rows.table.slice(0, 0)))
    store = Store(results_dir)
    loaded = [store.load()] if only is None else [store.load(trial) for trial in sorted(only)]
    pools = derive.pools_of(rows.table)
    records: dict[str, list[Record]] = {}
    found: dict[str, TrialSummary] = {}
    problems = [problem for part in loaded for problem in part.problems]
    for trial, group in (
        (trial, group) for part in loaded for trial, group in part.records.items()
    ):
        flagged = noise.flagged(group, rows.spans)
        make = partial(summarize, flagged, pool=pools.get(trial, NOTHING))
        summary, unusable = guarded(store.records_dir / trial, make)
        problems += unusable
        if summary is not None:
            records[trial], found[trial] = flagged, summary
    if only is None and not found:
        raise StoreError(f"{results_dir} holds no readable record")
    return records, found, tuple(line for line in problems if line not in rows.problems)


def end_trial(store: Store, trial_id: str) -> EndedTrial:
    """Summarize a trial that ended, and keep its rows for the next reader.

    Reads the records of this trial alone. What other trials say comes from the kept rows; trials
    that were copied into the folder count from the next `load` on.
    """
    listing = store.listing(trial_id)
    loaded = store.load(trial_id)
    records = loaded.records.get(trial_id, [])
    if not records:
        return EndedTrial(None, loaded.problems)
    folder = store.records_dir / trial_id
    found, problems = guarded(folder, partial(summarize, records))
    problems = loaded.problems + problems
    if found is None:
        return EndedTrial(None, problems)
    if not problems:
        facts, rows = derive.facts_of(records, listing), found.comparisons
        kept = _KeptTrial(_key(store), facts, list(map(row_dict, rows)))
        _write(store.results_dir, f"rows/{trial_id}.json", msgspec.json.encode(kept))
    others, unread = guarded(store.records_dir, partial(_pool_of, store, found))
    pool, said = others or (NOTHING, ())
    return EndedTrial(
        found if pool == NOTHING else summarize(records, pool=pool),
        tuple(dict.fromkeys((*problems, *said, *unread))),
    )


def _measured(
    store: Store,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[pyarrow.Table, _Beside, tuple[str, ...]]:
    """The measured rows, what is kept beside them, and a line for each file that cannot be used."""
    folders = dict(store.folders())
    table, beside = _read_parquet(store, folders)
    problems: tuple[str, ...] = ()
    if beside.modified_ns != folders:
        pending = _pending(store.results_dir)
        try:
            table, changed, problems = _updated(store, table, beside, folders, pending, advance)
        except Exception:
            if not beside.modified_ns and not pending:
                raise
            beside, pending = _nothing(store), []  # what is kept is wrong: all are read
            table, changed, problems = _updated(store, joined([]), beside, folders, [], advance)
        if (changed.modified_ns, changed.facts) != (beside.modified_ns, beside.facts):
            _save(store, table, changed, pending)
        beside = changed
    return table, beside, problems


def _updated(
    store: Store,
    table: pyarrow.Table,
    beside: _Beside,
    folders: Mapping[str, int],
    pending: Collection[str],
    advance: Callable[[int, int], None],
) -> tuple[pyarrow.Table, _Beside, tuple[str, ...]]:
    """The kept rows brought up to date with the records."""
    now_ns = time.time_ns()
    facts = msgspec.json.decode(beside.facts, type=dict[str, Facts])
    stale = [name for name, found in folders.items() if beside.modified_ns.get(name) != found]
    changed = [
        name for name in stale if name not in facts or facts[name].listing != store.listing(name)
    ]
    read = [_ended_trials(store, {*changed} & {*pending})]
    unread = [name for name in changed if name not in read[0].facts]
    read.append(derive.read_trials(store.results_dir, unread, advance))
    dropped = {*changed, *(name for name in facts if name not in folders)}
    facts = {name: fact for name, fact in facts.items() if name not in dropped}
    for part in read:
        facts.update(part.facts)
    spans = beside.spans
    if dropped:
        table, spans = derive.settled(derive.merged(table, dropped, read), facts)
        table = ordered(table)
    after = _Beside(
        version=_key(store),
        modified_ns={
            name: found if facts[name].listing and now_ns - found > RACY_NS else 0
            for name, found in folders.items()
        },
        trials=sum(bool(fact.runs) for fact in facts.values() if fact.has_rows),
        records=sum(len(fact.runs) for fact in facts.values() if fact.has_rows),
        spans=spans,
        facts=msgspec.Raw(msgspec.json.encode(facts)),
    )
    return table, after, tuple(problem for part in read for problem in part.problems)


def unlike_records(results_dir: Path, read: Trials) -> Iterator[str]:
    """Compare what is kept with the records; a line for each kept file that is not theirs.

    Only what the next reader would use is compared: of this version and place, and of trials whose
    folders have not changed since.

    Args:
        results_dir: the results folder.
        read: all of its trials, derived from their records just now.
    """
    import pyarrow

    store, cache = Store(results_dir), results_dir / "cache"
    folders = dict(store.folders())

    def settled(table: pyarrow.Table, trials: Collection[str]) -> pyarrow.Table:
        facts = {name: read.facts[name] for name in trials if name in read.facts}
        return derive.settled(_only(table, trials), facts)[0]

    try:
        kept, beside = _opened_parquet(store, folders)
        same = {
            name for name, changed in folders.items() if beside.modified_ns.get(name) == changed
        }
        if beside.modified_ns != folders:  # then a reader settles the kept rows with the others
            kept = settled(kept, same)
        facts = msgspec.json.decode(beside.facts, type=dict[str, Facts])
        differences = [
            *differing(kept, settled(read.table, same)),
            *_unlike_runs(facts, read.facts, same),
        ]
        yield from _reported(cache / "rows.parquet", differences)
    except FileNotFoundError:
        pass
    except (*_UNREADABLE, pyarrow.ArrowException) as error:
        yield f"{cache / 'rows.parquet'}: cannot be read: {type(error).__name__}: {error}"
    ended = _ended_trials(store, {*folders} & {*_pending(results_dir)})
    kept, fresh = (settled(table, ended.facts) for table in (ended.table, read.table))
    for name in ended.facts:
        differences = [
            *differing(_only(kept, {name}), _only(fresh, {name})),
            *_unlike_runs(ended.facts, read.facts, {name}),
        ]
        yield from _reported(cache / "rows" / f"{name}.json", differences)


def _unlike_runs(
    kept: Mapping[str, Facts], read: Mapping[str, Facts], names: Collection[str]
) -> list[str]:
    """A line for each of these trials whose records in short are not those of its records."""
    return [
        f"{name}: its records are described differently there"
        for name in sorted(names)
        if kept[name].runs != read[name].runs
    ]


def _reported(path: Path, differences: Sequence[str]) -> Iterator[str]:
    if differences:
        more = f" and {len(differences) - 1} more" if differences[1:] else ""
        yield f"{path}: not the rows of the records: {differences[0]}{more}; delete {path}"


def _only(table: pyarrow.Table, trials: Collection[str]) -> pyarrow.Table:
    import pyarrow
    import pyarrow.compute as compute

    chosen = pyarrow.array(sorted(trials), pyarrow.string())
    return table.filter(compute.is_in(table["trial_id"], value_set=chosen))


def _pending(results_dir: Path) -> list[str]:
    """The trials that ended since the rows were last merged."""
    folder = results_dir / "cache" / "rows"
    if folder.is_symlink() or folder.parent.is_symlink():  # what is merged is deleted
        return []
    with contextlib.suppress(OSError):
        return [path.stem for path in folder.glob("*.json")]
    return []


def _ended_trials(store: Store, names: Collection[str]) -> Trials:
    """What these trials kept at their end, as far as their folders are as they were then."""
    documents: list[Mapping[str, Any]] = []
    facts: dict[str, Facts] = {}
    for name in sorted(names):
        kept = _decoded(store, f"rows/{name}.json", _KeptTrial)
        if (
            kept is not None
            and kept.facts.listing == store.listing(name)
            and all(row.keys() == COLUMNS.keys() for row in kept.rows)
        ):
            documents += kept.rows
            facts[name] = kept.facts
    return Trials(table_of_documents(documents), facts)


def _pool_of(store: Store, found: TrialSummary) -> tuple[Pool, tuple[str, ...]]:
    """The pool of a trial that ended, itself included; a line for each file that cannot be used."""
    problems: tuple[str, ...] = ()
    pending = {*_pending(store.results_dir)}
    table, beside = _read_parquet(store, dict(store.folders()))
    if not beside.modified_ns or len(pending) >= _MERGED_FROM:
        table, _, problems = _measured(store)
        pending = set()
    own = Trials(table_of(found.comparisons), {})
    ended = _ended_trials(store, pending - {found.trial_id})
    table = derive.merged(table, {*ended.facts, found.trial_id}, [ended, own])
    return derive.pools_of(table).get(found.trial_id, NOTHING), problems


def _save(store: Store, table: pyarrow.Table, beside: _Beside, merged: list[str]) -> None:
    """Replace what is kept, and delete what trials kept at their end; a failure costs time only."""
    import pyarrow
    import pyarrow.parquet

    cache = store.results_dir / "cache"
    buffer = pyarrow.BufferOutputStream()
    with pyarrow.parquet.ParquetWriter(
        buffer, table.schema, compression="zstd", store_schema=False
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({_META: msgspec.json.encode(beside)})
    if not _write(store.results_dir, "rows.parquet", buffer.getvalue().to_pybytes()):
        return
    files.remove_left_over([*cache.glob(".*.tmp"), *cache.glob("rows/.*.tmp")])
    for name in merged:
        with contextlib.suppress(OSError):
            (cache / "rows" / f"{name}.json").unlink()


def _read_parquet(
    store: Store, folders: Mapping[str, int], *, rows: bool = True
) -> tuple[pyarrow.Table, _Beside]:
    """What is kept; nothing where there is none, it is too large, or another version wrote it.

    Args:
        store: of the results folder.
        folders: time of change of each trial's folder.
        rows: whether rows are read, or only what is beside them.
    """
    import pyarrow

    with contextlib.suppress(*_UNREADABLE, pyarrow.ArrowException):
        return _opened_parquet(store, folders, rows=rows)
    return joined([]), _nothing(store)


def _opened_parquet(
    store: Store, folders: Mapping[str, int], *, rows: bool = True
) -> tuple[pyarrow.Table, _Beside]:
    import pyarrow
    import pyarrow.parquet

    path = store.results_dir / "cache" / "rows.parquet"
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError("not a regular file")
    with pyarrow.memory_map(str(path)) as source:
        limit = {"thrift_string_size_limit": _LIMIT_BYTES}
        metadata = pyarrow.parquet.ParquetFile(source, **limit).metadata
        stamp = msgspec.json.decode(metadata.metadata[_META], type=_Stamp)
        names = metadata.schema.to_arrow_schema().names
        if stamp.version != _key(store) or names != schema().names:
            return joined([]), _nothing(store)
        beside = msgspec.json.decode(metadata.metadata[_META], type=_Beside)
        check_size(metadata, len(folders))
        if not rows:
            return joined([]), beside
        return pyarrow.parquet.ParquetFile(source, metadata=metadata).read(), beside


def _nothing(store: Store) -> _Beside:
    return _Beside(_key(store), {}, 0, 0, {}, msgspec.Raw(b"{}"))


def _decoded(store: Store, name: str, kind: type[Any]) -> Any:
    """A kept JSON document; None where it cannot be read, or is another version's or place's."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, ValueError, RecursionError):
        path = store.results_dir / "cache" / name
        kept = msgspec.json.decode(files.read_regular(path, limit=_LIMIT_BYTES), type=kind)
        if kept.version == _key(store):
            return kept
    return None


def _write(results_dir: Path, name: str, content: bytes) -> bool:
    """Replace a kept file whole; False where that fails."""
    *folders, name = name.split("/")
    try:
        files.replace_whole(files.folder_in(results_dir, "cache", *folders) / name, content)
    except OSError:
        return False
    return True


def _key(store: Store) -> _Key:
    return VERSION, STATISTICS_VERSION, SCHEMA_VERSION, store.place()
