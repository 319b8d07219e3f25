"""Results of a measurement: statuses, blocks, rounds and the outcome of one execution mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
"""A whole number from 0 that fits 64 bits; checked when a record is read."""

Seconds = Annotated[float, msgspec.Meta(ge=0)]
"""A length of time, finite and not negative; checked when a record is read."""

Positive = Annotated[float, msgspec.Meta(gt=0)]
"""A finite number above 0; checked when a record is read."""


INPUTS = 3
"""Inputs that rotate: the blocks of round n begin with input n modulo `INPUTS`."""

OWN_INPUT = 1
"""Position of a batch of the user's own among them, after one that is drawn like any other."""


class Status(StrEnum):
    """End of a mode or a replicate: a closed set."""

    OK = "ok"
    """Measured to its end."""
    CONTAMINATED = "contaminated"
    """Other load on the machine contaminated more than a fifth of the rounds."""
    WRONG_RESULT = "wrong_result"
    """The outputs are not those of eager execution: times are kept, no speedup is given."""
    UNVERIFIABLE = "unverifiable"
    """Outputs cannot be compared: eager's are constant, overflow or amplify rounding."""
    NONDETERMINISTIC = "nondeterministic"
    """Outputs differ from call to call."""
    MODE_NOT_EFFECTIVE = "mode_not_effective"
    """The mode was not proven to be in force."""
    RETRACED = "retraced"
    """The mode was traced again while it was timed."""
    UNSUPPORTED_OP = "unsupported_op"
    """XLA has no kernel for an operation; `xla-sweeps explain` names its line."""
    DYNAMIC_SHAPE = "dynamic_shape"
    """A shape depends on values, which XLA does not compile."""
    BUILD_ERROR = "build_error"
    """The model could not be built; the log has the reason."""
    TRACE_ERROR = "trace_error"
    """The model could not be traced; the log has the reason."""
    COMPILE_ERROR = "compile_error"
    """The compiler failed; the log has the reason."""
    RUN_ERROR = "run_error"
    """A call failed; the log has the reason."""
    CACHE_DAMAGED = "cache_damaged"
    """An entry of the compiler's cache on disk is damaged, and the call that reads it fails."""
    OOM_GPU = "oom_gpu"
    """The GPU has too little memory."""
    OOM_HOST = "oom_host"
    """The machine has too little memory, or a limit was passed."""
    TIMEOUT = "timeout"
    """A stage took longer than its deadline."""
    CRASHED = "crashed"
    """The measuring process died."""
    KILLED = "killed"
    """A process of the trial was killed from outside; measured again."""
    INFRA = "infra"
    """A defect of the machine or of the installation; measured again."""
    INTERRUPTED = "interrupted"
    """Stopped by a signal; measured again."""
    SKIPPED = "skipped"
    """Not measured, because a mode that it needs failed."""


UNFINISHED = (Status.INTERRUPTED, Status.INFRA, Status.KILLED)
"""Statuses of a mode whose measurement was not completed; it is measured again."""

OUT_OF_MEMORY = (Status.OOM_GPU, Status.OOM_HOST)
"""Statuses of what needs more memory than there is."""


class Phase(StrEnum):
    """Stage of a replicate."""

    IMPORT = "import"
    BUILD = "build"
    TRACE = "trace"
    COMPILE = "compile"
    VERIFY = "verify"
    WARMUP = "warmup"
    MEASURE = "measure"
    RECORD = "record"


class Trend(StrEnum):
    """Change of a mode's speed over 20 blocks of its warm-up, else over its rounds.

    A change counts if the rounds show it relative to the other modes, where there are some.
    """

    STEADY = "steady"
    """The interval of the change over these lies within 1 % of none."""
    MOVING = "moving"
    """The interval lies outside of that, or the first rounds are slower than all later ones."""
    NOT_ASSESSED = "not_assessed"
    """Too few blocks, or too much noise, to tell."""


