"""Explanation of a model: what a compiler refuses, changes and makes of it, and where time goes.

None means "not available", with the reason in `Explanation.missing`. A line of Python is
`file:line`, a layer `name (Class)`; each is "" where it is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum


class TrapName(StrEnum):
    """Ways in which a program under XLA may differ without an error."""

    RECOMPILES_PER_VALUE = "recompiles_per_value"
    RECOMPILES_PER_SHAPE = "recompiles_per_shape"
    DROPPED_CHECKS = "dropped_checks"
    CLAMPED_INDICES = "clamped_indices"
    OTHER_SHAPE = "other_shape"
    OTHER_RANDOM_NUMBERS = "other_random_numbers"
    OTHER_VALUES = "other_values"
    WEIGHTS_NOT_READ = "weights_not_read"
    JIT_COMPILE_IGNORED = "jit_compile_ignored"
    XLA_IN_EVERY_MODE = "xla_in_every_mode"


class State(StrEnum):
    """State of a trap in one model."""

    FOUND = "found"
    POSSIBLE = "possible"
    """It depends on the inputs, and was not seen with those that were tried."""
    NONE = "none"
    UNKNOWN = "not available"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An operation of the traced graph, by its type; `node` follows the calls that lead to it."""

    op: str
    node: str
    layer: str = ""
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An operation without a kernel on some of XLA's devices, such as `XLA_CPU_JIT`."""

    op: str
    devices: tuple[str, ...]
    reason: str
    advice: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerVerdict:
    """Verdict of the compiler on the model; its error as one line, and the operations it names."""

    compiles: bool
    message: str = ""
    advice: str = ""
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """One trap: what happens in the model, or why that is not known, and what to do."""

    name: TrapName
    state: State
    what: str = ""
    fix: str = ""
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """Programs that one call compiled, and the seconds of each stage."""

    call: str
    programs: int
    trace_s: float
    lower_s: float
    compile_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A reason for which captured graphs end, so that the framework runs Python."""

    reason: str
    times: int
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """Graphs that a compiler captures of the model.

    Attributes:
        way: what captures it, as people write it.
        graphs: of the first call, with so many `calls`; None where it was refused, in `place`.
        recompilations: further graphs of later calls, by the call in words.
        refused: why later calls have none: they fail.
        limit: recompilations of a function after which it, one of `gave_up`, is not compiled.
    """

    way: str
    graphs: int | None
    calls: int = 0
    breaks: tuple[Break, ...] = ()
    recompilations: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    gave_up: tuple[str, ...] = ()
    refusal: str = ""
    place: str = ""


class Kind(StrEnum):
    """Main work of an operation."""

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise convolution"
    PRODUCT = "matrix product"
    REDUCTION = "reduction"
    ELEMENTWISE = "elementwise"
    COPY = "copy"
    """It moves numbers, and computes none."""
    OTHER = "other"


PRODUCTS = (Kind.CONVOLUTION, Kind.PRODUCT)
"""What tensor cores compute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """Operations that XLA runs as one, and the bytes that it must read and write."""

    name: str
    kind: Kind
    operations: int
    read_bytes: int
    written_bytes: int
    layers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Program that XLA makes of the model, for one call; the bodies of loops are counted once.

    Attributes:
        operations: that run on the device; a fusion is one.
        fusions: operations that hold others, without those that a library computes.
        library: calls into a library that the program names, by target.
        convolutions: those in no library call, in fusions too; `dots` likewise.
        copies: operations of their own; `transposes` and `converts` likewise.
        largest: the fusions that read and write most.
    """

    operations: int
    fusions: int
    library: Mapping[str, int]
    convolutions: int
    dots: int
    copies: int
    transposes: int
    converts: int
    read_bytes: int
    written_bytes: int
    largest: tuple[Fusion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel that a GPU ran in one call, or a copy or a fill, by the profiler's name.

    Attributes:
        seconds: of all its runs in the call.
        tensor_cores: whether it computes in tensor cores; None if its name does not tell.
    """

    name: str
    kind: Kind
    times: int
    seconds: float
    tensor_cores: bool | None = False
    layers: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def launched(self) -> int:
        """How often a call ran it, 0 for a copy or a fill, which is no kernel."""
        return 0 if self.name.lower().startswith(("memcpy", "memset")) else self.times


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeTime:
    """Parts of the time of one call, which add up to the call; what runs at once shares it.

    Attributes:
        call_s: the fastest of the `calls` that were traced, seconds.
        gaps_s: between operations, with none running.
        host_s: before the first operation and after the last.
        kernels: that a GPU ran, those that take most time first.
    """

    mode: str
    call_s: float
    by_kind: Mapping[Kind, float]
    gaps_s: float
    host_s: float
    calls: int
    kernels: tuple[Kernel, ...] = ()

    def products_s(self, tensor_cores: bool | None) -> float:
        """Seconds of kernels of convolutions and products in tensor cores, or not, or unknown."""
        return sum(
            kernel.seconds
            for kernel in self.kernels
            if kernel.kind in PRODUCTS and kernel.tensor_cores is tensor_cores
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTime:
    """Seconds of one layer in graph mode and under XLA; of an operation without one `at NAME`."""

    layer: str
    kind: Kind
    graph_s: float
    xla_s: float

    @property
    def lost_s(self) -> float:
        """Seconds that XLA takes longer."""
        return self.xla_s - self.graph_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """Time of the operations, by a trace of a few calls; tracing makes them slower.

    Attributes:
        modes: the baseline, then the compiled one.
        lost: the layers that XLA loses most time in, the worst first.
        plain: whether products are in float32 without TF32, which excludes tensor cores.
        layered: whether the layers of both modes' operations are known; else `lost` is empty.
    """

    modes: tuple[ModeTime, ...]
    lost: tuple[LayerTime, ...]
    plain: bool = False
    layered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The fastest that the device did one thing, in the process that ran the model.

    Attributes:
        name: `matmul float32`, `copy` or `read`.
        unit: `FLOP/s`, or `B/s` of bytes read and written.
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
    """Least work of one call: weights and inputs are read once, and outputs written once.

    Attributes:
        macs_by_type: multiply-accumulates by the type of their operands as XLA writes it.
        macs_at_least: whether a loop that runs unknown times is counted once.
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
    """One mode against the bound, by the seconds of a call in the fastest block.

    Attributes:
        flop_per_s: two for each multiply-accumulate.
        share: the bound over that time; None without one.
        gain: how many times faster the mode could get at most, at least 1.
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
        compute_s: least seconds of the multiply-accumulates; None for the reason in `missing`.
        memory_s: least seconds of moving the least bytes at the faster of copying and reading.
        bound_s: the larger of the two, that of `side`; None if one is not available.
    """

    work: Work
    peaks: tuple[Peak, ...]
    compute_s: float | None
    memory_s: float
    bound_s: float | None
    side: Side | None
    modes: tuple[Achieved, ...]
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Facts that are known of one model so far.

    Attributes:
        registered: the devices of XLA whose kernels are listed.
        operations: of the traced graph, its functions included.
        graph_operations: that compute something, after TensorFlow's optimizer.
        hlo_operations: of the program that XLA compiles, before its optimizer.
        captures: what is captured as graphs; empty if the framework has no such compiler.
        traps: one for each name once the process has finished, unless none was looked for.
        missing: why a part is not available, by its name here.
        others: other processes' load while it was timed, in words.
    """

    model: str
    device: str
    framework: str = ""
    inputs: tuple[str, ...] = ()
    registered: tuple[str, ...] | None = None
    operations: int | None = None
    refusals: tuple[Refusal, ...] | None = None
    compiler: CompilerVerdict | None = None
    roofline: Roofline | None = None
    graph_operations: int | None = None
    hlo_operations: int | None = None
    program: Program | None = None
    time: Time | None = None
    compilations: tuple[Compilation, ...] | None = ()
    captures: tuple[Capture, ...] | None = ()
    traps: tuple[Trap, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    others: str = ""

    def complete(self, why: str) -> Explanation:
        """The explanation with a reason for whatever is not available."""
        unknown = [each.name for each in fields(self) if getattr(self, each.name) is None]
        have = {trap.name for trap in self.traps}
        wanted = () if "traps" in self.missing else TrapName
        rest = [
            Trap(name=name, state=State.UNKNOWN, what=why) for name in wanted if name not in have
        ]
        missing = {**dict.fromkeys(unknown, why), **self.missing}
        return replace(self, missing=missing, traps=(*self.traps, *rest))


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """XLA's devices that compile an operation, the first's types by attribute; else advice."""

    op: str
    devices: tuple[str, ...]
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpList:
    """Operations that one TensorFlow has a kernel for, and XLA's devices that it lists."""

    tensorflow: str
    devices: tuple[str, ...]
    ops: tuple[Support, ...]
