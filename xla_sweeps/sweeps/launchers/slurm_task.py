"""One task of a Slurm array, on its node: run its jobs in turn, write a file about each that ended.

SIGTERM (preemption, cancel): the job saves what it has; Slurm decides whether to requeue the task.
SIGUSR1 (the time limit is near): the same, and the task requeues itself for the jobs that are left.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from xla_sweeps.sweeps.launchers.job import End, Ended, Job, end_of, ended_with, start, wait
from xla_sweeps.system.files import replace_whole
from xla_sweeps.system.process import StopSignals

MAX_RESTARTS = 20

TOO_SHORT = "no trial finished within the time limit, {count} times; raise it: --slurm time=H:MM:SS"


class ListedJob(msgspec.Struct):
    """A job as the launcher lists it; `end` is the file that says how it ended."""

    command: list[str]
    job: Job
    end: Path


class _Task:
    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self.signals = StopSignals(
            on_stop=lambda number: self._stop_child(), numbers=(signal.SIGTERM, signal.SIGUSR1)
        )

    def _stop_child(self) -> None:
        if self.child is not None:
            self.child.terminate()

    def run(self, listed: ListedJob) -> bool:
        """Run a job; returns whether it ended, False where it was stopped before."""
        environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **os.environ}  # as Slurm numbers GPUs
        self.child = start(listed.job, listed.command, environment=environment)
        if self.signals.number:
            self._stop_child()
        code = wait(self.child, listed.job)
        if self.signals.number and (end_of(code) is End.STOPPED or code < 0):
            return False
        write_end(listed.end, ended_with(code, listed.job, slot=_node_name()))
        return True


def main() -> int:
    """Run the jobs of this task that have not ended; 143 where it was stopped before they had."""
    tasks = msgspec.json.decode(
        Path(sys.argv[1]).read_bytes(),
        type=list[list[ListedJob]],
        dec_hook=lambda kind, text: kind(text),
    )
    task, finished = _Task(), 0
    with task.signals:
        for listed in tasks[int(os.environ["SLURM_ARRAY_TASK_ID"])]:
            if listed.end.exists():
                continue
            if task.signals.number or not task.run(listed):
                return _leave(task, listed.end, finished)
            finished += 1
    return 0


def _leave(task: _Task, end: Path, finished: int) -> int:
    """End before all jobs did; requeue this task where the time limit is near."""
    restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    if task.signals.number == signal.SIGUSR1:
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