class Flag(StrEnum):
    """A caveat about a replicate's numbers that is not a failure.

    `report.sentences.FLAG_TEXTS` says what each means.
    """

    NOT_CONVERGED = "not_converged"
    WARMUP_NOT_STATIONARY = "warmup_not_stationary"
    QUEUE_FILL = "queue_fill"
    SUSTAINED_DIFFERS = "sustained_differs"
    CONTAINS_XLA = "contains_xla"
    NO_REFERENCE = "no_float64_reference"
    CALIBRATED = "calibrated"
    FIRST_CALL = "first_call_fails"
    RECOMPILES = "recompiles_per_input"
    """The mode's shapes depend on values, or each call makes functions that JAX compiles."""
    INPUTS_DIFFER = "inputs_differ"
    COLLECTIONS_PUT_OFF = "collections_put_off"
    SLOW_ON_NEW_INPUTS = "slow_on_new_inputs"
    OUTPUTS_ELSEWHERE = "outputs_elsewhere"
    """Some outputs are not on the device: integers in host memory, or an operation without a kernel
    for the device."""
    GRAPH_BREAKS = "graph_breaks"
    RANDOM_LAYERS = "random_layers"
    EAGER_IS_GRAPH = "eager_is_graph"
    DRIFT = "drift"
    """Anchor trials before and after differ by more than 2 %, their intervals included."""
    TOOK_TURNS = "took_turns"
    COMPILED_AHEAD = "compiled_ahead"
    CLOCK_DIFFERS = "clock_differs"
    POWER_LIMITED = "power_limited"
    NO_GPU_TELEMETRY = "no_gpu_telemetry"
    """The driver does not say whether heat or power slow the GPU, or what it says is impossible."""
    CUT_SHORT = "cut_short"
    BUILD_CHANGED = "build_changed"


NOT_REACHED = "not_reached"
"""Kind of the failure of a mode that was not tried, since the replicate ended before."""


