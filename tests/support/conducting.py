"""Replicates by scripted workers: what surrounds them, and who follows them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ended import alive
from factories import EFFORT, TRIAL
from scripted import scripted

from xla_sweeps.schema.backend import Backend
from xla_sweeps.schema.measurement import Load, Round
from xla_sweeps.schema.record import GpuSpan, Record
from xla_sweeps.schema.row import TrialSummary
from xla_sweeps.schema.trial import Copies, ReplicateJob, Trial
from xla_sweeps.system.leases import Leases
from xla_sweeps.system.process import Stop
from xla_sweeps.trial import conductor
from xla_sweeps.trial.gpu import GpuWatch
from xla_sweeps.trial.monitor import Sampler
from xla_sweeps.trial.replicate import ReplicateResult, Screen, Setting
from xla_sweeps.trial.rounds import Progress
from xla_sweeps.trial.tracking import RunHeader, Tracker, TrackerReport
from xla_sweeps.trial.workers import WorkerCommand

EIGHT = replace(EFFORT, rounds_min=8)


@dataclass
class QuietMachine(Sampler):
    """A monitor that finds some rounds contaminated, if told to."""

    gpu: GpuWatch | None = None
    dirty: Mapping[int, str] = field(default_factory=dict)
    disturbances: list[str] = field(default_factory=list)
    load: Load | None = None
    pids: list[int] = field(default_factory=list)
    exceeded: list[Callable[[], None]] = field(default_factory=list)
    followed: list[int] = field(default_factory=list)

    def forget(self) -> None: ...

    def add(self, pid: int, exceeded: Callable[[], None]) -> None:
        self.pids.append(pid)
        self.exceeded.append(exceeded)

    @contextmanager
    def following(self, pid: int, exceeded: Callable[[], None]) -> Iterator[None]:
        self.followed.append(pid)
        yield

    def review(self, rounds: Sequence[Round]) -> list[Round]:
        if self.gpu:
            self.gpu.review(rounds)
        return [
            replace(round_, dirty=self.dirty.get(round_.round, ""), load=self.load)
            for round_ in rounds
        ]

    def disturbance(self) -> str:
        return self.disturbances.pop(0) if self.disturbances else ""

    def summary(self) -> dict[str, Any]:
        return {"samples": 3}

    @contextmanager
    def watch(self) -> Iterator[QuietMachine]:
        yield self


class Notes(Screen, Tracker):
    """A screen and a tracker that keep what they are told, and can react to it.

    Attributes:
        told: (kind, value) in order.
        react: called with each.
    """

    def __init__(self, react: Callable[[str, Any], None] = lambda kind, value: None) -> None:
        self.react, self.told = react, list[tuple[str, Any]]()

    def _note(self, kind: str, value: Any) -> None:
        self.told.append((kind, value))
        self.react(kind, value)

    def of(self, kind: str) -> list[Any]:
        return [value for kind_told, value in self.told if kind_told == kind]

    def stage(self, replicate: int, stage: str, mode: str | None, detail: str = "") -> None:
        if stage == "wait":
            self._note("waiting" if detail.startswith("for its turn") else "contaminated", detail)
        else:
            self._note("stage", (stage, mode, detail))

    def warn(self, message: str) -> None:
        self._note("warn", message)

    def trial_started(self, title: str, *, replicates: int, log: Path) -> None:
        self._note("trial", title)

    def replicate_done(self, replicate: int, status: str, message: str = "") -> None:
        self._note("done", status)

    def open(self, header: RunHeader) -> None:
        self._note("open", header.name)

    def preempt(self) -> None:
        self._note("preempt", None)

    def finish(
        self, records: Sequence[Record], summary: TrialSummary | None, *, exit_code: int
    ) -> TrackerReport:
        self._note("finish", (len(records), exit_code))
        return super().finish(records, summary, exit_code=exit_code)

    def log_rounds(
        self,
        replicate: int,
        rounds: Sequence[Round],
        *,
        batch_size: int,
        gpu: Sequence[GpuSpan] = (),
    ) -> None:
        self._note("rounds", list(rounds))
        self._note("gpu", list(gpu))

    def round_done(self, replicate: int, progress: Progress) -> None:
        self._note("progress", progress)


def conduct_commands(
    trial: Trial,
    commands: Sequence[WorkerCommand],
    *,
    watch: Callable[[], Any] | None = None,
    notes: Notes | None = None,
    stop: Stop | None = None,
    leases: Leases | None = None,
    **options: Any,
) -> ReplicateResult:
    """Measure a replicate by these workers; `options` are others of a `Setting`."""
    notes = notes or Notes()
    with ExitStack() as opened:
        return conductor.measure(
            ReplicateJob(trial=trial, replicate=0, modes=trial.modes, order_seed=1),
            Setting(
                commands=tuple(commands),
                watch=watch or QuietMachine().watch,
                stop=stop or opened.enter_context(Stop()),
                leases=opened.enter_context(leases or Leases((), holder="test")),
                screen=notes,
                tracker=notes,
                **options,
            ),
        )


def conduct_trial(
    trial: Trial,
    backend: Backend,
    folder: Path,
    *,
    environment: Mapping[str, str] = os.environ,
    **options: Any,
) -> ReplicateResult:
    """Measure a replicate by a backend's workers, their log in the folder."""
    started: dict[str, Any] = {"environment": dict(environment), "log": folder / "child.log"}
    commands = [
        WorkerCommand(backend=backend, labels=labels, trial=trial, **started)
        for labels in trial.workers
    ]
    return conduct_commands(trial, commands, **options)


def conduct(
    tmp_path: Path,
    *script: str,
    modes: tuple[str, ...] = ("graph", "xla"),
    copies: Copies = "together",
    machine: QuietMachine | None = None,
    compile_s: float = 30,
    warmup_s: float = 30,
    device: str = "cpu",
    **options: Any,
) -> ReplicateResult:
    limits = replace(TRIAL.timeouts, compile_s=compile_s, warmup_s=warmup_s)
    trial = replace(TRIAL, timeouts=limits, modes=modes, copies=copies, effort=EIGHT, device=device)
    machine = machine or QuietMachine()
    try:
        return conduct_trial(trial, scripted(*script), tmp_path, watch=machine.watch, **options)
    finally:
        assert not any(map(alive, machine.pids))
