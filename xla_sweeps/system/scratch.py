"""Temporary folders that go with their process: what a killed one left, the next one removes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from xla_sweeps.errors import StoreError

PREFIX = "xla-sweeps-tmp-"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder below the temporary one; it is removed at the end.

    It is locked meanwhile, so that other processes, of other containers too, know that it is used.

    Raises:
        StoreError: it cannot be made.
    """
    try:
        place = Path(tempfile.gettempdir())
        _remove_left(place)
        made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=place))
    except OSError as error:
        reason = f"the temporary folder cannot be used: {error.strerror}"
        raise StoreError(f"{reason}: set TMPDIR to another, or see `ulimit -f`") from error
    descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    folder = made.with_name(made.name[1:])
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            made = made.rename(folder)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(descriptor)


def _remove_left(place: Path) -> None:
    """Remove this user's folders of processes that have ended."""
    for left in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(left, flags)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_uid == os.getuid():
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
