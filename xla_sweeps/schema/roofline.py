"""Highest speed of a model on a device, and the part of it that each mode achieves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The fastest that the device did one thing, in the process that ran the model.

    Attributes:
        name: `matmul float32`, `copy` or `read`.
        unit: `FLOP/s`, or `B/s` of bytes read and written.
        per_s: with all cores, or the whole GPU.
        one_core_per_s: with all threads on one core; None on a GPU, and where they cannot be moved.
        size: of the arrays, in words.
    """

    name: str
    unit: str
    per_s: float
    one_core_per_s: float | None = None
    size: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Least work of one call, for the whole batch.

    Attributes:
        macs_by_type: multiply-accumulates by the type of their operands as XLA writes it.
        macs_at_least: whether a loop that runs unknown times is counted once.
        weight_bytes: of all weights, each read once.
        input_bytes: of the batch, read once.
        output_bytes: written once.
    """

    macs_by_type: Mapping[str, int]
    macs_at_least: bool = False
    weight_bytes: int
    input_bytes: int
    output_bytes: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all types."""
        return sum(self.macs_by_type.values())

    @property
    def total_bytes(self) -> int:
        """The least bytes that a call moves."""
        return self.weight_bytes + self.input_bytes + self.output_bytes


class Side(StrEnum):
    """Resource that sets the least time of a call."""

    COMPUTE = "compute"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Achieved:
    """One mode against the bound.

    Attributes:
        call_s: seconds of a call in the fastest block.
        bytes_per_s: the least bytes of a call over that time.
        flop_per_s: two for each multiply-accumulate, over that time.
        share: the bound over that time, above 1 where the peaks were not the device's best; None
            without a bound.
        gain: how many times faster the mode could get at most, at least 1; None without a bound.
    """

    mode: str
    call_s: float
    bytes_per_s: float
    flop_per_s: float
    share: float | None = None
    gain: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The least time of a call on this device, and what each mode achieves of it.

    Attributes:
        compute_s: least seconds of the multiply-accumulates; None if not available.
        memory_s: least seconds of moving the least bytes at the faster of copying and reading.
        bound_s: the larger of the two; None if one is not available.
        side: which one that is.
        missing: why `compute_s` is not available.
    """

    work: Work
    peaks: tuple[Peak, ...]
    compute_s: float | None
    memory_s: float
    bound_s: float | None
    side: Side | None
    modes: tuple[Achieved, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
