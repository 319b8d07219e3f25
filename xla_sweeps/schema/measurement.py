"""The words of what was measured: statuses, blocks, rounds and the outcome of one execution mode.

Raw numbers with units in their names; statistics are derived from them in `analysis`, never stored
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """How a mode or a replicate ended: a closed set."""

    OK = "ok"
    CONTAMINATED = "contaminated"
    WRONG_RESULT = "wrong_result"
    NONDETERMINISTIC = "nondeterministic"
    MODE_NOT_EFFECTIVE = "mode_not_effective"
    RETRACED = "retraced"
    UNSUPPORTED_OP = "unsupported_op"
    DYNAMIC_SHAPE = "dynamic_shape"
    BUILD_ERROR = "build_error"
    TRACE_ERROR = "trace_error"
    COMPILE_ERROR = "compile_error"
    RUN_ERROR = "run_error"
    OOM_GPU = "oom_gpu"
    OOM_HOST = "oom_host"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    INFRA = "infra"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"


UNFINISHED = (Status.INTERRUPTED, Status.INFRA)
"""Statuses that say nothing of a mode: it was not measured to its end, and will be again."""


class Phase(StrEnum):
    """Where in a replicate something happened."""

    IMPORT = "import"
    BUILD = "build"
    TRACE = "trace"
    COMPILE = "compile"
    VERIFY = "verify"
    WARMUP = "warmup"
    MEASURE = "measure"
    RECORD = "record"


class Flag(StrEnum):
    """What a reader of a replicate's numbers should know, short of a failure."""

    NOT_CONVERGED = "not_converged"
    WARMUP_NOT_STATIONARY = "warmup_not_stationary"
    HOST_BOUND = "host_bound"
    CONTAINS_XLA = "contains_xla"
    """The model itself brings XLA into modes that are not XLA."""
    NO_REFERENCE = "no_float64_reference"
    RECOMPILES = "recompiles_per_input"
    """New input values make the mode compile again: its shapes depend on values."""
    EAGER_IS_GRAPH = "eager_is_graph"
    """The model is a restored graph: calling it eagerly runs that graph."""
    DRIFT = "drift"
    """The anchor trials before and after differ by more than 2 %: the machine changed its speed meanwhile."""
    TOOK_TURNS = "took_turns"
    """Devices side by side disturbed each other, so that only one measured at a time."""
    CUT_SHORT = "cut_short"
    """The measuring process ended early; the rounds it had finished are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a mode, or a whole replicate, gave no number.

    Attributes:
        phase: where it arose.
        kind: the exception's type, the signal's name, or a word of ours.
        message: one line for a person; the whole text is in the log.
        hint: what to do about it, or "".
        op: the TensorFlow operation at fault, or "".
    """

    phase: Phase
    kind: str
    message: str
    hint: str = ""
    op: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Back-to-back calls of one mode, timed as one.

    Attributes:
        calls: how many calls were enqueued before the one synchronization.
        elapsed_ns: from the first enqueue to the end of the synchronization.
        enqueue_ns: from the first enqueue to the return of the last.
    """

    mode: str
    calls: int
    elapsed_ns: int
    enqueue_ns: int

    def __post_init__(self) -> None:
        if self.calls < 1 or self.elapsed_ns <= 0 or not 0 <= self.enqueue_ns <= self.elapsed_ns:
            raise ValueError(
                f"a block needs calls >= 1 and 0 <= enqueue_ns <= elapsed_ns, elapsed_ns > 0: {self}"
            )

    @property
    def call_s(self) -> float:
        """Seconds of one call."""
        return self.elapsed_ns / self.calls / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One block of every mode that still takes part, in balanced order.

    Attributes:
        started_ns: CLOCK_MONOTONIC at the first block; comparable between processes of one machine.
        dirty: why the machine was not quiet meanwhile ("" where it was); such a round was repeated.
    """

    round: int
    order: tuple[str, ...]
    blocks: tuple[Block, ...]
    started_ns: int = 0
    finished_ns: int = 0
    dirty: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Whether a mode computes what eager execution computes.

    Attributes:
        rmse_rel: root-mean-square difference from eager, divided by the largest absolute eager
            output.
        top1_match: share of images whose largest logit is the same class, or None without classes.
        ok: the verdict of `agreement.compare`.
        reason: why not, or "".
        rmse_ref_rel: the same against the float64 reference; None where there is none.
        eager_rmse_ref_rel: eager's own error against the float64 reference.
    """

    rmse_rel: float | None
    top1_match: float | None
    ok: bool
    reason: str = ""
    rmse_ref_rel: float | None = None
    eager_rmse_ref_rel: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeOutcome:
    """All that one execution mode yielded in one replicate, except the blocks of the rounds.

    Attributes:
        effective: the proof that the mode was in force, as read back (`jit_compile`,
            `xla_clusters`, ...).
        trace_s: tracing Python to a graph, seconds.
        first_call_s: the first synced call after tracing, seconds; XLA compiles in it.
        compile_s: first_call_s less the steady median, seconds.
        peak_memory_bytes: on the device; on a CPU the process's peak resident memory after the mode
            was prepared.
        latencies_s: one synced call each, seconds.
        warmup_calls: calls before the mode counted as warm.
    """

    status: Status
    effective: Mapping[str, Any] = field(default_factory=dict)
    trace_s: float | None = None
    first_call_s: float | None = None
    compile_s: float | None = None
    peak_memory_bytes: int | None = None
    latencies_s: tuple[float, ...] = ()
    warmup_calls: int = 0
    agreement: Agreement | None = None
    failure: Failure | None = None
