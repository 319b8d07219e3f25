"""Load the comparison rows of a results folder: the one place that all readers of rows ask.

Rows are kept in `cache/`, which may be deleted at any time:

- `rows.parquet`: all rows, with floors, verdicts and drift as they follow from all trials.
- `rows/<trial>.json`: what a trial wrote when it ended, until the next reader merges it.
- `aa.json`: how far apart A/A pairs are, for the floor at the end of a trial.

A trial is read again when its folder changed. A file that is damaged in place, with its folder's
time as it was, goes unnoticed until then.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from xla_sweeps.analysis import noise
from xla_sweeps.analysis.noise import Span
from xla_sweeps.analysis.summary import MIN_FLOOR, summarize
from xla_sweeps.errors import StoreError
from xla_sweeps.results import derive
from xla_sweeps.results.derive import AaDistances, Facts, Trials
from xla_sweeps.results.store import RACY_NS, Store
from xla_sweeps.results.table import joined, ordered, schema, table_of, table_of_documents
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import COLUMNS, STATISTICS_VERSION, TrialSummary, row_dict
from xla_sweeps.system import files

if TYPE_CHECKING:
    import pyarrow

VERSION = 2

_META = b"xla_sweeps"

_UNREADABLE = (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError)


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
class EndedTrial:
    """A trial at its end: None where it has no readable record."""

    summary: TrialSummary | None
    problems: tuple[str, ...]


class _Beside(msgspec.Struct):
    """What `rows.parquet` holds beside the rows."""

    version: tuple[int, int]
    modified_ns: dict[str, int]
    trials: int
    records: int
    spans: dict[str, list[Span]]
    facts: msgspec.Raw


class _KeptTrial(msgspec.Struct):
    """What `rows/<trial>.json` holds."""

    version: tuple[int, int]
    facts: Facts
    rows: list[dict[str, str | bool | int | float | None]]


class _KeptAa(msgspec.Struct):
    """What `aa.json` holds."""

    version: tuple[int, int]
    devices: AaDistances


def load(
    results_dir: Path,
    *,
    advance: Callable[[int, int], None] = lambda done, total: None,
    coded: bool = False,
) -> Rows:
    """All rows of a results folder, measured and imported; what changed is read and kept.

    Args:
        results_dir: the results folder; one that does not exist has no rows.
        advance: called with (trials read, trials to read) now and then.
        coded: texts may be dictionary-encoded: half the time for whom only shows or writes them.
    """
    rows = _measured(results_dir, advance, coded=coded)
    if not (results_dir / "imported").is_dir():
        return rows
    from xla_sweeps.results import imported

    published, problems = imported.load(results_dir)
    table = rows.table
    if published:
        table = ordered(joined([table.cast(schema()), table_of(published)]))
    return replace(rows, table=table, problems=(*rows.problems, *problems))


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
) -> tuple[dict[str, list[Record]], dict[str, TrialSummary]]:
    """Records and summaries by trial, for what needs more than rows.

    Args:
        results_dir: the results folder.
        rows: of the folder; floors and drift are taken from them.
        only: these trials (default: all).

    Raises:
        StoreError: there is no readable record.
    """
    require(results_dir, replace(rows, table=rows.table.slice(0, 0)))
    store = Store(results_dir)
    loaded = [store.load()] if only is None else [store.load(trial) for trial in sorted(only)]
    columns = (rows.table[name].to_pylist() for name in ("trial_id", "floor"))
    floors = dict(zip(*columns, strict=True))
    records = {
        trial: noise.flagged(group, rows.spans)
        for part in loaded
        for trial, group in part.records.items()
    }
    return records, {
        trial: summarize(group, floor=floors.get(trial, MIN_FLOOR))
        for trial, group in records.items()
    }


def end_trial(store: Store, trial_id: str) -> EndedTrial:
    """Summarize a trial that ended, and keep its rows for the next reader.

    Reads the records of this trial alone. The floor comes from the A/A pairs that other trials
    kept; pairs that were copied into the folder count from the next `load` on.
    """
    listing = store.listing(trial_id)
    loaded = store.load(trial_id)
    records = loaded.records.get(trial_id, [])
    if not records:
        return EndedTrial(None, loaded.problems)
    found = summarize(records)
    rows = found.comparisons
    if not loaded.problems:
        kept = _KeptTrial(_versions(), derive.facts_of(records, listing), list(map(row_dict, rows)))
        _write(store.results_dir / "cache" / "rows" / f"{trial_id}.json", msgspec.json.encode(kept))
    floor = derive.floor_of(_with_own_aa(store, trial_id, found))
    return EndedTrial(
        found if floor == MIN_FLOOR else summarize(records, floor=floor), loaded.problems
    )


def _measured(results_dir: Path, advance: Callable[[int, int], None], *, coded: bool) -> Rows:
    store, path = Store(results_dir), results_dir / "cache" / "rows.parquet"
    folders = dict(store.folders())
    table, beside = _read_parquet(path, folders, coded=coded)
    problems: tuple[str, ...] = ()
    if beside.modified_ns != folders:
        pending = _pending(results_dir)
        table, changed, problems = _updated(store, table, beside, folders, pending, advance)
        if (changed.modified_ns, changed.facts) != (beside.modified_ns, beside.facts):
            _save(results_dir, table, changed, pending)
        beside = changed
    return Rows(table, beside.trials, beside.records, problems, beside.spans)


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
    listings = {name: store.listing(name) for name in stale}
    changed = [name for name in stale if name not in facts or facts[name].listing != listings[name]]
    read = [_ended_trials(store.results_dir, changed, listings, pending)]
    unread = [name for name in changed if name not in read[0].facts]
    read += derive.read_many(store.results_dir, unread, advance)
    dropped = {*changed, *(name for name in facts if name not in folders)}
    facts = {name: fact for name, fact in facts.items() if name not in dropped}
    for part in read:
        facts.update(part.facts)
    spans = beside.spans
    if dropped:
        table, spans = derive.settled(derive.merged(table, dropped, read), facts)
        table = ordered(table)
    after = _Beside(
        version=_versions(),
        modified_ns={
            name: found if facts[name].listing and now_ns - found > RACY_NS else 0
            for name, found in folders.items()
        },
        trials=sum(bool(fact.runs) for fact in facts.values()),
        records=sum(len(fact.runs) for fact in facts.values()),
        spans=spans,
        facts=msgspec.Raw(msgspec.json.encode(facts)),
    )
    return table, after, tuple(problem for part in read for problem in part.problems)


def _pending(results_dir: Path) -> list[str]:
    """The trials that ended since the rows were last merged."""
    with contextlib.suppress(OSError):
        return [path.stem for path in (results_dir / "cache" / "rows").glob("*.json")]
    return []


def _ended_trials(
    results_dir: Path,
    names: Collection[str],
    listings: Mapping[str, str],
    pending: Collection[str],
) -> Trials:
    """What these trials kept at their end, as far as their folders are as they were then."""
    documents: list[Mapping[str, Any]] = []
    facts: dict[str, Facts] = {}
    for name in sorted({*names} & {*pending}):
        kept = _decoded(results_dir / "cache" / "rows" / f"{name}.json", _KeptTrial)
        if (
            kept is not None
            and kept.facts.listing == listings[name]
            and all(row.keys() == COLUMNS.keys() for row in kept.rows)
        ):
            documents += kept.rows
            facts[name] = kept.facts
    return Trials(table_of_documents(documents), facts)


def _with_own_aa(store: Store, trial_id: str, found: TrialSummary) -> dict[str, list[float]]:
    """The A/A distances of a trial's device by trial, with its own, which are kept."""
    path, first = store.results_dir / "cache" / "aa.json", AaDistances()
    if _decoded(path, _KeptAa) is None:
        first = derive.aa_distances_of_records(store)
    device, own = found.device, derive.aa_distances_of(found)
    with _locked(store.results_dir):
        kept = _decoded(path, _KeptAa)
        known = _KeptAa(_versions(), first) if kept is None else kept
        trials = known.devices.setdefault(device, {})
        if kept is None or trials.get(trial_id, []) != own:
            trials[trial_id] = own
            _write(path, msgspec.json.encode(known))
    return trials


