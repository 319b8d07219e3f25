"""Launchers run the trials of a sweep: on this machine, on Ray, on Slurm, or by W&B agents.

A launcher starts the command that a person would type, and reports how it ended. What was measured
is in the records; the driver decides whether to try again, once for every launcher.
"""

from __future__ import annotations

import argparse
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar, Protocol

from xla_sweeps.config.values import integer_from
from xla_sweeps.errors import ConfigError
from xla_sweeps.sweeps.launchers.job import COMMAND, Ended, Job
from xla_sweeps.sweeps.launchers.slots import Slot

BUILT_IN = {
    "local": "xla_sweeps.sweeps.launchers.local:LocalLauncher",
    "ray": "xla_sweeps.sweeps.launchers.ray:RayLauncher",
    "slurm": "xla_sweeps.sweeps.launchers.slurm:SlurmLauncher",
    "wandb": "xla_sweeps.sweeps.launchers.wandb_agents:AgentsLauncher",
}

ENTRY_POINTS = "xla_sweeps.launchers"
"""Group of entry points by which installed packages add launchers."""

Options = Mapping[str, Mapping[str, Any]]
"""Keyword arguments of `add_argument` by the name of an option."""

QUEUE_LIMIT = 1000
"""The most jobs in a cluster's queue at once, unless it is told otherwise."""

ONE_OR_MORE = integer_from(1, to=1_000_000)

DEVICES: Mapping[str, Any] = {
    "metavar": "D,D",
    "help": "gpu:0,gpu:1, or cpu:0,cpu:1 to split the cores (default: every GPU, else the CPU as "
    "one)",
}

AHEAD: Options = {
    "ahead": {
        "type": integer_from(0, to=1000),
        "metavar": "N",
        "help": "trials of a device that import, build and compile beside each other, and measure "
        "alone: faster, but compile times are marked, and there is no break-even (default: 0)",
    },
}

SLOTS = {
    "type": ONE_OR_MORE,
    "help": f"the most trials in the cluster's queue at once (default: {QUEUE_LIMIT})",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherRequest:
    """Request for a launcher.

    Attributes:
        options: the launcher's own that were given, by name.
        slots: the devices of this machine that run trials, for a launcher that is `on_devices`.
        warn: called with what a person should know now.
        command: what a job's arguments follow.
    """

    options: Mapping[str, Any]
    results_dir: Path
    slots: Sequence[Slot]
    warn: Callable[[str], object]
    command: Sequence[str] = COMMAND


class Launcher(Protocol):
    """Run jobs on slots: the devices of this machine, or the nodes of a cluster.

    A cluster that chooses nodes itself needs no more than the methods without a body here.

    Attributes:
        name, options: as on the command line.
        on_devices: whether trials run on devices of this machine, which are known beforehand.
        driven: whether the sweep's driver submits the jobs; else a server hands trials out.
        targets: whether a job can be sent to a slot by its name.
        asked_slots: the most jobs in its queue at once, where somebody chose them.
    """

    name: str
    options: ClassVar[Options] = {}
    on_devices: bool = False
    driven: bool = True
    targets: bool = False
    asked_slots: int | None = None

    def __init__(self, request: LauncherRequest) -> None: ...

    @classmethod
    def preview(cls, options: Mapping[str, Any], *, jobs: int, results_dir: Path) -> str:
        """Text of its submission, for a dry run; "" where that is the jobs' commands.

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


@cache
def launchers() -> Mapping[str, type[Launcher]]:
    """The launchers by name: ours, and those that installed packages add as entry points.

    Raises:
        ConfigError: one cannot be loaded.
    """
    places = {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)} | BUILT_IN
    loaded = {}
    for name, place in sorted(places.items()):
        try:
            loaded[name] = pkgutil.resolve_name(place)
        except Exception as error:
            raise ConfigError(f"launcher {name} ({place}) cannot be loaded: {error}") from error
    return loaded


class Screen(Protocol):
    """Show a person how a sweep is doing; `report.terminal` has one."""

    def running(self, slot: str, what: str, log: Path) -> None:
        """A job runs on a slot."""

    def show_end(self, slot: str, what: str, outcome: str, detail: str, figure: str = "") -> None:
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


def key_and_value(text: str) -> tuple[str, str]:
    """The two sides of KEY=VALUE, for argparse."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text}: expected KEY=VALUE")
    return key, value
