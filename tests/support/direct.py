"""A contender in this process: what a worker does for its parent, without a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xla_sweeps.measure import timing
from xla_sweeps.measure.contender import ContendersLost
from xla_sweeps.schema.measurement import Block


@dataclass
class Direct:
    """Satisfies `Contender` with an executable of this process.

    Attributes:
        dies_at: the number of the block in which it and `with_it` are lost.
    """

    label: str
    executable: timing.Executable
    clock: timing.Clock
    dies_at: int = -1
    with_it: tuple[str, ...] = ()
    blocks: int = 0

    def block(self, calls: int, *, settle: bool) -> Block:
        self.blocks += 1
        if self.blocks - 1 == self.dies_at:
            raise ContendersLost((self.label, *self.with_it))
        return timing.settled_block(
            self.executable, self.label, calls, settle=settle, clock=self.clock
        )

    def singles(self, calls: int, *, limit_s: float) -> tuple[int, Sequence[Block]]:
        begun = self.clock()
        return begun, timing.measure_singles(
            self.executable, self.label, calls=calls, limit_s=limit_s, clock=self.clock
        )


def direct(executables: Mapping[str, timing.Executable], clock: timing.Clock) -> dict[str, Direct]:
    return {label: Direct(label, executable, clock) for label, executable in executables.items()}
