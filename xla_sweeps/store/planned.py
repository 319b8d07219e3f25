"""Keep the trials that a sweep plans, to tell how many of them have no record yet."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from xla_sweeps.store.rows import load_runs
from xla_sweeps.store.store import Store
from xla_sweeps.system.files import folder_in, read_regular, replace_whole

_FOLDER = "sweeps"


class _PlannedFile(msgspec.Struct):
    sweep: str
    requests: list[str]


def keep(results_dir: Path, sweep: str, requests: Iterable[str]) -> None:
    """Keep the trials that a sweep plans, in place of its earlier plan; a full disk is ignored."""
    name = hashlib.sha256(sweep.encode()).hexdigest()[:16]
    with contextlib.suppress(OSError):
        replace_whole(
            folder_in(results_dir, _FOLDER) / f"{name}.json",
            msgspec.json.encode(_PlannedFile(sweep, sorted(set(requests)))),
        )


def count_unmeasured(results_dir: Path) -> int | None:
    """Number of planned trials without a record; None where no plan is kept."""
    wanted: set[str] = set()
    plans = 0
    for path in (results_dir / _FOLDER).glob("*.json"):
        with contextlib.suppress(OSError, msgspec.MsgspecError, ValueError, RecursionError):
            wanted.update(msgspec.json.decode(read_regular(path), type=_PlannedFile).requests)
            plans += 1
    if not plans:
        return None
    return len(wanted - {run.request_id for run in load_runs(Store(results_dir)).all()})
