"""Sweeps of no-op trials, driven in this process or in one of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from commands import Running
from ended import processes, wait_for, wait_until
from quick_sweep import quick_launch, tasks_of

from xla_sweeps.schema.measurement import Status
from xla_sweeps.store.rows import load_runs
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.backlog import Backlog
from xla_sweeps.sweeps.compose import Task
from xla_sweeps.sweeps.driver import Driver
from xla_sweeps.sweeps.launchers import Launcher
from xla_sweeps.sweeps.launchers.local import LocalLauncher
from xla_sweeps.sweeps.outcomes import Collector, Judge, Outcome
from xla_sweeps.sweeps.plan import assign_records


class Notes:
    """A screen that keeps its calls."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, str]] = []
        self.warnings: list[str] = []
        self.busy_with: list[str] = []
        self.where: list[str] = []
        self.where_ended: list[str] = []
        self.reports: list[tuple[int, int]] = []
        self.counts: list[dict[str, int]] = []

    def running(self, slot: str, what: str, log: Path) -> None:
        self.where.append(slot)

    def show_end(self, slot: str, what: str, outcome: str, detail: str, figure: str = "") -> None:
        self.ends.append((what.split()[0].removeprefix("id="), outcome))
        self.where_ended.append(slot)

    def progress(
        self,
        done: int,
        total: int,
        counts: Mapping[str, int],
        *,
        left_s: tuple[float, float] | None,
        busy: str,
    ) -> None:
        self.reports.append((done, total))
        self.busy_with.append(busy)
        self.counts.append(dict(counts))

    def warn(self, *messages: str) -> None:
        self.warnings.extend(messages)


def drive(
    results: Path,
    *arguments: str,
    slots: int = 2,
    retry: Sequence[Status] = (),
    store: Store | None = None,
    notes: Notes | None = None,
    launcher: Launcher | None = None,
    tasks: Sequence[Task] | None = None,
    **driving: Any,
) -> tuple[Outcome, Notes]:
    """Run these trials, or these tasks, by default on slots of this machine."""
    store, notes = store or Store(results), notes or Notes()
    launcher = launcher or LocalLauncher(quick_launch(slots))
    tasks = tasks_of(results, list(arguments)) if tasks is None else tasks
    assign_records(tasks, load_runs(store), software={}, retry=retry)
    logs = results / "logs" / "sweeps"
    return Driver(launcher, store, notes, extra=(), logs=logs, **driving).run(tasks), notes


def judge_of(
    launcher: Launcher, backlog: Backlog | None = None, store: Store | None = None
) -> Judge:
    """A judge as the driver makes it, of an empty store by default."""
    collector = Collector(store or Store(Path("nowhere")), Notes().warn)
    return Judge(backlog or Backlog(), launcher, collector)


def counted(results: Path) -> dict[str, Counter[str]]:
    return {
        trial: Counter(str(record.status) for record in group)
        for trial, group in Store(results).load().records.items()
    }


def start(results: Path, *arguments: str, slots: int = 2, **environ: str) -> Running:
    return Running("quick", str(results), str(slots), *arguments, cwd=Path.cwd(), more=environ)


def alive_in(results: Path) -> list[int]:
    """Processes of ours that still work for this folder."""
    return processes(str(results), "quick_")


def gone(results: Path) -> bool:
    return wait_until(lambda: not alive_in(results))


def wait_for_claims(results: Path, *names: str) -> None:
    """Wait until the trials of these names are measured."""
    for name in names:
        wait_for((results / "claims" / f"{name}.lock").exists)
