"""Launchers run the trials of a sweep: on this machine, on Ray, on Slurm, or by W&B agents.

A launcher starts the command that a person would type, and reports how it ended. What was measured
is in the records; the driver decides whether to try again, once for every launcher.
"""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from xla_sweeps.sweep.launchers.job import Ended, Job

NAMES = ("local", "ray", "slurm", "wandb")


class Launcher(Protocol):
    """Runs jobs on slots: the devices of this machine, or the nodes of a cluster.

    A cluster that chooses nodes itself needs no more than the methods without a body here.

    Attributes:
        name: as on the command line.
        targets: whether a job can be sent to a slot by its name.
        takes_documents: whether it uses a job's composed configuration.
    """

    name: str
    targets: bool = False
    takes_documents: bool = False

    def slots(self) -> list[str]:
        """Names of the slots that are known, for the screen."""

    def free(self, accelerator: str | None, slot: str | None = None) -> int:
        """Number of jobs that need such a device, or that slot, and may be submitted now."""

    def submit(self, job: Job) -> Future[Ended]:
        """Start a job, or queue it where the engine has its own queue.

        Never raises for what happens to the job.
        """

    def slot_of(self, future: Future[Ended]) -> str:
        """The slot that the job runs on; "" while it waits."""

    def drain(self, slot: str) -> bool:
        """Give a slot no more jobs; False where that cannot be done, or leaves none."""
        return False

    def take_turns(self) -> None:
        """Have only one job measure at a time, where slots share a machine."""
        return

    def stop(self, *, now: bool) -> None:
        """Ask all running jobs to save what they have and end; `now` ends them at once."""

    def close(self) -> None:
        """End at once what still runs, and give everything back; may be called again."""


class JobScreen(Protocol):
    """Shows a person which jobs run; `report.terminal` has one."""

    def running(self, slot: str, what: str, log: Path) -> None:
        """A job runs on a slot."""

    def ended(self, slot: str, what: str, outcome: str, detail: str, figure: str = "") -> None:
        """A job ended, how, and with which speedup."""

    def tick(self) -> None:
        """Time has passed."""

    def warn(self, message: str) -> None:
        """Show something that a person should know now."""
