"""The command `check`: validation of a results folder.

It verifies the digest of each record, reads it as every reader does, derives its rows again, and
compares them with the kept rows. It changes nothing.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from xla_sweeps.cli.arguments import add_results_dir, command_parser
from xla_sweeps.errors import StoreError
from xla_sweeps.report.terminal.console import progress_bar
from xla_sweeps.schema.record import Record, RecordFormatError, build_of, newest
from xla_sweeps.store import rows
from xla_sweeps.store.derive import Part, join_parts, summarize_trials
from xla_sweeps.store.store import RECORD_NAME, TRIAL_NAME, Store
from xla_sweeps.system.files import read_regular
from xla_sweeps.system.parallel import in_parts
from xla_sweeps.system.text import count_noun, displayable

ALIKE_SHOWN = 20
"""Most lines that say the same of different files."""

_SLACK_S = 1.0
"""Seconds by which the clock of a trial's times may be set back meanwhile."""


def check_command(arguments: Sequence[str]) -> int:
    """Validate a results folder."""
    parser = command_parser("check", "Changes nothing. Exit code 1 if there is a problem.")
    add_results_dir(parser)
    options = parser.parse_args(arguments)
    if not (options.dir / "records").exists():
        raise StoreError(f"{options.dir} holds no records")
    findings = examine(options.dir)
    notes = (f"note: {note}" for note in _limit_alike(findings.notes))
    for line in (*_limit_alike(findings.problems), *notes):
        print(displayable(line))
    counts = ", ".join(
        count_noun(count, word) if word in ("trial", "record") else f"{count} {word}"
        for word, count in findings.counts.items()
    )
    problems = count_noun(len(findings.problems), "problem")
    print(f"{displayable(options.dir)}: {counts}; {problems}")
    return 1 if findings.problems else 0


def _limit_alike(lines: Sequence[str]) -> Iterator[str]:
    """The first lines that say the same of different files, and how many more there are."""
    alike: collections.Counter[str] = collections.Counter()
    for line in lines:
        what = line.partition(": ")[2]
        alike[what] += 1
        if alike[what] <= ALIKE_SHOWN:
            yield line
    for what, count in alike.items():
        if count > ALIKE_SHOWN:
            yield f"and {count - ALIKE_SHOWN:,} more: {what}"


class Findings(msgspec.Struct):
    """Contents of a results folder: counts, and a line for each problem and for each note.

    Attributes:
        measured: paths of the records, each with the digest of what its rounds measured.
        trials: what a reader makes of them.
    """

    counts: dict[str, int] = {}
    problems: list[str] = []
    notes: list[str] = []
    measured: list[tuple[str, str]] = []
    trials: list[Part] = []

    def add(self, other: Findings) -> None:
        """Add what else the folder contains."""
        for word, count in other.counts.items():
            self.count(word, count)
        self.problems.extend(other.problems)
        self.notes.extend(other.notes)
        self.measured.extend(other.measured)
        self.trials.extend(other.trials)

    def count(self, word: str, count: int = 1) -> None:
        """Count one more of these, or more."""
        self.counts[word] = self.counts.get(word, 0) + count

    def find_copies(self) -> None:
        """Add a problem for each measurement that is there twice."""
        seen: dict[str, str] = {}
        for path, digest in self.measured:
            if digest in seen:
                self.problems.append(f"{path}: the same measurement as {seen[digest]}")
            seen[digest] = path


def examine(results_dir: Path) -> Findings:
    """The findings of a whole results folder.

    Raises:
        StoreError: its records cannot be listed.
    """
    findings, folder = Findings(), results_dir / "records"
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise StoreError(f"{folder} cannot be read: {error.strerror or error}") from error
    with progress_bar("checking records") as advance:
        for done, found in in_parts(_examine_part, str(results_dir), names, Findings):
            findings.add(found)
            advance(done, len(names))
    findings.find_copies()
    with progress_bar("comparing kept rows"):
        read = join_parts(findings.trials)
        findings.problems.extend(rows.unlike_records(results_dir, read))
    if contaminated := findings.counts.get("contaminated"):
        findings.notes.append(
            f"{folder}: {contaminated} of {findings.counts['record']} records are contaminated: "
            "other processes ran meanwhile; measure again on a quiet machine"
        )
    findings.counts["quarantined"] = sum(1 for _ in (results_dir / "quarantine").glob("*"))
    return findings


