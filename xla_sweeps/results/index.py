"""Index records for planning, kept beside them; it may be deleted at any time.

A trial's folder is read again when it changed, when it was read within the resolution of the file
system's time stamps, or when not all of it could be used. A copy of the results folder, whose
records lie elsewhere on the disk, is indexed again. A file that is damaged in place leaves its
folder's time as it was: planning does not notice until `cache/` is deleted.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from xla_sweeps.results.store import RACY_NS, Store, guarded
from xla_sweeps.schema.build import build_of
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import SCHEMA_VERSION, Record, outcome_of
from xla_sweeps.system.files import folder_in, read_regular, replace_whole

VERSION = 3

_INDEX_LIMIT_BYTES = 2**30

_SOFTWARE = ("tensorflow", "keras", "tf_keras")


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One record, in short.

    Attributes:
        outcome: `schema.record.outcome_of`.
        software: versions that make records comparable (`software_of`).
        cost_s: wall time of the replicate.
        build: `schema.build.build_of`.
    """

    trial_id: str
    replicate: int
    outcome: Status
    request_id: str
    device: str
    software: str
    model: str
    cost_s: float
    started_at: str
    tags: tuple[str, ...] = ()
    build: dict[str, str] = {}


class _Folder(msgspec.Struct, array_like=True, gc=False):
    modified_ns: int
    entries: list[Entry]


class _Key(msgspec.Struct, frozen=True, array_like=True):
    """What the index must have been made of to be used."""

    version: int
    schema_version: int
    place: int


class _File(msgspec.Struct):
    key: _Key
    folders: dict[str, _Folder]


@dataclass(frozen=True, slots=True)
class Index:
    """All records of a results folder, in short."""

    entries: Mapping[str, list[Entry]]
    problems: tuple[str, ...] = ()

    def all(self) -> Iterable[Entry]:
        """Every entry."""
        return (entry for group in self.entries.values() for entry in group)


def read_index(store: Store) -> Index:
    """The records of a store, from the kept index where it is up to date.

    The index is brought up to date.
    """
    key = _Key(VERSION, SCHEMA_VERSION, store.place())
    known = _load(store.results_dir, key)
    folders: dict[str, _Folder] = {}
    problems: list[str] = []
    changed = False
    now_ns = time.time_ns()
    for name, modified_ns in store.folders():
        kept = known.get(name)
        if kept is not None and kept.modified_ns == modified_ns:
            folders[name] = kept
            continue
        entries, found = _entries(store, name)
        problems += found
        settled = modified_ns if now_ns - modified_ns > RACY_NS and not found else 0
        folders[name] = _Folder(settled, entries)
        changed = True
    if changed or len(folders) != len(known):
        _save(store.results_dir, _File(key, folders))
    return Index({name: folder.entries for name, folder in folders.items()}, tuple(problems))


def _entries(store: Store, name: str) -> tuple[list[Entry], tuple[str, ...]]:
    """The records of a trial, in short, and a line for each that cannot be used."""
    loaded = store.load(name)
    entries, problems = guarded(
        store.records_dir / name,
        lambda: [entry_of(record) for record in loaded.records.get(name, [])],
    )
    return entries or [], (*loaded.problems, *problems)


def entry_of(record: Record) -> Entry:
    """A record, in short."""
    return Entry(
        trial_id=record.trial_id,
        replicate=record.replicate,
        outcome=outcome_of(record),
        request_id=record.request_id,
        device=str(record.device.get("name", "")),
        software=software_of(record.environment),
        model=record.model.name,
        cost_s=_cost_s(record),
        started_at=record.started_at,
        tags=record.tracker.tags,
        build=build_of(record),
    )


def software_of(environment: Mapping[str, Any]) -> str:
    """The versions that make records of different machines comparable."""
    packages = environment.get("packages") or {}
    return " ".join(str(packages.get(name, "")) for name in _SOFTWARE)


def _cost_s(record: Record) -> float:
    with contextlib.suppress(ValueError, TypeError):  # TypeError: one has a time zone, one has not
        begun, ended = (
            datetime.datetime.fromisoformat(text)
            for text in (record.started_at, record.finished_at)
        )
        return max(0.0, (ended - begun).total_seconds())
    return float(sum(record.seconds.values()))


def _load(results_dir: Path, key: _Key) -> dict[str, _Folder]:
    with contextlib.suppress(OSError, msgspec.MsgspecError, ValueError, RecursionError):
        path = results_dir / "cache" / "index.json"
        kept = msgspec.json.decode(read_regular(path, limit=_INDEX_LIMIT_BYTES), type=_File)
        if kept.key == key:
            return kept.folders
    return {}


def _save(results_dir: Path, content: _File) -> None:
    """Replace the kept index; where that fails, the records are read again next time."""
    with contextlib.suppress(OSError):
        replace_whole(folder_in(results_dir, "cache") / "index.json", msgspec.json.encode(content))


_FOLDER = "sweeps"


class _PlannedFile(msgspec.Struct):
    sweep: str
    requests: list[str]


def keep(results_dir: Path, sweep: str, requests: Iterable[str]) -> None:
    """Keep the trials that a sweep plans, in place of its earlier plan; a full disk is ignored.

    Args:
        results_dir: the results folder.
        sweep: the sweep's name.
        requests: request ids of its trials.
    """
    name = hashlib.sha256(sweep.encode()).hexdigest()[:16]
    with contextlib.suppress(OSError):
        replace_whole(
            folder_in(results_dir, _FOLDER) / f"{name}.json",
            msgspec.json.encode(_PlannedFile(sweep, sorted(set(requests)))),
        )


def missing(results_dir: Path) -> int | None:
    """How many planned trials have no record; None where no plan is kept."""
    wanted: set[str] = set()
    plans = 0
    for path in (results_dir / _FOLDER).glob("*.json"):
        with contextlib.suppress(OSError, msgspec.MsgspecError, ValueError, RecursionError):
            wanted.update(msgspec.json.decode(read_regular(path), type=_PlannedFile).requests)
            plans += 1
    if not plans:
        return None
    return len(wanted - {entry.request_id for entry in read_index(Store(results_dir)).all()})
