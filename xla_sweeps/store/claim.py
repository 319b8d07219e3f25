"""Claim a trial while it is measured: an open lock, so that it ends with its process."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from xla_sweeps.errors import LockedError, StoreError
from xla_sweeps.system import files
from xla_sweeps.system.text import displayable

LOOK_TRIES, LOOK_PAUSE_S = 100, 0.002
"""How often a claim is tried again that met only the looks of `is_claimed`, which are short."""


def is_claimed(results_dir: Path, trial_id: str) -> bool:
    """True if a process holds the trial; makes and removes no file, and never blocks a claim."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(results_dir / "claims" / f"{trial_id}.lock", flags)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def claim_trial(results_dir: Path, trial_id: str) -> Iterator[None]:
    """Hold a trial of a results folder while it is measured; its file is removed at the end.

    Raises:
        LockedError: another process holds it.
        StoreError: the file cannot be opened or locked.
    """
    path = results_dir / "claims" / f"{trial_id}.lock"
    sys.audit("xla_sweeps.claim.before")
    with contextlib.ExitStack() as stack:
        try:
            files.folder_in(results_dir, "claims")
            stack.enter_context(lock_file(path))
        except BlockingIOError as error:
            raise LockedError(
                f"this trial ({trial_id}) is being measured into {results_dir} by another "
                f"process ({_holder(error.filename)}): wait for it, or choose another "
                "results_dir=PATH"
            ) from None
        except OSError as error:
            raise StoreError(
                f"{path} cannot be locked: {error.strerror or error}{_owner(path)}. "
                "Choose another: results_dir=PATH"
            ) from error
        sys.audit("xla_sweeps.claim.after")
        yield
        sys.audit("xla_sweeps.claim.release")


def remove_left(results_dir: Path, trial_ids: Iterable[str]) -> None:
    """Remove what is left of the claims of processes that were killed."""
    for trial in trial_ids:
        path = results_dir / "claims" / f"{trial}.lock"
        if path.exists():
            with contextlib.suppress(OSError), lock_file(path):
                pass


@contextlib.contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """A locked file that names this process; it is removed while the lock is held.

    Who opened a file that was then removed opens again.

    Raises:
        BlockingIOError: another process holds it; `filename` is what it wrote there.
        OSError: it cannot be opened.
    """
    while True:
        with os.fdopen(files.own_file(path), "r+", encoding="utf-8", errors="replace") as handle:
            try:
                _lock(handle.fileno())
            except BlockingIOError as error:
                raise BlockingIOError(error.errno, "held", handle.read(1000)) from None
            except OSError:
                # A file system without locks: saving is exclusive all the same: nothing is lost.
                yield
                return
            if not _is_still(path, handle.fileno()):
                continue
            handle.truncate(0)
            handle.write(json.dumps({"pid": os.getpid(), "host": os.uname().nodename}))
            handle.flush()
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    path.unlink()
            return


def _lock(descriptor: int) -> None:
    """Lock a file for this process alone; raises `BlockingIOError` where another has."""
    for _ in range(LOOK_TRIES):
        with contextlib.suppress(BlockingIOError):
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # fails, if it is more than a look
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(LOOK_PAUSE_S)
    return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_still(path: Path, descriptor: int) -> bool:
    """True if the open file is the one under that name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    return False


def _holder(text: str) -> str:
    try:
        holder: dict[str, Any] = json.loads(text)
        return f"pid {int(holder['pid'])} on {displayable(holder['host'])[:64]}"
    except (ValueError, KeyError, TypeError):
        return "unknown"


def _owner(path: Path) -> str:
    """Whose file it is, where that is somebody else's."""
    with contextlib.suppress(OSError, KeyError):
        owner = path.lstat().st_uid
        if owner != os.geteuid():
            return f" (it is {pwd.getpwuid(owner).pw_name}'s)"
    return ""