def _save(results_dir: Path, table: pyarrow.Table, beside: _Beside, merged: list[str]) -> None:
    """Replace what is kept, and delete what trials kept at their end; a failure costs time only."""
    import pyarrow
    import pyarrow.parquet

    cache = results_dir / "cache"
    buffer = pyarrow.BufferOutputStream()
    with pyarrow.parquet.ParquetWriter(
        buffer, table.schema, compression="zstd", store_schema=False
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({_META: msgspec.json.encode(beside)})
    if not _write(cache / "rows.parquet", buffer.getvalue().to_pybytes()):
        return
    for name in merged:
        with contextlib.suppress(OSError):
            (cache / "rows" / f"{name}.json").unlink()
    with _locked(results_dir):
        devices = derive.aa_distances(table)
        before = _decoded(cache / "aa.json", _KeptAa) or _KeptAa(_versions(), {})
        for device, trials in before.devices.items():
            for trial, found in trials.items():  # of a trial that ended meanwhile
                if trial not in beside.modified_ns and (results_dir / "records" / trial).is_dir():
                    devices.setdefault(device, {})[trial] = found
        _write(cache / "aa.json", msgspec.json.encode(_KeptAa(_versions(), devices)))


def _read_parquet(
    path: Path, folders: Mapping[str, int], *, coded: bool
) -> tuple[pyarrow.Table, _Beside]:
    """What is kept; nothing where there is none, or where another version wrote it.

    Texts are dictionary-encoded if that is asked for and nothing has to be read again.
    """
    import pyarrow
    import pyarrow.parquet

    with contextlib.suppress(*_UNREADABLE, pyarrow.ArrowException):
        with pyarrow.memory_map(str(path)) as source:
            metadata = pyarrow.parquet.read_metadata(source).metadata
            beside = msgspec.json.decode(metadata[_META], type=_Beside)
            texts = [name for name, column in COLUMNS.items() if column.kind is str]
            table = pyarrow.parquet.ParquetFile(
                source, read_dictionary=texts if coded and beside.modified_ns == folders else None
            ).read()
        if beside.version == _versions() and table.schema.names == schema().names:
            return table, beside
    return joined([]), _Beside(_versions(), {}, 0, 0, {}, msgspec.Raw(b"{}"))


def _decoded(path: Path, kind: type[Any]) -> Any:
    """A kept JSON document; None where it cannot be read or another version wrote it."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, ValueError):
        kept = msgspec.json.decode(path.read_bytes(), type=kind)
        if kept.version == _versions():
            return kept
    return None


def _write(path: Path, content: bytes) -> bool:
    """Replace a kept file whole; False where that fails."""
    try:
        files.replace_whole(path, content)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _locked(results_dir: Path) -> Iterator[None]:
    """One process at a time, where the file system has locks and can be written."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path = results_dir / "cache" / "aa.lock"
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = stack.enter_context(path.open("a", encoding="utf-8"))
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _versions() -> tuple[int, int]:
    return VERSION, STATISTICS_VERSION
