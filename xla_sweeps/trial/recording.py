"""Make the record of a replicate, and save it; or keep it until the next trial into that folder."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from xla_sweeps.config.settings import Settings
from xla_sweeps.errors import StoreError
from xla_sweeps.schema.backend import backends_of
from xla_sweeps.schema.measurement import (
    NOT_REACHED,
    Failure,
    Flag,
    Flagged,
    ModeOutcome,
    Phase,
    Status,
)
from xla_sweeps.schema.record import ModelFacts, Record, RecordFormatError
from xla_sweeps.schema.trial import request_id
from xla_sweeps.store.store import Store
from xla_sweeps.system import environment
from xla_sweeps.system.devices import Device
from xla_sweeps.system.files import own_file, private_folder, read_regular, replace_whole
from xla_sweeps.system.process import Stop, becomes_readable
from xla_sweeps.trial.replicate import ReplicateResult

TRY_S, PAUSE_S = 60.0, 2.0


def make_record(
    settings: Settings,
    identifier: str,
    number: int,
    result: ReplicateResult,
    facts: Mapping[str, Any],
) -> Record:
    """The record of a replicate; modes that were not reached are `skipped`.

    Where no reader would take it, it is that of a failure which says why.
    """
    trial = settings.trial
    modes = {label: result.modes.get(label) or _skip_mode(result) for label in trial.modes}
    status, failure = _overall(result, modes)
    flags = list(result.flags)
    if result.rounds and not result.finished:
        flags.append(Flagged(Flag.CUT_SHORT))
    device = settings.device
    record = Record(
        trial_id=identifier,
        replicate=number,
        status=status,
        trial=trial,
        model=result.model or ModelFacts.of(trial.model),
        environment={
            **facts,
            "id": environment.environment_id(device, facts, *backends_of(trial)),
            "loaded": result.environment,
        },
        device=_facts_of(device),
        modes=modes,
        rounds=tuple(result.rounds),
        flags=tuple(flags),
        failure=failure,
        contamination=result.contamination,
        gpu=result.gpu,
        energy=result.energy,
        sync=result.sync,
        seconds=result.seconds,
        request_id=request_id(trial),
        words=settings.words or (),
        tracker=settings.tracker,
    )
    try:
        Record.from_json(record.to_json())
    except ValueError as error:
        message = f"what was measured cannot be kept: {error}"
        hint = "does the model's code change clocks, or what it is called with?"
        failure = Failure(phase=Phase.RECORD, kind="unreadable", message=message, hint=hint)
        lost = ReplicateResult(status=Status.RUN_ERROR, failure=failure)
        return make_record(settings, identifier, number, lost, facts)
    return record


def record_death(settings: Settings, identifier: str, store: Store, detail: str) -> Record:
    """Record that the trial's own process died without a record; returns the record as stored.

    `detail` begins with the name of the signal that it died of, or with its exit code.

    Raises:
        StoreError: it could not be stored.
    """
    failure = Failure(
        phase=Phase.RECORD,
        kind="died",
        message=f"the trial's own process died: {detail}",
        hint="its log is in logs/sweeps; the kernel's log may name what killed it",
    )
    was_killed = detail.startswith(signal.SIGKILL.name)
    status = Status.KILLED if was_killed else Status.CRASHED
    result = ReplicateResult(status=status, failure=failure)
    record = make_record(settings, identifier, 0, result, environment.environment())
    at = now()
    return store.save(replace(record, started_at=at, finished_at=at))[0]


def save(
    record: Record, store: Store, *, stop: Stop, warn: Callable[[str], None]
) -> tuple[Record, Path]:
    """Save a record; where that fails try for a minute, then keep it in the temporary folder.

    A stop ends the tries at once.

    Raises:
        StoreError: it is kept there; the message names the file.
    """
    deadline = time.monotonic() + TRY_S
    warned = False
    while True:
        try:
            return store.save(record)
        except StoreError as error:
            if stop.requested or time.monotonic() > deadline:
                raise StoreError(f"{error}. {_keep(record, store)}") from error
            if not warned:
                warned = True
                warn(f"{error}; free some space: trying for {TRY_S:.0f} s")
            becomes_readable(stop, PAUSE_S)


def take_in(store: Store, *, warn: Callable[[str], None]) -> None:
    """Save the records that were kept for this results folder, each under a free number."""
    folder = _folder_of(store, make=False)
    if folder is None or not folder.is_dir():
        return
    with contextlib.suppress(OSError), os.fdopen(own_file(folder / "lock"), "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else another trial does it
        for kept in sorted(folder.glob("*.json")):
            try:
                record = Record.from_json(read_regular(kept))
                stored = store.load(record.trial_id).records.get(record.trial_id, [])
                # Its saver may have died before it removed it here.
                if not any(replace(each, replicate=record.replicate) == record for each in stored):
                    warn(f"{kept}, which could not be saved then, is now {store.save(record)[1]}")
                kept.unlink()
            except (OSError, RecordFormatError, StoreError) as error:
                warn(f"{kept} could not be saved again: {error}")


def now() -> str:
    """The time, UTC, for a record."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def make_stamp() -> str:
    """The time, UTC, and this process, for the name of a log."""
    return f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%S}-{os.getpid()}"


def _facts_of(device: Device) -> dict[str, Any]:
    return {
        "kind": device.kind,
        "name": device.name,
        "uuid": device.uuid,
        "memory_bytes": device.memory_bytes,
        **(asdict(device.settings) if device.kind == "gpu" else {}),
    }


def _skip_mode(result: ReplicateResult) -> ModeOutcome:
    """The outcome of a mode that the process did not reach before it ended."""
    cause = result.failure
    message = f"not reached: {cause.message}" if cause else "not reached"
    hint = cause.hint if cause else ""
    status = result.status if result.status is Status.INTERRUPTED else Status.SKIPPED
    return ModeOutcome(
        status=status,
        failure=Failure(phase=Phase.BUILD, kind=NOT_REACHED, message=message, hint=hint),
    )


def _overall(
    result: ReplicateResult, modes: Mapping[str, ModeOutcome]
) -> tuple[Status, Failure | None]:
    """The replicate's own status: that of its modes only where no mode was measured."""
    if result.finished:
        usable = [outcome for outcome in modes.values() if outcome.latencies_s]
        if usable:
            return (Status.CONTAMINATED if result.contaminated else Status.OK), None
        first = next(iter(modes.values()))
        return first.status, first.failure
    return result.status, result.failure


def _keep(record: Record, store: Store) -> str:
    """Keep a record that cannot be saved outside the results folder; a line that says where."""
    folder = _folder_of(store, make=True)
    if folder is None:
        return "What was measured is lost"
    kept = folder / f"{record.trial_id}-{os.getpid()}-{record.replicate}.json"
    try:
        replace_whole(kept, record.to_json())
    except OSError as error:
        return f"What was measured is lost: {kept}: {error.strerror or error}"
    return (
        f"What was measured is in {kept}; the next trial on this machine with "
        f"results_dir={store.results_dir} saves it"
    )


def _folder_of(store: Store, *, make: bool) -> Path | None:
    """Folder of the records that this results folder did not take; None if there is none."""
    folder = private_folder(make=make)
    place = hashlib.sha256(os.fsencode(store.results_dir.resolve())).hexdigest()[:16]
    return folder and folder / "unsaved" / place
