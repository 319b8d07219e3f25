"""Read, replace and make files in folders that other people may have filled; temporary folders."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from xla_sweeps.errors import StoreError

READ_LIMIT_BYTES = 64 * 2**20
"""The largest file that is read whole: a record of a long trial has less than a hundredth of it."""


def read_regular(path: str | Path, *, limit: int = READ_LIMIT_BYTES) -> bytes:
    """The content of a regular file that somebody else may have put there.

    A link is not followed, a pipe or device is not waited for, and at most `limit` bytes are read.

    Raises:
        OSError: it cannot be opened, is no regular file, or is larger; `strerror` says which.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    with open(descriptor, "rb") as handle:  # noqa: PTH123  (a descriptor, not a path)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        expected = min(limit, max(status.st_size, 2**16))  # a file of the kernel says 0
        content = handle.read(expected + 1) if status.st_size <= limit else None
    if content is None or len(content) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit // 2**20} MiB", str(path))
    return content


def folder_in(root: Path, *names: str) -> Path:
    """A folder below `root`, made where it is missing; an OSError where a part of it is a link."""
    folder = root
    for name in names:
        folder = folder / name
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise OSError(errno.ENOTDIR, f"{name} is a link or no folder", str(folder))
    return folder


def own_file(path: Path) -> int:
    """A descriptor of a file to lock or append to, made where it is missing; links are refused."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a file of its own", str(path))
    return descriptor


LEFT_OVER_S = 24 * 3600
"""Age of a temporary file past which its writer, which needs milliseconds, is gone."""


def remove_left_over(paths: Iterable[Path]) -> None:
    """Remove the temporary files among these that a killed process left long ago."""
    for path in paths:
        if path.name.startswith(".probe-") or (path.name[:1] == "." and path.suffix == ".tmp"):
            with contextlib.suppress(OSError):
                if time.time() - path.lstat().st_mtime > LEFT_OVER_S:
                    path.unlink()


def tail(path: Path, *, limit: int) -> str:
    """The last bytes of a file as text; "" where it cannot be read."""
    with contextlib.suppress(OSError), path.open("rb") as handle:
        handle.seek(max(0, handle.seek(0, os.SEEK_END) - limit))
        return handle.read().decode("utf-8", "replace")
    return ""


def private_folder(given: str | None = None, *, make: bool = True) -> Path | None:
    """This user's folder below the temporary one, or the given one; made if need be.

    None where it is not there or cannot be made, or others could write to it.
    """
    with contextlib.suppress(OSError):
        folder = Path(given or Path(tempfile.gettempdir()) / f"xla-sweeps-{os.getuid()}")
        if make:
            folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if mine and not status.st_mode & 0o022:
            return folder
    return None


def trim(path: Path, *, limit: int) -> None:
    """Cut the middle out of a log that has grown past `limit` bytes; its beginning and end stay.

    Other processes may append to it meanwhile.
    """
    with contextlib.suppress(OSError), path.open("r+b") as handle:
        size = handle.seek(0, os.SEEK_END)
        if size <= limit:
            return
        handle.seek(size - limit // 4)
        end = handle.read(limit // 4)
        handle.truncate(limit // 2)
        with path.open("ab") as appended:
            cut = size - limit // 2 - len(end)
            appended.write(b"\n[... %d bytes cut ...]\n" % cut + end)


def drop_lines(path: Path, expression: re.Pattern[bytes]) -> None:
    """Remove the lines of a log that match."""
    with contextlib.suppress(OSError), path.open("r+b") as handle:
        lines = handle.read().splitlines(keepends=True)
        kept = [line for line in lines if not expression.search(line)]
        if len(kept) < len(lines):
            handle.seek(0)
            handle.write(b"".join(kept))
            handle.truncate()


def replace_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically: readers see the old content or the new one, never a part.

    Its folder is created. It may not survive a power cut; `store.store` writes what must.

    Raises:
        OSError: it could not be written, or is a device, a pipe or a folder; no temporary file is
            left.
    """
    if os.path.lexists(path) and not (path.is_symlink() or path.is_file()):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


SCRATCH_PREFIX = "xla-sweeps-tmp-"
"""Beginning of temporary folders' names: what a killed process left, the next one removes."""


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
        made = Path(tempfile.mkdtemp(prefix=f".{SCRATCH_PREFIX}", dir=place))
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
    for left in place.glob(f"{SCRATCH_PREFIX}*"):
        with contextlib.suppress(OSError):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(left, flags)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_uid == os.getuid():
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
