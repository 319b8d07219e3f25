"""One task of a Slurm array, on its node: run its jobs in turn, write a file about each that ended.

SIGTERM (preemption, cancel): the job saves what it has; Slurm decides whether to requeue the task.
SIGUSR1 (the time limit is near): the same, and the task requeues itself for the jobs that are left.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from xla_sweeps.sweep.launchers import End, end_of, last_line, make_log_folder, wait_for
from xla_sweeps.system.files import replace_whole
from xla_sweeps.system.process import Assignment, StopSignals, signal_group

MAX_RESTARTS = 20

TOO_SHORT = (
    "no trial finished within the task's time limit, {count} times; raise it: --slurm time=HH:MM:SS"
)


class TaskJob(msgspec.Struct):
    """A job as the launcher lists it."""

    command: list[str]
    arguments: list[str]
    log: str
    end: str
    known_records: int = 0
    silent_s: float | None = None


class EndFile(msgspec.Struct):
    """How a job ended.

    Attributes:
        paths: of the records that it made.
    """

    exit_code: int
    node: str
    detail: str
    paths: list[str]


class _Task:
    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self.signals = StopSignals(
            on_stop=lambda number: self._stop_child(), numbers=(signal.SIGTERM, signal.SIGUSR1)
        )

    def _stop_child(self) -> None:
        if self.child is not None:
            with contextlib.suppress(ProcessLookupError):
                self.child.send_signal(signal.SIGTERM)

    def run(self, job: TaskJob) -> bool:
        """Run a job; returns whether it ended, False where it was stopped before."""
        log, end = Path(job.log), Path(job.end)
        make_log_folder(log)
        recorded = end.with_suffix(".records")
        assignment = Assignment(
            parent=os.getpid(),
            # with the records that this very job made before it was preempted
            known_records=job.known_records + len(_lines(recorded)),
            recorded=str(recorded),
        )
        with log.open("ab") as output:
            self.child = subprocess.Popen(
                [*job.command, *job.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={
                    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # as Slurm numbers GPUs
                    **os.environ,
                    **assignment.environment(),
                },
                start_new_session=True,
            )
        if self.signals.number:
            self._stop_child()
        code = wait_for(self.child, log, job.silent_s or math.inf)
        signal_group(self.child.pid, signal.SIGKILL)
        if self.signals.number and (end_of(code) is End.STOPPED or code < 0):
            return False
        write_end(end, EndFile(code, node_name(), last_line(log), _lines(recorded)))
        return True


def main() -> int:
    """Run the jobs of this task that have not ended; 143 where it was stopped before they had."""
    chunks = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=list[list[TaskJob]])
    task, finished = _Task(), 0
    with task.signals:
        for job in chunks[int(os.environ["SLURM_ARRAY_TASK_ID"])]:
            if Path(job.end).exists():
                continue
            if task.signals.number or not task.run(job):
                return _leave(task, job, finished)
            finished += 1
    return 0


def _leave(task: _Task, job: TaskJob, finished: int) -> int:
    """End before all jobs did; requeue this task where the time limit is near."""
    restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    if task.signals.number == signal.SIGUSR1:
        if not finished and restarts >= MAX_RESTARTS:
            write_end(
                Path(job.end), EndFile(2, node_name(), TOO_SHORT.format(count=restarts + 1), [])
            )
            return 2
        name = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
        subprocess.run(["scontrol", "requeue", name], check=False, timeout=30)
    return 143


def write_end(path: Path, end: EndFile) -> None:
    """Write an end file, atomically."""
    replace_whole(path, msgspec.json.encode(end))


def node_name() -> str:
    """The node's name, as Slurm calls it."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def _lines(path: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return [line for line in path.read_text("utf-8").splitlines() if line]
    return []


if __name__ == "__main__":
    sys.exit(main())
