"""Replicates by scripted workers: what surrounds them, and who follows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xla_sweeps.schema.measurement import Load, Round
from xla_sweeps.schema.record import GpuSpan
from xla_sweeps.trial.gpu import GpuWatch
from xla_sweeps.trial.monitor import Sampler
from xla_sweeps.trial.replicate import Screen
from xla_sweeps.trial.rounds import Progress
from xla_sweeps.trial.tracking import NoTracker, RunHeader


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


class Notes(Screen, NoTracker):
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
            self._note("contaminated", detail)
        else:
            self._note("stage", (stage, mode, detail))

    def warn(self, message: str) -> None:
        self._note("waiting" if message.startswith("waiting for") else "warn", message)

    def trial_started(self, title: str, *, replicates: int, log: Path) -> None:
        self._note("trial", title)

    def replicate_done(self, replicate: int, status: str, message: str = "") -> None:
        self._note("done", status)

    def open(self, header: RunHeader) -> None:
        self._note("open", header.name)

    def preempt(self) -> None:
        self._note("preempt", None)

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
