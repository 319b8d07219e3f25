"""Launchers run the trials of a sweep: on this machine, on Ray, on Slurm, or by W&B agents.

A launcher starts the command that a person would type, and reports how it ended. What was measured
is in the records; the driver decides whether to try again, once for every launcher.
"""

from __future__ import annotations

import argparse
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from xla_sweeps.config.values import integer_from
from xla_sweeps.sweeps.launchers.job import COMMAND, Ended, Job
from xla_sweeps.sweeps.launchers.slots import Slot

QUEUE_LIMIT = 1000
"""The most jobs in a cluster's queue at once, unless it is told otherwise."""

MOST_JOBS = 1_000_000


class Launcher(Protocol):
    """Run jobs on slots: the devices of this machine, or the nodes of a cluster.

    A cluster that chooses nodes itself needs no more than the methods without a body here.

    Attributes:
        name: as on the command line.
        targets: whether a job can be sent to a slot by its name.
    """

    name: str
    targets: bool = False

    @classmethod
    def preview(cls, options: Mapping[str, Any], *, jobs: int, results_dir: Path) -> str:
        """What it would submit, for a dry run; "" where that is the jobs' commands.

        Raises:
            ConfigError: an option is wrong.
        """
        return ""

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


class Screen(Protocol):
    """Show a person how a sweep is doing; `report.terminal` has one."""

    def running(self, slot: str, what: str, log: Path) -> None:
        """A job runs on a slot."""

    def ended(self, slot: str, what: str, outcome: str, detail: str, figure: str = "") -> None:
        """A job ended, how, and with which speedup."""

    def progress(
        self,
        done: int,
        total: int,
        counts: Mapping[str, int],
        *,
        left_s: tuple[float, float] | None,
        busy: str,
    ) -> None:
        """Show how far the sweep is, and how many trials are contaminated; "" where none is."""

    def warn(self, *messages: str) -> None:
        """Show something that a person should know now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherRequest:
    """Request for a launcher.

    Attributes:
        options: the launcher's own that were given, by name.
        results_dir: the results folder.
        slots: the devices of this machine that run trials, for a launcher that is `on_devices`.
        warn: called with what a person should know now.
        command: what a job's arguments follow.
    """

    options: Mapping[str, Any]
    results_dir: Path
    slots: Sequence[Slot]
    warn: Callable[[str], object]
    command: Sequence[str] = COMMAND


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherKind:
    """A launcher as the command line offers it.

    Attributes:
        place: its module and class, made of a `LauncherRequest`; "" where a W&B server drives the
            sweep.
        options: those that only this launcher and some others accept: keyword arguments of
            `add_argument`, by name.
        on_devices: whether trials run on devices of this machine, which are known beforehand.
    """

    place: str = ""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    on_devices: bool = False

    def preview(self, options: Mapping[str, Any], *, jobs: int, results_dir: Path) -> str:
        """What such a launcher would submit (`Launcher.preview`)."""
        return (
            self._kind().preview(options, jobs=jobs, results_dir=results_dir) if self.place else ""
        )

    def launcher(self, request: LauncherRequest) -> Launcher:
        """A launcher of this kind."""
        return cast(Launcher, self._kind()(request))

    def _kind(self) -> Any:
        return pkgutil.resolve_name(f"{__name__}.{self.place}")


def key_and_value(text: str) -> tuple[str, str]:
    """The two sides of KEY=VALUE.

    Raises:
        ArgumentTypeError: it is something else.
    """
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text}: expected KEY=VALUE")
    return key, value


_DEVICES = {
    "metavar": "D,D",
    "help": "gpu:0,gpu:1, or cpu:0,cpu:1 to split the cores (default: every GPU, else the CPU as "
    "one)",
}

_SLOTS = {
    "type": integer_from(1, to=MOST_JOBS),
    "help": f"the most jobs in the cluster's queue at once (default: {QUEUE_LIMIT})",
}

LAUNCHERS: Mapping[str, LauncherKind] = {
    "local": LauncherKind(
        place="local:LocalLauncher", on_devices=True, options={"devices": _DEVICES}
    ),
    "ray": LauncherKind(
        place="ray:RayLauncher",
        options={
            "address": {"help": "the cluster's address (default: start one on this machine)"},
            "slots": _SLOTS,
        },
    ),
    "slurm": LauncherKind(
        place="slurm:SlurmLauncher",
        options={
            "slurm": {
                "action": "append",
                "type": key_and_value,
                "metavar": "KEY=VALUE",
                "help": "an option of sbatch, as in partition=gpu (repeatable)",
            },
            "chunk": {
                "type": integer_from(1, to=MOST_JOBS),
                "help": "trials in one task of the job array (default: 1)",
            },
            "slots": _SLOTS,
        },
    ),
    "wandb": LauncherKind(options={"devices": _DEVICES}),
}
