"""Blocks and calls that are timed in this process: what a worker does, without a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xla_sweeps.schema.measurement import Block, Failure, Phase, Status
from xla_sweeps.trial import pacing
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.worker import timing


@dataclass
class Direct:
    """Times executables of this process; `block` is a `TimeBlock`.

    Attributes:
        dies: the label in whose block, and the number of that block, `lost` are lost.
    """

    executables: Mapping[str, timing.Executable]
    clock: pacing.Clock
    dies: tuple[str, int] = ("", 0)
    lost: tuple[str, ...] = ()

    def block(self, label: str, calls: int, settle: bool, first: int, singles: int = 0) -> Block:
        if label == self.dies[0]:
            if not self.dies[1]:
                failure = Failure(phase=Phase.MEASURE, kind="SIGKILL", message="died")
                raise WorkerLost(self.lost, status=Status.CRASHED, failure=failure)
            self.dies = label, self.dies[1] - 1
        return timing.settled_block(
            self.executables[label],
            label,
            calls,
            settle=settle,
            clock=self.clock,
            first=first,
            singles=singles,
        )
