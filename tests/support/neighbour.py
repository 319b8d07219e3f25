"""A computing process that is no child of ours."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from programs import run_program


@contextmanager
def hog(folder: Path) -> Iterator[int]:
    """Start one under the command name `hungry`, from a shell that exits; gives its process id."""
    program = folder / "hungry"
    program.symlink_to(Path(sys.executable).resolve())
    busy = f"setsid {quote(str(program))} -S -c 'while True: pass' secret-argument"
    command = f"{busy} >/dev/null 2>&1 & echo $!"
    pid = int(run_program("sh", "-c", command).stdout)
    try:
        while Path(f"/proc/{pid}/comm").read_text().strip() != program.name:
            time.sleep(0.01)
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
