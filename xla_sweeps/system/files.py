"""Two habits with files: read the end of one, and replace one whole."""

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
    """Write a file so that its name has the old content or the new one, never a part.

    Its folder is made if need be.

    Not made to last through a power cut: what must last is `store`'s.

    Raises:
        OSError: it could not be written; nothing is left of the try.
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
