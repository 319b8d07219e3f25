"""What XLA refuses of a model, where it silently does something else, and how fast it could be.

Frozen values: None means "not available", with the reason in `Explanation.missing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from xla_sweeps.schema.roofline import Roofline


class TrapName(StrEnum):
    """What a program under XLA may do differently without an error."""

    RECOMPILES_PER_VALUE = "recompiles_per_value"
    RECOMPILES_PER_SHAPE = "recompiles_per_shape"
    DROPPED_CHECKS = "dropped_checks"
    CLAMPED_INDICES = "clamped_indices"
    OTHER_SHAPE = "other_shape"
    OTHER_RANDOM_NUMBERS = "other_random_numbers"
    OTHER_VALUES = "other_values"
    JIT_COMPILE_IGNORED = "jit_compile_ignored"
    XLA_IN_EVERY_MODE = "xla_in_every_mode"
    LITTLE_CLUSTERED = "little_clustered"


class State(StrEnum):
    """What is known of a trap in one model."""

    FOUND = "found"
    POSSIBLE = "possible"
    """It depends on the inputs, and was not seen with those that were tried."""
    NONE = "none"
    UNKNOWN = "not available"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An operation of the traced graph.

    Attributes:
        op: its type.
        node: its name, after those of the calls that lead to it.
        layer: the Keras layer that it comes from, as `name (Class)`, or "".
        line: the line of Python that made it, as `file:line`, or "".
    """

    op: str
    node: str
    layer: str = ""
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An operation without a kernel of XLA.

    Attributes:
        op: its type.
        devices: XLA's devices without one, as `XLA_CPU_JIT`.
        reason: what is not registered.
        advice: what to use instead.
        places: where the model has it.
    """

    op: str
    devices: tuple[str, ...]
    reason: str
    advice: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerVerdict:
    """What the compiler says of the model.

    Attributes:
        compiles: whether it accepts the model.
        message: its error as one line, or "".
        advice: what to do about it, or "".
        places: the operations that its text names.
    """

    compiles: bool
    message: str = ""
    advice: str = ""
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """What auto-clustering finds.

    Attributes:
        operations: of the traced graph that compute something.
        outside: those that no cluster has.
        clusters: number of clusters.
        places: what stays outside.
    """

    operations: int
    outside: int
    clusters: int
    places: tuple[Place, ...] = ()

    @property
    def share(self) -> float:
        """Share of the operations that are in a cluster, from 0 to 1."""
        if not self.clusters or not self.operations:
            return 0.0
        return max(0.0, 1 - self.outside / self.operations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """One trap, and whether the model has it.

    Attributes:
        what: what happens, or why that is not known.
        fix: what to do about it, or "".
        places: where.
    """

    name: TrapName
    state: State
    what: str = ""
    fix: str = ""
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of one model so far.

    Attributes:
        device: XLA's device that is asked about.
        registered: the devices whose kernels this TensorFlow lists.
        operations: of the traced graph, its functions included.
        roofline: the least time of a call, and what each mode achieves of it.
        traps: one for each name once the process has finished.
        missing: why a part is not available, by its name here.
    """

    model: str
    device: str
    tensorflow: str = ""
    inputs: tuple[str, ...] = ()
    registered: tuple[str, ...] | None = None
    operations: int | None = None
    refusals: tuple[Refusal, ...] | None = None
    compiler: CompilerVerdict | None = None
    clustering: Clustering | None = None
    roofline: Roofline | None = None
    traps: tuple[Trap, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What XLA has for one operation of TensorFlow.

    Attributes:
        devices: XLA's devices that compile it.
        types: the types that the first of them takes, by attribute; empty where any will do.
        advice: what to use instead where none compiles it, or "".
    """

    op: str
    devices: tuple[str, ...]
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpList:
    """What one TensorFlow compiles.

    Attributes:
        devices: XLA's devices whose kernels it lists.
        ops: every operation with a kernel for a CPU, a GPU or XLA, by name.
    """

    tensorflow: str
    devices: tuple[str, ...]
    ops: tuple[Support, ...]
