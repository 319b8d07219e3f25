"""A replicate as its conductor sees it: where it is measured, who follows it, what it yields."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from xla_sweeps.schema.measurement import Energy, Failure, Flagged, ModeOutcome, Round, Status
from xla_sweeps.schema.record import GpuSpan, ModelFacts
from xla_sweeps.system.leases import Leases
from xla_sweeps.system.process import Stop
from xla_sweeps.trial.monitor import Sampler
from xla_sweeps.trial.rounds import Progress
from xla_sweeps.trial.tracking import Tracker
from xla_sweeps.trial.workers import WorkerCommand

WAITING = "waiting for {device}: {holder} is measured on it"


class Screen(Protocol):
    """Display on which a person follows a trial; `terminal` has one."""

    def trial_started(self, title: str, *, replicates: int, log: Path) -> None:
        """A trial begins; its libraries' output goes to the log."""
        return

    def stage(self, replicate: int, stage: str, mode: str | None, detail: str = "") -> None:
        """A stage begins."""

    def round_done(self, replicate: int, progress: Progress) -> None:
        """A group of rounds is measured, in which each mode took each place once."""
        return

    def replicate_done(self, replicate: int, status: str, message: str = "") -> None:
        """A replicate ended."""

    def warn(self, message: str) -> None:
        """Something a person should know now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Place and surroundings of a replicate: a command for each worker, the device's leases.

    Attributes:
        leases: of the device; shared ones while it prepares beside others.
        quiet_s: how long to wait for a quiet machine before anything is timed.
    """

    commands: tuple[WorkerCommand, ...]
    watch: Callable[[], AbstractContextManager[Sampler]]
    stop: Stop
    leases: Leases
    screen: Screen
    tracker: Tracker
    quiet_s: float = 0.0


@dataclass
class ReplicateResult:
    """Yield of a replicate, and how it ended.

    Attributes:
        status: `ok` where it was measured to the end; otherwise why not.
        finished: whether it was measured to the end, with at least one mode.
        built: the model of each worker that built one.
    """

    status: Status = Status.OK
    failure: Failure | None = None
    finished: bool = False
    model: ModelFacts | None = None
    built: dict[int, ModelFacts] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    modes: dict[str, ModeOutcome] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    flags: list[Flagged] = field(default_factory=list)
    contaminated: bool = False
    sync: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    contamination: dict[str, Any] = field(default_factory=dict)
    gpu: tuple[GpuSpan, ...] = ()
    energy: Energy | None = None

    def fail(self, mode: str, status: Status, failure: Failure) -> None:
        """Note that a mode could not be measured; what is known of it is kept."""
        earlier = self.modes.get(mode, ModeOutcome(status=status))
        self.modes[mode] = replace(earlier, status=status, failure=failure)

    def flag(self, flagged: Flagged) -> None:
        """Note a caveat, once."""
        if flagged not in self.flags:
            self.flags.append(flagged)

    def contaminate(self, cause: str) -> None:
        """Mark all rounds as contaminated; what the device used is not known either."""
        self.contaminated = True
        if self.energy:
            self.energy = replace(self.energy, problem=self.energy.problem or cause)
        self.rounds = [replace(round_, dirty=round_.dirty or cause) for round_ in self.rounds]
