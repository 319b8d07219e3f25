"""Comparison rows of a results folder as a table, kept beside the records so that only what changed is read again.

`cache/rows.parquet` may be deleted at any time. A trial's folder is read again when it changed
since, or when it changed so lately that the clock could not tell; a file that is damaged in place
goes unnoticed until then.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from xla_sweeps.analysis import noise, summary
from xla_sweeps.analysis.speedup import with_floor
from xla_sweeps.results.store import RACY_NS, Store
from xla_sweeps.results.table import joined, rows_of, schema, table_of
from xla_sweeps.schema.row import STATISTICS_VERSION, ComparisonRow
from xla_sweeps.schema.trial import is_aa_pair
from xla_sweeps.system import files

if TYPE_CHECKING:
    import pyarrow


VERSION = 1

PARALLEL_FROM = 1000
"""Trials from which more processes are quicker than one."""

CHUNK = 200

_META = b"xla_sweeps"

Fact = tuple[int, int, str, tuple[str, ...]]

Anchor = tuple[str, str, float]


class _Beside(msgspec.Struct):
    """What the file holds beside the rows."""

    version: tuple[int, int]
    facts: dict[str, Fact]
    anchors: dict[str, list[Anchor]]


@dataclass(frozen=True, slots=True)
class Trials:
    """What was read of some trials.

    Attributes:
        table: their rows, judged against the smallest floor and without the flag `drift`.
        facts: of each trial: `[folder's time, records, device, starts]`; a time of 0 is read again
            next time.
        anchors: device, start and latency of anchor records, by trial.
        problems: files that could not be used.
    """

    table: pyarrow.Table
    facts: Mapping[str, Fact]
    anchors: Mapping[str, list[Anchor]]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a results folder.

    Attributes:
        table: columns of `ComparisonRow`.
        trials, records: how many there are.
        problems: files that could not be used.
    """

    table: pyarrow.Table
    trials: int
    records: int
    problems: tuple[str, ...]


def load(
    results_dir: Path, *, advance: Callable[[int, int], None] = lambda done, total: None
) -> Rows:
    """All rows, from what is kept where that is up to date; what is kept is brought up to date.

    Args:
        results_dir: the results folder; one without records has no rows.
        advance: told (trials read, trials to read) now and then.
    """
    path = results_dir / "cache" / "rows.parquet"
    folders = dict(Store(results_dir).folders())
    kept = _load(path)
    stale = [
        name
        for name, modified_ns in folders.items()
        if kept.facts.get(name, (0,))[0] != modified_ns
    ]
    gone = [name for name in kept.facts if name not in folders]
    if stale or gone:
        read = list(_read(results_dir, stale, folders, advance))
        kept = _merged(kept, {*stale, *gone}, read)
    judged, changed = _judged(kept.table)
    if stale or gone or changed:
        _save(path, replace(kept, table=judged))
    return Rows(
        table=_with_drift(judged, kept),
        trials=sum(fact[1] > 0 for fact in kept.facts.values()),
        records=sum(fact[1] for fact in kept.facts.values()),
        problems=kept.problems,
    )


def read_trials(results_dir: Path, names: Sequence[str], modified_ns: Mapping[str, int]) -> Trials:
    """Read and summarize these trials."""
    store, now_ns = Store(results_dir), time.time_ns()
    rows: list[ComparisonRow] = []
    facts: dict[str, Fact] = {}
    anchors: dict[str, list[Anchor]] = {}
    problems: list[str] = []
    for name in names:
        loaded = store.load(name)
        problems += loaded.problems
        settled = (
            modified_ns[name] if now_ns - modified_ns[name] > RACY_NS and not loaded.problems else 0
        )
        facts[name] = (settled, 0, "", ())
        for records in loaded.records.values():
            rows += summary.summarize(records).comparisons
            starts = tuple(record.started_at for record in records)
            facts[name] = (settled, len(records), noise.device_of(records[0]), starts)
            found = [
                (noise.device_of(record), record.started_at, seconds)
                for record in records
                if noise.is_anchor(record) and (seconds := noise.call_s(record)) is not None
            ]
            if found:
                anchors[name] = found
    return Trials(table_of(rows), facts, anchors, tuple(problems))


def _read(
    results_dir: Path,
    names: Sequence[str],
    folders: Mapping[str, int],
    advance: Callable[[int, int], None],
) -> Iterator[Trials]:
    """Trials in chunks, by several processes where there are many."""
    chunks = [names[first : first + CHUNK] for first in range(0, len(names), CHUNK)]
    times = [{name: folders[name] for name in chunk} for chunk in chunks]
    done = 0
    with contextlib.ExitStack() as stack:
        run: Callable[..., Iterable[Trials]] = map
        if len(names) >= PARALLEL_FROM:
            workers = min(len(chunks), len(os.sched_getaffinity(0)))
            spawn = multiprocessing.get_context("spawn")
            run = stack.enter_context(ProcessPoolExecutor(workers, mp_context=spawn)).map
        for chunk, found in zip(
            chunks, run(read_trials, [results_dir] * len(chunks), chunks, times), strict=True
        ):
            done += len(chunk)
            advance(done, len(names))
            yield found


