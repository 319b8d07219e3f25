"""Folders of shipped models in a results folder: none is overwritten, no link is followed."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.system import files


@contextlib.contextmanager
def new_folder(results_dir: Path) -> Iterator[Path]:
    """A folder below `models` that is removed at the end, unless it was renamed."""
    made = None
    try:
        models = files.folder_in(results_dir.expanduser(), "models")
        made = models / f".{uuid.uuid4().hex}.tmp"
        made.mkdir()
        yield made
    except OSError as error:
        raise write_error(results_dir, error.strerror or error) from error
    finally:
        if made:
            shutil.rmtree(made, ignore_errors=True)


def write_error(results_dir: Path, reason: object) -> ConfigError:
    """The error of a folder that takes no model."""
    return ConfigError(f"results_dir={results_dir}: cannot save the model: {reason}")


_OURS: dict[Path, Mapping[str, str]] = {}
"""Hashes of the files in each folder that this process wrote: the same model, once more pickled."""


def keep(made: Path, digest: str) -> Path:
    """The folder of these files: one that holds them, or this one under a free name."""
    new = _hashes(made, sorted(file.name for file in made.iterdir()))
    for number in itertools.count(1):
        folder = made.with_name(digest if number == 1 else f"{digest}-{number}")
        try:
            made.rename(folder)
        except OSError:
            if not os.path.lexists(folder):
                raise
        else:
            _OURS[folder.absolute()] = new
            return folder
        ours = _OURS.get(folder.absolute(), new)
        present = _hashes(folder, [*new])
        if present in (new, ours) and ours.get("path.json") == new.get("path.json"):
            _OURS[folder.absolute()] = present
            return folder
    raise AssertionError("numbers end")


def require_unchanged(folder: Path) -> None:
    """Refuse a model that was measured while its files were replaced, by an `XlaSweepsError`."""
    ours = _OURS.get(folder.absolute())
    if ours is not None and _hashes(folder, [*ours]) != ours:
        raise XlaSweepsError(f"{folder}: its files were replaced while the model was measured")


def _hashes(folder: Path, names: Sequence[str]) -> Mapping[str, str]:
    """Hashes of files in a folder; none where it is a link, or one of them cannot be read."""
    hashes = {}
    with contextlib.suppress(OSError):
        for name in names if stat.S_ISDIR(folder.lstat().st_mode) else ():
            path = folder / name
            content = files.read_regular(path, limit=path.lstat().st_size)
            hashes[name] = hashlib.sha256(content).hexdigest()
        return hashes
    return {}
