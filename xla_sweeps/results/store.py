"""Store records on disk: one immutable JSON file per replicate; the first writer wins.

A file appears whole or not at all: written under a temporary name in the same folder, synced,
linked to its final name (`link` fails where that exists), and the folder synced. What cannot be
read is moved aside and reported, never fatal.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xla_sweeps.errors import HeldError, StoreError
from xla_sweeps.schema.record import NewerSchemaError, Record, RecordFormatError
from xla_sweeps.system.faults import fault_point

MIN_FREE_BYTES = 16 * 2**20

RACY_NS = 2 * 10**9
"""A folder that changed this shortly before it was read may change again without a newer time."""

_ATTEMPTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Records of a results folder by trial, and a line for each file that cannot be used."""

    records: dict[str, list[Record]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


class Store:
    """The records of one results folder.

    Args:
        results_dir: the folder; made on the first write, not before.
    """

    def __init__(self, results_dir: Path) -> None:
        self.results_dir = results_dir
        self.records_dir = results_dir / "records"

    def check_writable(self) -> None:
        """Find a full or read-only folder before measuring: write, sync, link and delete a file.

        Raises:
            StoreError: one line with the reason.
        """
        try:
            self.records_dir.mkdir(parents=True, exist_ok=True)
            first, second = (self.records_dir / f".probe-{uuid.uuid4().hex}" for _ in range(2))
            _write_synced(first, b"probe")
            os.link(first, second)
            second.unlink()
            first.unlink()
        except OSError as error:
            raise StoreError(
                f"results_dir={self.results_dir} cannot be written: {error.strerror or error}. "
                "Choose another: results_dir=PATH"
            ) from error
        self.check_space()

    def check_space(self) -> None:
        """Find out whether there is room for records.

        Raises:
            StoreError: there is not.
        """
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
            StoreError: it could not be made durable; nothing half-written is left.
        """
        folder = self.records_dir / record.trial_id
        temporary = folder / f".{uuid.uuid4().hex}.tmp"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(self.next_replicate(record.trial_id), _ATTEMPTS):
                stored = replace(record, replicate=number)
                path = folder / f"{number}.json"
                _write_synced(temporary, stored.to_json())
                if _link_new(temporary, path):
                    fault_point("store.linked")
                    _sync_folder(folder)
                    _sync_folder(self.records_dir)
                    fault_point("store.folder_synced")
                    return stored, path
        except OSError as error:
            raise StoreError(
                f"cannot save the record below {folder}: {error.strerror or error}"
            ) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        raise StoreError(f"{folder} holds {_ATTEMPTS} replicates already")

    def next_replicate(self, trial_id: str) -> int:
        """One past the highest replicate number in use, quarantined ones included."""
        folder = self.records_dir / trial_id
        names = (
            [path.name.split(".")[0] for path in folder.glob("*.json*")] if folder.is_dir() else []
        )
        return max((int(name) for name in names if name.isdigit()), default=-1) + 1

    def count(self, trial_id: str) -> int:
        """How many records the trial has; those in quarantine do not count."""
        return len(self.keys(trial_id))

    def keys(self, trial_id: str) -> list[tuple[str, int]]:
        """Trial and number of each record of a trial, unread."""
        folder = self.records_dir / trial_id
        names = [path.stem for path in folder.glob("*.json")] if folder.is_dir() else []
        return [(trial_id, int(name)) for name in names if name.isdigit()]

    def load_paths(self, paths: Sequence[str]) -> list[Record]:
        """The records at these paths, as far as they can be read."""
        found = []
        for path in paths:
            with contextlib.suppress(OSError, RecordFormatError):
                found.append(Record.from_json(Path(path).read_bytes()))
        return found

    def listing(self, trial_id: str) -> str:
        """A fingerprint of a trial's files: their names, sizes and times."""
        lines = []
        with contextlib.suppress(OSError), os.scandir(self.records_dir / trial_id) as found:
            for entry in found:
                if entry.name.endswith(".json"):
                    stat = entry.stat()
                    lines.append(f"{entry.name} {stat.st_size} {stat.st_mtime_ns}")
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]

    def folders(self) -> Iterator[tuple[str, int]]:
        """Name and time of change (ns) of each trial's folder.

        None where there are no records yet.
        """
        with contextlib.suppress(FileNotFoundError), os.scandir(self.records_dir) as found:
            for entry in found:
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    yield entry.name, entry.stat().st_mtime_ns

    def load(self, trial_id: str | None = None) -> Loaded:
        """All records, or one trial's, by trial and replicate number.

        Damaged files are moved to `quarantine/`.
        """
        records: dict[str, list[Record]] = {}
        problems: list[str] = []
        for path in sorted(
            self.records_dir.glob(f"{trial_id or '*'}/*.json"), key=_trial_and_number
        ):
            try:
                record = Record.from_json(path.read_bytes())
            except NewerSchemaError as error:
                problems.append(f"{path}: {error}")
            except RecordFormatError as error:
                problems.append(
                    f"{path}: {error}; moved to {self._quarantine(path)}, to be measured again"
                )
            except OSError as error:
                problems.append(f"{path}: {error.strerror or error}")
            else:
                records.setdefault(record.trial_id, []).append(record)
        return Loaded(records=records, problems=tuple(problems))

    def _quarantine(self, path: Path) -> str:
        target = (
            self.results_dir
            / "quarantine"
            / f"{path.parent.name}-{path.name}-{uuid.uuid4().hex[:8]}"
        )
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
        except OSError as error:
            return f"nowhere ({error.strerror or error})"
        return str(target)

    @contextlib.contextmanager
    def claim(self, trial_id: str) -> Iterator[None]:
        """Hold the trial while it is measured.

        The claim is an open lock, so it ends with its process.

        Raises:
            HeldError: another process is measuring the same trial into this folder.
        """
        fault_point("claim.before")
        folder = self.results_dir / "claims"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{trial_id}.lock").open("a+", encoding="utf-8") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.seek(0)
                raise HeldError(
                    f"this trial ({trial_id}) is being measured into {self.results_dir} by another "
                    f"process ({_holder(handle.read())}): wait for it, or choose another "
                    "results_dir=PATH"
                ) from None
            except OSError:
                # A file system without locks: saving is exclusive all the same, so nothing is lost.
                yield
                return
            handle.truncate(0)
            handle.write(json.dumps({"pid": os.getpid(), "host": os.uname().nodename}))
            handle.flush()
            fault_point("claim.after")
            yield
            fault_point("claim.release")


def _holder(text: str) -> str:
    try:
        holder: dict[str, Any] = json.loads(text)
        return f"pid {holder['pid']} on {holder['host']}"
    except (ValueError, KeyError, TypeError):
        return "unknown"


def _trial_and_number(path: Path) -> tuple[str, int, str]:
    number = path.stem
    return path.parent.name, int(number) if number.isdigit() else -1, path.name


def _write_synced(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        fault_point("store.opened")
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        fault_point("store.written")
        os.fsync(descriptor)
        fault_point("store.synced")
    finally:
        os.close(descriptor)


def _link_new(source: Path, target: Path) -> bool:
    """Link to a name that must not exist.

    False where it does and is not our own link (NFS may lose the reply).
    """
    try:
        os.link(source, target)
    except FileExistsError:
        return source.samefile(target)
    return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
