"""The command `check`: validates a results folder independently of the code that wrote it.

It reads the files as plain JSON and checks what must hold: digests, names, numbers, times, samples,
that no replicate was stored twice, and that kept rows are those of the records. Where it finds
nothing wrong with a record it asks the readers, so that none is left out without a line.
"""

from __future__ import annotations

import collections
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xla_sweeps.cli import check_rows, command_parser
from xla_sweeps.cli.check_record import Unreadable, notes_of, problems_of, read
from xla_sweeps.config.values import folder_of
from xla_sweeps.errors import StoreError
from xla_sweeps.schema.record import Record, RecordFormatError
from xla_sweeps.system.files import read_regular
from xla_sweeps.system.text import displayable

_RECORD = re.compile(r"(0|[1-9][0-9]{0,8})\.json")

_TRIAL = re.compile(r"[0-9A-Za-z_-]{1,64}")

_OLD_S = 24 * 3600


def check_command(arguments: Sequence[str]) -> int:
    """Validate a results folder."""
    parser = command_parser(
        "check",
        "Independent of the code that wrote it. Exit code 1 if there is a problem; a note is none.",
    )
    parser.add_argument(
        "dir",
        nargs="?",
        default="results",
        type=folder_of,
        help="results folder (default: results)",
    )
    options = parser.parse_args(arguments)
    if not (options.dir / "records").exists():
        raise StoreError(f"{options.dir} holds no records")
    found = examined(options.dir)
    for line in (*found.problems, *(f"note: {note}" for note in found.notes)):
        print(displayable(line))
    counted = ", ".join(f"{count} {word}" for word, count in found.counts.items())
    print(f"{displayable(options.dir)}: {displayable(counted)}; {len(found.problems)} problems")
    return 1 if found.problems else 0


@dataclass(frozen=True, slots=True)
class Findings:
    """What a results folder holds, and a line for each problem and for what is no problem."""

    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(results_dir: Path) -> tuple[dict[str, int], list[str]]:
    """Counts of what the folder holds, and a line for each problem."""
    found = examined(results_dir)
    return dict(found.counts), found.problems


def examined(results_dir: Path) -> Findings:
    """All that there is to say about a results folder.

    Raises:
        StoreError: its records cannot be listed.
    """
    found = Findings()
    records = results_dir / "records"
    try:
        entries = sorted(records.iterdir())
    except OSError as error:
        raise StoreError(f"{records} cannot be read: {error.strerror or error}") from error
    seen: dict[str, str] = {}
    kept = check_rows.Kept(results_dir)
    for path in entries:
        if path.name.startswith("."):
            found.notes.extend(_left_over(path))
        elif path.is_symlink():
            found.problems.append(f"{path}: a link, which no reader follows")
        elif not path.is_dir() or not _TRIAL.fullmatch(path.name):
            found.notes.append(f"{path}: not a trial's folder")
        else:
            found.counts["trials"] += 1
            documents = list(_trial(path, found, seen))
            kept.compare(path.name, documents)
            if other := len(documents) - len(check_rows.newest_build(documents)):
                found.notes.append(
                    f"{path}: {other} of {len(documents)} records are left out: they measured "
                    "another model or other libraries than the newest record"
                )
    for folder in ("", "cache", "cache/macs", "cache/rows"):
        found.notes.extend(
            note for path in sorted((results_dir / folder).glob(".*")) for note in _left_over(path)
        )
    found.problems.extend(kept.differing())
    contaminated = found.counts["contaminated"]
    if contaminated:
        found.notes.append(
            f"{records}: {contaminated} of {found.counts['records']} records are contaminated: "
            "other processes ran meanwhile; measure again on a quiet machine"
        )
    found.counts["quarantined"] = sum(1 for _ in (results_dir / "quarantine").glob("*"))
    return found


def _trial(folder: Path, found: Findings, seen: dict[str, str]) -> Iterator[Mapping[str, Any]]:
    """The records of a trial; what is wrong goes to `found`."""
    machines = set()
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        found.problems.append(f"{folder}: {error.strerror or error}")
        return
    for path in paths:
        if path.name.startswith("."):
            found.notes.extend(_left_over(path))
            continue
        if not _RECORD.fullmatch(path.name):
            found.notes.append(f"{path}: not a record's name; no reader reads it")
            continue
        found.counts["records"] += 1
        try:
            document = read(path)
        except Unreadable as error:
            found.problems.append(f"{path}: {error}")
            continue
        problems = problems_of(path, document) or list(_refusal(path))
        found.problems.extend(f"{path}: {text}" for text in problems)
        found.notes.extend(f"{path}: {text}" for text in notes_of(document))
        found.counts[str(document["status"])] += 1
        machines.add(_machine(document))
        if document["rounds"]:
            measured = json.dumps([document["rounds"], document.get("started_at")])
            digest = hashlib.sha256(measured.encode()).hexdigest()
            if digest in seen:
                found.problems.append(f"{path}: the same measurement as {seen[digest]}")
            seen[digest] = str(path)
        yield document
    if len(machines) > 1:
        found.problems.append(f"{folder}: records of different devices or versions under one trial")


def _refusal(path: Path) -> Iterator[str]:
    """Why readers leave a record out in which nothing else is wrong."""
    try:
        Record.from_json(read_regular(path))
    except (RecordFormatError, OSError) as error:
        yield f"no reader can use it: {error}"


def _machine(document: Mapping[str, Any]) -> str:
    parts = [document[name] for name in ("device", "environment")]
    device, environment = (part if isinstance(part, dict) else {} for part in parts)
    return json.dumps([device.get("name"), environment.get("packages")])


def _left_over(path: Path) -> Iterator[str]:
    """A note on a temporary file of a process that was killed."""
    if path.name.startswith(".probe-") or path.suffix == ".tmp":
        try:
            old = time.time() - path.lstat().st_mtime > _OLD_S
        except OSError:
            return
        when = "the next trial removes it" if old else "removed when it is a day old"
        yield f"{path}: left-over temporary file; {when}"
