"""What whole processes take: wall and processor seconds, memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Took:
    """What a process took, with the processes that it started.

    Attributes:
        wall: seconds; so is `processor`, over all cores.
        memory: the most of any one process, GiB.
    """

    wall: float
    processor: float
    memory: float

    def __str__(self) -> str:
        times = f"wall {self.wall:.2f} s, processor {self.processor:.2f} s"
        return f"{times}, memory {self.memory:.2f} GiB"


def timed(command: Sequence[str], folder: Path) -> Took:
    """Run a command in a folder; `python -m` takes the package that lies there."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    wall = time.monotonic() - started
    return Took(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20)


def median(several: Sequence[Took]) -> Took:
    """The median of each figure."""
    return Took(
        *(
            statistics.median(getattr(took, name) for took in several)
            for name in ("wall", "processor", "memory")
        )
    )
