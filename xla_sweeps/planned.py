"""The trials that sweeps mean to measure, kept in the results folder, so that a page can say how many are missing."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from xla_sweeps.files import replace_whole
from xla_sweeps.index import read_index
from xla_sweeps.store import Store

_FOLDER = "sweeps"


class _File(msgspec.Struct):
    sweep: str
    requests: list[str]


def keep(results_dir: Path, sweep: str, requests: Iterable[str]) -> None:
    """Keep what a sweep means to measure, in the place of what it meant before; a folder that is full is no fault.

    Args:
        results_dir: the results folder.
        sweep: the sweep's name.
        requests: request ids of its trials.
    """
    name = hashlib.sha256(sweep.encode()).hexdigest()[:16]
    with contextlib.suppress(OSError):
        replace_whole(results_dir / _FOLDER / f"{name}.json", msgspec.json.encode(_File(sweep, sorted(set(requests)))))


def missing(results_dir: Path) -> int | None:
    """How many planned trials have no record; None where no plan is kept."""
    wanted: set[str] = set()
    plans = 0
    for path in (results_dir / _FOLDER).glob("*.json"):
        with contextlib.suppress(OSError, msgspec.DecodeError):  # ValidationError is one too
            wanted.update(msgspec.json.decode(path.read_bytes(), type=_File).requests)
            plans += 1
    if not plans:
        return None
    return len(wanted - {entry.request_id for entry in read_index(Store(results_dir)).all()})
