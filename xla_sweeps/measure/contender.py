"""One label of a trial as the rounds see it, wherever it runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from xla_sweeps.schema.measurement import Block


class Contender(Protocol):
    """One label of a trial, warm, with its inputs on the device."""

    def block(self, calls: int, *, settle: bool) -> Block:
        """Time a block of back-to-back calls, and one synchronization.

        Args:
            calls: of the block.
            settle: whether an untimed call comes first, which refills the caches.

        Raises:
            ContendersLost: it cannot be measured any more.
        """

    def singles(self, calls: int, *, limit_s: float) -> tuple[int, Sequence[Block]]:
        """Time single calls, each with a synchronization.

        Args:
            calls: at most so many.
            limit_s: ends it early.

        Returns:
            When it began (CLOCK_MONOTONIC, ns), and the blocks of one.

        Raises:
            ContendersLost: it cannot be measured any more.
        """


class ContendersLost(Exception):
    """These labels cannot be measured any more; the others can."""

    def __init__(self, labels: Collection[str]) -> None:
        super().__init__(", ".join(labels))
        self.labels = frozenset(labels)
