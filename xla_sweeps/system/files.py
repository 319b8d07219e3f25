"""Read the tail of a file, and replace a file atomically."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path


def tail(path: Path, *, limit: int) -> str:
    """The last bytes of a file as text; "" where it cannot be read."""
    with contextlib.suppress(OSError), path.open("rb") as handle:
        handle.seek(max(0, handle.seek(0, os.SEEK_END) - limit))
        return handle.read().decode("utf-8", "replace")
    return ""


def replace_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically: readers see the old content or the new one, never a part.

    Its folder is created. It may not survive a power cut; `results.store` writes what must.

    Raises:
        OSError: it could not be written; no temporary file is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
