"""Events of a profiler, whichever engine has it, and the work of what they are part of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xla_sweeps.schema.explanation import Kind


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a profiler: an operation, a kernel, or a step of the runtime.

    Attributes:
        kernel: the profiler's own name, where `name` is of the operation that it is part of.
    """

    name: str
    start_s: float
    end_s: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    on_gpu: bool = False
    kernel: str = ""

    @property
    def length_s(self) -> float:
        """Seconds that it took."""
        return self.end_s - self.start_s

    @property
    def program(self) -> str:
        """Name of XLA's program that it is part of, as `name(number)`, or ""."""
        facts = self.facts
        return f"{facts['hlo_module']}({facts.get('program_id')})" if "hlo_module" in facts else ""

    @property
    def operation(self) -> str:
        """Name of the operation that it is part of: of a program of XLA, or a node of a graph."""
        name = self.facts.get("hlo_op") or self.facts.get("tf_op", "").rpartition(":")[0]
        return str(name or (self.name if self.on_gpu else self.name.partition(":")[0]))


@dataclass(frozen=True, slots=True)
class OpWork:
    """Work of one operation of a program.

    Attributes:
        layers: where it comes from, with the share of the bytes that it computes for each.
        line: of Python that made it, as `file:line`, or "".
    """

    kind: Kind
    layers: Mapping[str, float]
    line: str = ""
