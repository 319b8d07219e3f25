"""Save what was measured, also where the results folder cannot take it for a while."""

from __future__ import annotations

import os
import select
import shlex
import time
from collections.abc import Callable
from pathlib import Path

from xla_sweeps.errors import StoreError
from xla_sweeps.measure.process import Stop
from xla_sweeps.results.store import Store
from xla_sweeps.schema.record import Record
from xla_sweeps.system.files import private_folder, replace_whole

TRY_S, PAUSE_S = 60.0, 2.0


def save(
    record: Record, store: Store, *, stop: Stop, warn: Callable[[str], None]
) -> tuple[Record, Path]:
    """Save a record; where that fails try for a minute, then leave it in the temporary folder.

    Args:
        record: what was measured.
        store: where it belongs.
        stop: ends the tries at once.
        warn: told why it is tried again.

    Raises:
        StoreError: it is left there; the message names the file and how to bring it back.
    """
    deadline = time.monotonic() + TRY_S
    warned = False
    while True:
        try:
            return store.save(record)
        except StoreError as error:
            if stop.requested or time.monotonic() > deadline:
                raise StoreError(f"{error}. {_leave(record, store)}") from error
            if not warned:
                warned = True
                warn(f"{error}; free some space: trying for {TRY_S:.0f} s")
            select.select([stop], [], [], PAUSE_S)


def _leave(record: Record, store: Store) -> str:
    """Keep a record that cannot be saved outside the results folder; a line that says where."""
    name = f"{record.replicate}.json"
    target = store.records_dir.absolute() / record.trial_id / name
    folder = private_folder()
    if folder is None:
        return "What was measured is lost"
    kept = folder / "unsaved" / f"{record.trial_id}-{os.getpid()}-{name}"
    try:
        replace_whole(kept, record.to_json())
    except OSError as error:
        return f"What was measured is lost: {kept}: {error.strerror or error}"
    folders = shlex.join(["mkdir", "-p", str(target.parent)])
    copy = shlex.join(["cp", "-n", str(kept), str(target)])
    return f"What was measured is in {kept}; bring it back with: {folders} && {copy}"
