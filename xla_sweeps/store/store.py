"""Store records on disk: one immutable JSON file per replicate; the first writer wins.

A file appears whole or not at all. What cannot be read is moved aside and reported, never fatal.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from xla_sweeps.errors import StoreError
from xla_sweeps.schema.record import NewerSchemaError, Record, RecordFormatError
from xla_sweeps.system import files
from xla_sweeps.system.text import displayable

MIN_FREE_BYTES = 16 * 2**20

RACY_NS = 2 * 10**9
"""A folder that changed this shortly before it was read may change again without a newer time."""

_ATTEMPTS = 10_000

RECORD_NAME = re.compile(r"(0|[1-9][0-9]{0,8})\.json")
"""The name of a record's file; any other file of the folder is somebody else's."""

TRIAL_NAME = re.compile(r"[0-9A-Za-z_-]{1,64}")
"""The name of a trial's folder; any other folder is somebody else's."""

_QUARANTINED = re.compile(r"(.+)-(0|[1-9][0-9]{0,8})\.json-[0-9a-f]{8}")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Records of a results folder by trial, and a line for each file that cannot be used."""

    records: dict[str, list[Record]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


class Store:
    """The records of one results folder."""

    def __init__(self, results_dir: Path) -> None:
        self.results_dir = results_dir
        self.records_dir = results_dir / "records"

    def check_writable(self) -> None:
        """Find a full or read-only folder before measuring; `StoreError` says the reason."""
        try:
            folder = files.folder_in(self.results_dir, "records")
            files.remove_left_over(folder / name for name in _names(folder) if name[0] == ".")
            first, second = (folder / f".probe-{uuid.uuid4().hex}" for _ in range(2))
            try:
                _write_synced(first, b"probe")
                _link_new(first, second)
            finally:
                for path in (first, second):
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"results_dir={self.results_dir} cannot be written: {_reason(error)}. "
                "Choose another: results_dir=PATH"
            ) from error
        self.check_space()

    def check_space(self) -> None:
        """Require room for records; else `StoreError`."""
        try:
            space = os.statvfs(self.results_dir)
        except OSError as error:
            raise StoreError(
                f"results_dir={self.results_dir} cannot be read: {error.strerror or error}"
            ) from error
        if space.f_bavail * space.f_frsize < MIN_FREE_BYTES:
            raise StoreError(
                f"results_dir={self.results_dir} has less than {MIN_FREE_BYTES // 2**20} MiB of "
                "space left. Free some, or choose another: results_dir=PATH"
            )

    def save(self, record: Record) -> tuple[Record, Path]:
        """Store a record under the next free replicate number; returns it as stored, with its path.

        Raises:
            StoreError: it was not stored; nothing half-written is left.
        """
        folder = self.records_dir / record.trial_id
        temporary = folder / f".{uuid.uuid4().hex}.tmp"
        try:
            files.folder_in(self.results_dir, "records", record.trial_id)
            files.remove_left_over(folder.glob(".*.tmp"))
            for _ in range(_ATTEMPTS):
                stored = replace(record, replicate=self.next_replicate(record.trial_id))
                path = folder / f"{stored.replicate}.json"
                _write_synced(temporary, stored.to_json())
                if _link_new(temporary, path):
                    sys.audit("xla_sweeps.store.linked")
                    _sync_folder(folder)
                    _sync_folder(self.records_dir)
                    sys.audit("xla_sweeps.store.folder_synced")
                    return stored, path
        except OSError as error:
            raise StoreError(f"cannot save the record below {folder}: {_reason(error)}") from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        raise StoreError(f"cannot save the record below {folder}: no number is free")

    def next_replicate(self, trial_id: str) -> int:
        """One past the highest replicate number in use, quarantined too; else the lowest free."""
        used = {number for _, number in self.keys(trial_id)}
        with contextlib.suppress(OSError):
            for name in _names(self.results_dir / "quarantine"):
                match = _QUARANTINED.fullmatch(name)
                if match and match[1] == trial_id:
                    used.add(int(match[2]))
        following = max(used, default=-1) + 1
        if RECORD_NAME.fullmatch(f"{following}.json"):
            return following
        return next(number for number in range(len(used) + 1) if number not in used)

    def keys(self, trial_id: str) -> list[tuple[str, int]]:
        """Trial and number of each record of a trial, unread, in order; none of quarantine."""
        try:
            names = _names(f"{self.records_dir}/{trial_id}")
        except (FileNotFoundError, NotADirectoryError):
            return []
        matches = [match for name in names if (match := RECORD_NAME.fullmatch(name))]
        return sorted((trial_id, int(match[1])) for match in matches)

    def load_paths(self, paths: Sequence[str]) -> list[Record]:
        """The records at these paths, as far as they can be read."""
        records = []
        for path in paths:
            with contextlib.suppress(OSError, RecordFormatError):
                records.append(Record.from_json(files.read_regular(Path(path))))
        return records

    def place(self) -> int:
        """The inode of the folder of records; another number in a copy of it."""
        try:
            return self.records_dir.stat().st_ino
        except OSError:
            return 0

    def folders(self) -> Iterator[tuple[str, int]]:
        """Name and time of change (ns) of each trial's folder, without links; else `StoreError`."""
        try:
            with os.scandir(self.records_dir) as entries:
                for entry in entries:
                    if TRIAL_NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                            yield entry.name, entry.stat().st_mtime_ns
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"{self.records_dir} cannot be read: {_reason(error)}") from error

    def load(self, *trial_ids: str) -> Loaded:
        """All records, or those of some trials, by trial and replicate number.

        Damaged files are moved to `quarantine/`.

        Raises:
            StoreError: all are wanted, and `records/` cannot be read.
        """
        records: dict[str, list[Record]] = {}
        problems: list[str] = []
        for name in trial_ids or sorted(name for name, _ in self.folders()):
            try:
                keys = self.keys(name)
            except OSError as error:
                problems.append(f"{displayable(self.records_dir / name)}: {_reason(error)}")
                continue
            for _, number in keys:
                record = self._read(name, number, problems)
                if record is not None:
                    records.setdefault(name, []).append(record)
        return Loaded(records=records, problems=tuple(problems))

    def _read(self, name: str, number: int, problems: list[str]) -> Record | None:
        """A record; None, with a line in `problems`, where it cannot be used."""
        path = f"{self.records_dir}/{name}/{number}.json"
        try:
            record = Record.from_json(files.read_regular(path))
            if record.trial_id != name:
                raise RecordFormatError(f"it is a record of trial {record.trial_id}")
        except NewerSchemaError as error:
            problems.append(f"{displayable(path)}: {displayable(error)}")
        except RecordFormatError as error:
            moved_to = self._quarantine(Path(path))
            problems.append(
                f"{displayable(path)}: {displayable(error)}; moved to {moved_to}, "
                "to be measured again"
            )
        except OSError as error:
            problems.append(f"{displayable(path)}: {_reason(error)}")
        else:
            return record
        return None

    def _quarantine(self, path: Path) -> str:
        name = f"{path.parent.name}-{path.name}-{uuid.uuid4().hex[:8]}"
        try:
            target = files.folder_in(self.results_dir, "quarantine") / name
            path.rename(target)
        except OSError as error:
            return f"nowhere ({_reason(error)})"
        return displayable(target)