def _merged(kept: Trials, dropped: set[str], read: Sequence[Trials]) -> Trials:
    """What is kept without the dropped trials, and what was read."""
    import pyarrow.compute

    dropped_ids = pyarrow.array(sorted(dropped), pyarrow.string())
    stays = pyarrow.compute.invert(
        pyarrow.compute.is_in(kept.table["trial_id"], value_set=dropped_ids)
    )
    rest = Trials(
        table=kept.table.filter(stays),
        facts={name: fact for name, fact in kept.facts.items() if name not in dropped},
        anchors={name: found for name, found in kept.anchors.items() if name not in dropped},
    )
    parts = [rest, *read]
    return Trials(
        table=joined(part.table for part in parts),
        facts={name: fact for part in parts for name, fact in part.facts.items()},
        anchors={name: found for part in parts for name, found in part.anchors.items()},
        problems=tuple(problem for part in read for problem in part.problems),
    )


def _judged(table: pyarrow.Table) -> tuple[pyarrow.Table, bool]:
    """The rows judged against the floor of their device, and whether that changed any."""
    import pyarrow.compute

    by_device: dict[str, list[float]] = {}
    columns = [
        table[name].to_pylist() for name in ("device", "baseline", "candidate", "speedup", "floor")
    ]
    for device, baseline, candidate, speedup, _ in zip(*columns, strict=True):
        apart = by_device.setdefault(device, [])
        if (
            speedup
            and baseline != candidate
            and baseline.split("_")[0] == candidate.split("_")[0]
            and is_aa_pair(baseline, candidate)
        ):
            apart.append(abs(math.log(speedup)))
    floors = {
        name: max(summary.MIN_FLOOR, noise.floor_of(apart) or 0.0)
        for name, apart in by_device.items()
    }
    wrong = [floors[device] != floor for device, floor in zip(columns[0], columns[4], strict=True)]
    if not any(wrong):
        return table, False
    mask = pyarrow.array(wrong)
    rows = [with_floor(row, floors[row.device]) for row in rows_of(table.filter(mask))]
    # A row without a speedup has no verdict to change, but says the floor all the same.
    rows = [
        row if row.floor == floors[row.device] else replace(row, floor=floors[row.device])
        for row in rows
    ]
    return joined([table.filter(pyarrow.compute.invert(mask)), table_of(rows)]), True


def _with_drift(table: pyarrow.Table, kept: Trials) -> pyarrow.Table:
    """The rows, with the flag `drift` where any record was measured while the machine changed its speed."""
    import pyarrow

    spans = noise.spans_of(anchor for found in kept.anchors.values() for anchor in found)
    if not spans:
        return table
    drifted = {
        name
        for name, (_, _, device, starts) in kept.facts.items()
        if name not in kept.anchors
        and any(noise.is_within(start, spans.get(device, ())) for start in starts)
    }
    flags = [
        " ".join(sorted({*text.split(), "drift"})) if trial in drifted else text
        for trial, text in zip(
            table["trial_id"].to_pylist(), table["flags"].to_pylist(), strict=True
        )
    ]
    return table.set_column(
        table.schema.get_field_index("flags"), "flags", pyarrow.array(flags, pyarrow.string())
    )


def _load(path: Path) -> Trials:
    """What is kept; nothing where there is none, or where another version wrote it."""
    import pyarrow
    import pyarrow.parquet

    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, pyarrow.ArrowException):
        table = pyarrow.parquet.read_table(path)
        beside = msgspec.json.decode(table.schema.metadata[_META], type=_Beside)
        if beside.version == (VERSION, STATISTICS_VERSION) and table.schema.names == schema().names:
            return Trials(table.replace_schema_metadata(None), beside.facts, beside.anchors)
    return Trials(joined([]), {}, {})


def _save(path: Path, kept: Trials) -> None:
    """Replace what is kept; where that cannot be done, it is read anew next time."""
    import pyarrow.parquet

    beside = _Beside((VERSION, STATISTICS_VERSION), dict(kept.facts), dict(kept.anchors))
    table = kept.table.replace_schema_metadata({_META: msgspec.json.encode(beside)})
    buffer = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, buffer, compression="zstd")
    with contextlib.suppress(OSError):
        files.replace_whole(path, buffer.getvalue().to_pybytes())