@dataclass(frozen=True, slots=True)
class Flagged:
    """A caveat, a `Flag` or one of another version, about a replicate's numbers or a mode's."""

    flag: str
    mode: str = ""
    note: str = ""

    def __str__(self) -> str:
        """The flag as rows show it: `drift`, `recompiles_per_input:xla`."""
        details = [self.mode, f" {self.note}" if self.note else ""]
        return ":".join(filter(None, [self.flag, *details]))

    @classmethod
    def parse(cls, text: str) -> Flagged:
        """The flag that a row shows; the only place that reads one."""
        word, _, note = text.partition(": ")
        flag, _, mode = word.partition(":")
        return cls(flag, mode, note.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Reason why a mode, or a whole replicate, has no result.

    `kind` is the exception's type, the signal's name, or our own name; the message is one line.
    """

    phase: Phase
    kind: str
    message: str
    hint: str = ""
    op: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Back-to-back calls of one mode, timed together.

    Attributes:
        calls: enqueued before the one synchronization.
        elapsed_ns: from the first enqueue to the end of the synchronization; `enqueue_ns`: to the
            return of the last call.
        cpu_ns: CPU time of the process meanwhile; recorded for analyses, never to choose blocks.
        idle_cpu_ns: of the trial's other measuring processes; None where there are none.
        input: position of the only input of its calls; None where they took all inputs in turn.
        fill_ns: how much of elapsed_ns filling and draining the device's queue took, as the
            warm-up measured it; 0 where calls do not queue.
        single_ns: of each call after the block that had a synchronization of its own, in turn on
            all inputs from the block's first on; empty where the block is such a call itself.
        single_enqueue_ns: of each of these calls, until it had returned.
        collections: garbage collections that were due in all these calls, and were put off.
        parts_ns: of elapsed_ns, by name, where a call is the start of a process.
    """

    mode: str
    calls: Count
    elapsed_ns: Count
    enqueue_ns: Count
    cpu_ns: Count | None = None
    idle_cpu_ns: Count | None = None
    input: Count | None = None
    fill_ns: Count = 0
    single_ns: tuple[Count, ...] = ()
    single_enqueue_ns: tuple[Count, ...] = ()
    collections: Count = 0
    parts_ns: Mapping[str, Count] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.calls < 1 or self.elapsed_ns <= 0 or not 0 <= self.enqueue_ns <= self.elapsed_ns:
            raise ValueError(
                f"a block needs calls >= 1, elapsed_ns > 0, 0 <= enqueue_ns <= elapsed_ns: {self}"
            )
        if not self.fill_ns < self.elapsed_ns:
            raise ValueError(f"a block needs fill_ns < elapsed_ns: {self}")
        if len(self.single_ns) != len(self.single_enqueue_ns) or 0 in self.single_ns:
            raise ValueError(f"single calls need a time and one to enqueue, above 0: {self}")

    @property
    def call_s(self) -> float:
        """Seconds of one call in a stream of them, the filling of the queue left out."""
        return (self.elapsed_ns - self.fill_ns) / self.calls / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Other work of the machine around one round; the monitor's window is at least 0.5 s."""

    foreign_cores: float
    steal_share: float
    pressure_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One block of every mode that is still measured, in balanced order.

    Attributes:
        started_ns: CLOCK_MONOTONIC at the first block; comparable between processes of one machine.
        dirty: why the round is contaminated ("" if it is not); such a round was repeated.
    """

    round: Count
    order: tuple[str, ...]
    blocks: tuple[Block, ...]
    started_ns: Count = 0
    finished_ns: Count = 0
    dirty: str = ""
    load: Load | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """Energy of a device while one mode ran alone, or while it idled, without calls.

    `dirty` says what disturbed meanwhile; such a pass does not count.
    """

    joules: Positive
    elapsed_s: Positive
    calls: Count = 0
    dirty: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """Readings of the energy counter of a replicate's device (`GPU`, `CPU package`) besides modes'.

    `problem` says why there are no figures; `idle` is the device before the modes ran.
    """

    counter: str = ""
    problem: str = ""
    idle: tuple[Metered, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement of a mode with eager execution.

    Attributes:
        rmse_rel: root-mean-square difference from eager, divided by the largest absolute eager
            output; `rmse_ref_rel`: from the float64 reference, as `eager_rmse_ref_rel` of eager.
        top1_match: share of images whose largest logit is the same class, or None without classes.
        refused: whether nothing can be told, because eager's own outputs cannot be relied on.
        allowed: the largest difference from eager that passes, of the largest eager output; None
            where boxes were matched.
    """

    rmse_rel: float | None
    top1_match: float | None
    ok: bool
    reason: str = ""
    refused: bool = False
    rmse_ref_rel: float | None = None
    eager_rmse_ref_rel: float | None = None
    allowed: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeOutcome:
    """The result of one execution mode in one replicate, except the blocks of the rounds.

    Attributes:
        effective: the proof that the mode was in effect, as read back (`jit_compile`, ...).
        trace_s: tracing Python to a graph, seconds.
        first_call_s: the first synchronized call after tracing, seconds; XLA compiles in it.
        compile_s: first_call_s less the steady median, seconds.
        steady_memory_bytes: the most that the device's allocator had handed out during warm-up,
            without what only a first call needs (autotuning); None where it does not count.
        latencies_s: of synchronized calls, in the order of the rounds, seconds.
        latency_enqueue_ns: of each of these calls, until it had returned.
        sustained_call_s: seconds a call of each block of the mode alone, in order.
        energy: of each pass of the mode alone.
        copies_s: median seconds of copying a call's `input` to the device and its `output` back,
            each alone; empty where a call does not copy.
        last_batch_compile_s: how much longer the first step on the last, smaller batch of an epoch
            takes than a later one, seconds: a part of compile_s; None where all are of one size.
        cache_bytes: size of the compiler's cache on disk after a start, bytes; None without one.
        damaged_cache: what a start with every entry cut in half does: `answers`, or its failure.
        warmup_trend: whether the speed still changed; None where neither warm-up nor rounds tell.
    """

    status: Status
    effective: Mapping[str, Any] = field(default_factory=dict)
    trace_s: Seconds | None = None
    first_call_s: Seconds | None = None
    compile_s: Seconds | None = None
    steady_memory_bytes: Count | None = None
    latencies_s: tuple[Positive, ...] = ()
    latency_enqueue_ns: tuple[Count, ...] = ()
    sustained_call_s: tuple[Positive, ...] = ()
    energy: tuple[Metered, ...] = ()
    copies_s: Mapping[str, Seconds] = field(default_factory=dict)
    last_batch_compile_s: Seconds | None = None
    cache_bytes: Count | None = None
    damaged_cache: str = ""
    warmup_calls: Count = 0
    warmup_trend: Trend | None = None
    warmup_block_calls: tuple[Count, ...] = ()
    warmup_block_ns: tuple[Count, ...] = ()
    agreement: Agreement | None = None
    failure: Failure | None = None
