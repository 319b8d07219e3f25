"""A count of multiply-accumulates."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

AT_LEAST_NOTE = "at least: how often a loop runs is not known, so its body is counted once"


@dataclass(slots=True, kw_only=True)
class MacCount:
    """Multiply-accumulates of one execution of a module, whole batch included.

    Attributes:
        by_type: by the type of the first operand, as XLA writes it; padding positions count, as in
            published figures.
        at_least: whether a loop whose number of steps is not known is counted once.
    """

    at_least: bool = False
    by_type: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """All multiply-accumulates."""
        return self.by_type.total()

    def add(self, other: MacCount, times: int | None = 1) -> None:
        """Add so many executions of a part; None where the number is not known: one, at least."""
        factor = 1 if times is None else times
        self.by_type += Counter({name: count * factor for name, count in other.by_type.items()})
        self.at_least |= other.at_least or (times is None and other.total > 0)

    def of_each(self, samples: int) -> MacCount:
        """Count of one sample of a batch."""
        by_type = Counter({name: count // samples for name, count in self.by_type.items()})
        return MacCount(at_least=self.at_least, by_type=by_type)
