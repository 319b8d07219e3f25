"""One task of a Slurm array, on its node: run its jobs in turn, write a file about each that ended.

With `--ahead=N`, N more of them prepare beside the one that measures, as on one machine.

SIGTERM (preemption, cancel): the job saves what it has; Slurm decides whether to requeue the task.
SIGUSR1 (the time limit is near): the same, and the task requeues itself for the jobs that are left.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from xla_sweeps.errors import DeviceError
from xla_sweeps.sweeps.launchers.job import (
    End,
    Ended,
    Job,
    end_of,
    ended_with,
    one_replicate,
    start,
    wait,
)
from xla_sweeps.sweeps.launchers.slots import ahead_on, slots_for
from xla_sweeps.system.devices import free_memory_bytes
from xla_sweeps.system.files import replace_whole
from xla_sweeps.system.leases import to_prepare
from xla_sweeps.system.process import StopSignals, heed_signals

MAX_RESTARTS = 20

TOO_SHORT = "no trial finished within the time limit, {count} times; raise it: --slurm time=H:MM:SS"


class ListedJob(msgspec.Struct):
    """A job as the launcher lists it; `end` is the file that says how it ended."""

    command: list[str]
    job: Job
    end: Path


class _Task(StopSignals):
    """The jobs of a task, several at once: one measures, the others prepare or wait."""

    def __init__(self) -> None:
        super().__init__(numbers=(signal.SIGTERM, signal.SIGUSR1))
        self._children: set[subprocess.Popen[bytes]] = set()

    def request(self) -> None:
        """Stop all jobs."""
        super().request()
        for child in tuple(self._children):
            child.terminate()

    def run_all(self, jobs: Sequence[ListedJob], *, ahead: int) -> list[bool]:
        """Run them; returns which ended, False for those that were stopped before."""
        ahead, turns = _ahead_here(ahead)
        run = partial(self._run, turns=turns)
        with ThreadPoolExecutor(1 + ahead) as pool:
            return list(pool.map(run, jobs))

    def _run(self, listed: ListedJob, *, turns: Collection[str]) -> bool:
        job = listed.job
        child = start(
            job,
            listed.command,
            environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **os.environ},  # as Slurm numbers GPUs
            assignment=one_replicate(job),
            turns=turns,
            stop=self,
        )
        if child is None:
            return False
        self._children.add(child)
        if self.number:
            child.terminate()
        code = wait(child, job)
        self._children.discard(child)
        if self.number and (end_of(code) is End.STOPPED or code < 0):
            return False
        write_end(listed.end, ended_with(code, job, slot=_node_name()))
        return True


def _ahead_here(asked: int) -> tuple[int, Collection[str]]:
    """Number of jobs that prepare beside one on this node, and the leases that they share."""
    try:
        slot = slots_for(None)[0] if asked else None
    except DeviceError:  # a GPU that cannot be used, as each trial says
        slot = None
    if slot is None:
        return 0, ()
    memory_mib = int(os.environ.get("SLURM_MEM_PER_NODE") or 0)
    memory_mib = memory_mib or slot.core_count * int(os.environ.get("SLURM_MEM_PER_CPU") or 0)
    free_bytes = min(free_memory_bytes(), memory_mib * 2**20 or math.inf)
    ahead, less = ahead_on([slot], asked, free_bytes=free_bytes)
    if less:
        print(less, flush=True)
    return ahead, to_prepare(slot.device, slot.cores) if ahead else ()


def main() -> int:
    """Run the jobs of this task that have not ended; 143 where it was stopped before they had."""
    heed_signals(signal.SIGUSR1)
    parser = argparse.ArgumentParser()
    parser.add_argument("jobs", type=Path)
    parser.add_argument("--ahead", type=int, default=0)
    given = parser.parse_args()
    tasks = msgspec.json.decode(
        given.jobs.read_bytes(),
        type=list[list[ListedJob]],
        dec_hook=lambda kind, text: kind(text),
    )
    task = _Task()
    left = [one for one in tasks[int(os.environ["SLURM_ARRAY_TASK_ID"])] if not one.end.exists()]
    with task:
        ended = task.run_all(left, ahead=given.ahead)
        if all(ended):
            return 0
        return _leave(task, left[ended.index(False)].end, sum(ended))


def _leave(task: _Task, end: Path, finished: int) -> int:
    """End before all jobs did; requeue this task where the time limit is near."""
    restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    if task.number == signal.SIGUSR1:
        if not finished and restarts >= MAX_RESTARTS:
            detail = TOO_SHORT.format(count=restarts + 1)
            write_end(end, Ended(how=End.FAILED, slot=_node_name(), detail=detail))
            return 2
        name = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
        subprocess.run(["scontrol", "requeue", name], check=False, timeout=30)
    return 143


def write_end(path: Path, ended: Ended) -> None:
    """Write how a job ended, atomically."""
    replace_whole(path, msgspec.json.encode(ended))


def _node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


if __name__ == "__main__":
    sys.exit(main())
