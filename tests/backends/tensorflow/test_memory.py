"""Memory of steady calls where TensorFlow's allocator does not count."""

from __future__ import annotations

import pytest

from xla_sweeps.backends.keras.explain.events import Event
from xla_sweeps.backends.tensorflow.memory import most_at_once

pytestmark = pytest.mark.tf


def test_memory_from_before_does_not_count_when_it_is_freed() -> None:
    assert most_at_once([]) == 0
    step = [("+", 1, 10), ("+", 2, 5), ("-", 1, 0)]  # a temporary, then new weights
    first = [*step, ("-", 7, 0)]  # weights from before
    second = [("+", 1, 10), ("+", 3, 5), ("-", 1, 0), ("-", 2, 0)]
    assert most_at_once(events([*first, *second])) == 15
    other = Event(name="MatMul", start_s=0.0, end_s=1.0, facts={})
    assert most_at_once([other, *reversed(events([*first, *second]))]) == 15


def events(noted: list[tuple[str, int, int]]) -> list[Event]:
    return [
        Event(
            name="MemoryAllocation" if sign == "+" else "MemoryDeallocation",
            start_s=float(number),
            end_s=float(number),
            facts={"addr": address, "requested_bytes": size},
        )
        for number, (sign, address, size) in enumerate(noted)
    ]
