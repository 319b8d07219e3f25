"""Keep multiply-accumulates beside the records: counted once per model, size, batch and versions.

A file each in `cache/macs/`, replaced as a whole, so that trials may run side by side. What is
damaged, or was kept elsewhere, is counted again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict

import msgspec

from xla_sweeps.results.store import Store
from xla_sweeps.schema.record import ModelFacts, RecordFormatError, sealed, verified
from xla_sweeps.schema.trial import Counted, Trial, build_id
from xla_sweeps.system import files

VERSION = 1
"""Version of the counting (`macs.py` and `hlo.py` of the backend); raise it if counts change."""

_LIMIT_BYTES = 2**16


def known(store: Store, trial: Trial, packages: Mapping[str, str]) -> Counted | None:
    """What was counted of the model of a trial; None where nothing is kept.

    Args:
        store: of the records.
        trial: names the model.
        packages: versions of what is installed.
    """
    path = store.results_dir / "cache" / "macs" / _name(store, trial, packages)
    with contextlib.suppress(OSError, RecordFormatError, ValueError, msgspec.MsgspecError):
        text = files.read_regular(path, limit=_LIMIT_BYTES)
        if verified(text):
            return msgspec.json.decode(text, type=Counted)
    return None


def keep(store: Store, trial: Trial, packages: Mapping[str, str], model: ModelFacts | None) -> None:
    """Keep what a replicate counted; where that fails, it is counted again."""
    if model is None or None in (model.macs, model.params) or not model.fingerprint:
        return
    with contextlib.suppress(OSError):
        folder = files.folder_in(store.results_dir, "cache", "macs")
        files.remove_left_over(folder.glob(".*.tmp"))
        content = msgspec.convert(asdict(model), Counted)
        files.replace_whole(folder / _name(store, trial, packages), sealed(asdict(content)))


def _name(store: Store, trial: Trial, packages: Mapping[str, str]) -> str:
    identity = {**packages, "place": store.place(), "version": VERSION}
    return f"{build_id(trial, identity)}.json"
