"""Cold start: what is left out in a process that is timed from its start to its first answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xla_sweeps.backends.keras.bench import KerasBench
from xla_sweeps.backends.keras.compared import E
from xla_sweeps.backends.keras.synchronization import TRIVIAL_SYNCHRONIZATION
from xla_sweeps.schema.measurement import Failure
from xla_sweeps.worker.backend import Tell


@dataclass
class StartBench(KerasBench[E]):
    """The model of a process that answers once, and of the worker that it is compared with."""

    starts_up = True
    """Costs that a process pays once are part of what is measured."""
    compared_inputs = 1

    def synchronization(self) -> Mapping[str, Any]:
        """None is needed: a call ends when its outputs are read."""
        return TRIVIAL_SYNCHRONIZATION

    def note_build(self, executable: E, tell: Tell) -> None:
        """Note what the first worker built."""
        if not self.adopts:
            super().note_build(executable, tell)

    def find_flaw(self, executable: E, tell: Tell) -> Failure | None:
        """None in a process that is timed: the first worker has looked."""
        return None if self.adopts else super().find_flaw(executable, tell)
