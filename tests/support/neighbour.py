"""A computing process that is no child of ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote


@contextmanager
def hog(folder: Path, name: str = "hungry") -> Iterator[int]:
    """Start one under that command name, from a shell that exits; gives its process id."""
    program = folder / name
    program.symlink_to(Path(sys.executable).resolve())
    busy = f"setsid {quote(str(program))} -S -c 'while True: pass' secret-argument"
    command = f"{busy} >/dev/null 2>&1 & echo $!"
    pid = int(
        subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
    )
    try:
        while Path(f"/proc/{pid}/comm").read_text().strip() != name:
            time.sleep(0.01)
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
