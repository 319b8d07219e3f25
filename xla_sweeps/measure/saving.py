"""Save what was measured, also where the results folder cannot take it for a while.

What it did not take is kept in this user's temporary folder until the next trial into it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import select
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from xla_sweeps.errors import StoreError
from xla_sweeps.measure.workers import Stop
from xla_sweeps.results.store import Store
from xla_sweeps.schema.record import Record, RecordFormatError
from xla_sweeps.system.files import own_file, private_folder, read_regular, replace_whole

TRY_S, PAUSE_S = 60.0, 2.0


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
            select.select([stop], [], [], PAUSE_S)


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
                if not _is_stored(record, store):
                    warn(f"{kept}, which could not be saved then, is now {store.save(record)[1]}")
                kept.unlink()
            except (OSError, RecordFormatError, StoreError) as error:
                warn(f"{kept} could not be saved again: {error}")


def _is_stored(record: Record, store: Store) -> bool:
    """True if it is stored under any number: its saver may have died before removing it here."""
    stored = store.load(record.trial_id).records.get(record.trial_id, [])
    return any(replace(each, replicate=record.replicate) == record for each in stored)


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
