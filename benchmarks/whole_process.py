"""Cost of whole processes: wall and processor seconds, memory; and its table."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from xla_sweeps.system import devices

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True)
class Took:
    """Cost of a process and of the processes that it started.

    Attributes:
        wall: seconds; so is `processor`, over all cores.
        memory: the most of any one process, GiB.
    """

    wall: float
    processor: float
    memory: float


def timed(command: Sequence[str], folder: Path) -> Took:
    """Run a command in a folder; `python -m` takes the package that lies there."""
    started = time.monotonic()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet, cwd=folder)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    wall = time.monotonic() - started
    return Took(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20)


def machine() -> str:
    """The machine that figures are measured on, and what it did before."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return (
        f"{devices.usable_cores()} cores of {devices.cpu_name()}, "
        f"{devices.memory_bytes() / 2**30:.0f} GiB; Python {platform.python_version()}; "
        f"load average before: {load}"
    )


def markdown(took: Mapping[str, Sequence[Took]], goals: Mapping[str, float]) -> str:
    """A table of medians.

    Args:
        took: several runs of each command, by what it does.
        goals: wall seconds, of some of these.
    """
    lines = [
        "| | wall s | all | goal | processor s | largest process, GiB |",
        "|---|---|---|---|---|---|",
    ]
    for what, several in took.items():
        wall, processor, memory = (
            statistics.median(getattr(one, name) for one in several)
            for name in ("wall", "processor", "memory")
        )
        every = ", ".join(f"{one.wall:.2f}" for one in several)
        goal = f"{goals[what]:g}" if what in goals else ""
        lines.append(f"| {what} | {wall:.2f} | {every} | {goal} | {processor:.2f} | {memory:.2f} |")
    return "\n".join(lines)


def show(name: str, title: str, sections: Sequence[str], *, write: bool) -> None:
    """Print a benchmark's tables, and keep them as `benchmarks/results/NAME.md` if asked."""
    text = "\n\n".join([f"# {title}", *sections]) + "\n"
    print(text)
    if write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.md").write_text(text)