def try_trial(folder: Path, make: Callable[[], _T]) -> tuple[_T | None, tuple[str, ...]]:
    """Call `make` for a trial; None, and a line that names its folder, if that fails."""
    try:
        return make(), ()
    except Exception as error:
        reason = f"{type(error).__name__}: {displayable(error)}"
        return None, (f"{displayable(folder)}: its records cannot be used ({reason}); left out",)


def _names(folder: str | Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def folder_below(results_dir: Path, *names: str) -> Path:
    """A folder of a results folder, made where it is missing; `StoreError` for a linked one."""
    try:
        return files.folder_in(results_dir, *names)
    except OSError as error:
        folder = results_dir.joinpath(*names)
        raise StoreError(f"{displayable(folder)} cannot be used: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _write_synced(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        sys.audit("xla_sweeps.store.opened")
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        sys.audit("xla_sweeps.store.written")
        os.fsync(descriptor)
        sys.audit("xla_sweeps.store.synced")
    finally:
        os.close(descriptor)


def _link_new(source: Path, target: Path) -> bool:
    """Link to a name that must not exist; False where somebody else's does, as replies get lost."""
    try:
        os.link(source, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            if os.path.samestat(source.lstat(), target.lstat()):
                return True
        if isinstance(error, FileExistsError):
            return False
        raise
    return True


def _sync_folder(folder: Path) -> None:
    """Make a name durable, where the file system can: what is linked is saved all the same."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
