"""What one measuring process has reported: its events, as they add up to a replicate."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from xla_sweeps.measure import protocol
from xla_sweeps.measure.failures import diagnose_exception
from xla_sweeps.measure.gpu import SHARED, GpuWatch
from xla_sweeps.schema.measurement import Failure, Flag, Load, ModeOutcome, Phase, Round, Status
from xla_sweeps.schema.record import GpuSpan, ModelFacts, ProcessStart

CLOCK_TOLERANCE = 0.05

CLOCK_SLACK_S = 1.0
"""On a busy machine an event may be read this much later than it was sent."""

WRONG_CLOCK = "the measuring process's clock ran at another speed than the machine's"


class Watcher(Protocol):
    """Watches the machine around the measuring process; `monitor` has one."""

    @property
    def gpu(self) -> GpuWatch | None:
        """Watches the GPU that is measured on."""

    def review(self, rounds: Sequence[Round]) -> Mapping[int, str]:
        """Which of these rounds are contaminated, by number, and by what."""

    def loads(self, rounds: Sequence[Round]) -> Mapping[int, Load]:
        """What the machine did besides, around each of these reviewed rounds, by number."""

    def disturbance(self) -> str:
        """What contaminates the machine now, in words, or ""."""

    def summary(self) -> Mapping[str, Any]:
        """What was seen, for the record."""


class ClockCheck:
    """Compares the measuring process's clock with this process's, over all squares of rounds.

    The model's own code runs in the measuring process, and may have replaced its clock.

    Attributes:
        differs: whether the two disagree by more than a few percent.
    """

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self.differs = False

    def note(self, rounds: Sequence[Round], *, now_s: float | None = None) -> None:
        """A square was measured, and has just been received."""
        here_s = time.monotonic() if now_s is None else now_s
        there_s = max((item.finished_ns for item in rounds), default=0) / 1e9
        if self._first is None:
            self._first = here_s, there_s
            return
        here, there = here_s - self._first[0], there_s - self._first[1]
        self.differs = abs(here - there) > CLOCK_TOLERANCE * here + CLOCK_SLACK_S


@dataclass
class Attempt:
    """What one measuring process reported before it ended, and how it ended.

    Attributes:
        process: how it was started, as in `Record`.
        not_forked: why it was not forked where it could have been, or "".
        dead_mode: the label of the mode whose preparation killed the process, or "".
        status: `ok` where the process finished; otherwise why it did not.
    """

    process: ProcessStart = "unknown"
    not_forked: str = ""
    status: Status = Status.OK
    failure: Failure | None = None
    dead_mode: str = ""
    finished: bool = False
    model: ModelFacts | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    modes: dict[str, ModeOutcome] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    contaminated: bool = False
    sync: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    contamination: dict[str, Any] = field(default_factory=dict)
    gpu: tuple[GpuSpan, ...] = ()
    stage: protocol.Stage = field(default_factory=lambda: protocol.Stage(phase=Phase.IMPORT))
    clock: ClockCheck = field(default_factory=lambda: ClockCheck())

    def note(self, event: protocol.Event) -> None:
        """Take in one event; squares are kept by `review`."""
        match event:
            case protocol.Stage():
                self.stage = event
            case protocol.Loaded(environment=environment):
                self.environment = dict(environment)
            case protocol.Built(model=model):
                self.model = model
            case protocol.ModeReady(mode=mode, outcome=outcome):
                self.modes[mode] = outcome
            case protocol.Flagged(flag=flag):
                if flag not in self.flags:
                    self.flags.append(flag)
            case protocol.Failed():
                self._note_failure(event)
            case protocol.Finished():
                self.finished, self.contaminated = True, event.contaminated
                self.sync, self.seconds = dict(event.sync), dict(event.seconds)

    def _note_failure(self, event: protocol.Failed) -> None:
        status, failure = diagnose_exception(event.phase, event.kind, event.text)
        if event.mode:
            earlier = self.modes.get(event.mode, ModeOutcome(status=status))
            self.modes[event.mode] = replace(earlier, status=status, failure=failure)
        else:
            self.status, self.failure = status, failure

    def conclude(self, watcher: Watcher) -> None:
        """Take in what the watcher saw over the whole time."""
        watch = watcher.gpu
        if watch and self.finished:
            watch.end()
            if watch.newcomers:  # since when is unknown
                self._contaminate(SHARED)
        if self.finished and self.clock.differs:
            self.flags.append(str(Flag.CLOCK_DIFFERS))
            self._contaminate(WRONG_CLOCK)
        if watch:
            self.gpu = tuple(watch.spans)
            self.flags += watch.flags()
        self.contamination = dict(watcher.summary())

    def _contaminate(self, cause: str) -> None:
        """All rounds are contaminated."""
        self.contaminated = True
        self.rounds = [replace(item, dirty=item.dirty or cause) for item in self.rounds]

    def review(self, square: protocol.Square, watcher: Watcher) -> protocol.Review:
        """Keep a square's rounds, and say which are contaminated."""
        self.clock.note(square.rounds)
        dirty = dict(watcher.review(square.rounds))
        loads = watcher.loads(square.rounds)
        known = {item.round: item for item in self.rounds}
        for item in square.rounds:
            known[item.round] = replace(
                item, dirty=dirty.get(item.round, ""), load=loads.get(item.round)
            )
        self.rounds = [known[number] for number in sorted(known)]
        return protocol.Review(dirty=dirty)