def _examine_part(folder: str, names: Sequence[str]) -> Findings:
    """The findings of some of the folders of trials."""
    findings, store = Findings(), Store(Path(folder))
    trials = _trials([store.records_dir / name for name in names], findings)
    read = summarize_trials(store, ((name, records, ()) for name, records in trials))
    findings.problems.extend(read.problems)
    own = read.facts.items()  # without what `compare` alone needs
    facts = {name: msgspec.structs.replace(fact, compared=None) for name, fact in own}
    findings.trials.append(Part.of(replace(read, facts=facts)))
    return findings


def _trials(entries: Sequence[Path], findings: Findings) -> Iterator[tuple[str, list[Record]]]:
    """The readable records of each trial; problems and notes go to `findings`."""
    for path in entries:
        if path.name.startswith("."):
            continue  # a temporary file, which the next trial removes
        if path.is_symlink():
            findings.problems.append(f"{path}: a link, which no reader follows")
        elif not path.is_dir() or not TRIAL_NAME.fullmatch(path.name):
            findings.notes.append(f"{path}: not a trial's folder")
        else:
            findings.count("trial")
            records = list(_records(path, findings))
            machines = {
                json.dumps([record.device.get("name"), record.environment.get("packages")])
                for record in records
            }
            if len(machines) > 1:
                findings.problems.append(f"{path}: records of different devices or versions")
            in_order = sorted(records, key=lambda record: record.replicate)
            if other := len(records) - len(newest(in_order, build_of)[0] if records else ()):
                findings.notes.append(
                    f"{path}: {other} of {len(records)} records are left out: they measured "
                    "another model or other libraries than the newest record"
                )
            yield path.name, records


def _disorder(record: Record) -> Iterator[str]:
    """The first round that cannot follow the one before it, or the times of all."""
    ended = 0
    for number, one in enumerate(record.rounds):
        modes = [block.mode for block in one.blocks]
        fault = ""
        if one.round != number:
            fault = f"it is round {one.round}"
        elif modes != [*one.order] or len({*modes}) < len(modes):
            fault = "its blocks are not one of each mode, in its order"
        elif not {*modes} <= record.modes.keys():
            fault = "it has a mode that the record has not"
        elif not ended <= one.started_ns <= one.finished_ns:
            fault = "it started before the one before it ended, or finished before that"
        if fault:
            yield f"round {number}: {fault}"
            return
        ended = one.finished_ns
    with contextlib.suppress(ValueError, TypeError):
        begun, end = map(datetime.datetime.fromisoformat, (record.started_at, record.finished_at))
        trial_s = (end - begun).total_seconds() + _SLACK_S
        if record.rounds and (ended - record.rounds[0].started_ns) / 1e9 > trial_s:
            yield "its rounds take longer than the trial, unless the clock was set back meanwhile"


def _records(folder: Path, findings: Findings) -> Iterator[Record]:
    """The records of a trial that are its own."""
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        findings.problems.append(f"{folder}: {error.strerror or error}")
        return
    for path in paths:
        if path.name.startswith("."):
            continue
        if not RECORD_NAME.fullmatch(path.name):
            findings.notes.append(f"{path}: not a record's name; no reader reads it")
            continue
        findings.count("record")
        try:
            record = Record.from_json(read_regular(path))
        except (RecordFormatError, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            findings.problems.append(f"{path}: cannot be read: {reason}")
            continue
        findings.count(str(record.status))
        findings.problems.extend(f"{path}: {line}" for line in _disorder(record))
        if str(record.replicate) != path.stem:
            findings.problems.append(f"{path}: replicate {record.replicate} differs from its name")
        if record.rounds:
            measured = msgspec.json.encode((record.rounds, record.started_at))
            findings.measured.append((str(path), hashlib.sha256(measured).hexdigest()))
        if record.trial_id == folder.name:
            yield record
        else:
            findings.problems.append(f"{path}: trial_id {record.trial_id} differs from the folder")
