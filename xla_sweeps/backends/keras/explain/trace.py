"""Trace a few calls of each mode with an engine's profiler, outside of anything that is timed.

Events are those of any engine's profiler. What a kernel of a GPU does, and whether it uses tensor
cores, its name tells.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from xla_sweeps.schema.explanation import PRODUCTS, Kernel, Kind, LayerTime, ModeTime, Time
from xla_sweeps.schema.modes import Mode
from xla_sweeps.worker.timing import Executable

CALLS = 5

ENOUGH_S = 5.0
"""After so long no further call of a mode is traced."""

WORST = 10
"""Layers that are listed."""

_MARK = "xla_sweeps:"

KERNEL = "kernel"
"""Fact of an operation's event: the name of the kernel itself."""

_PLAIN = re.compile(r"simt|ffma|sgemm|dgemm|f32f32_f32f32_f32|engine_float|fft2d|mult_and_sum")
"""Names of libraries' kernels that compute in the plain cores."""

_TENSOR = re.compile(
    r"tensorop|tensor\d+x\d+|tf32|[hi]mma|gmma|nvjet|mma_|[sh](?:884|1688|16816)|bf16|f16f16|fp16"
)
"""Names of libraries' kernels that compute in tensor cores."""

_KINDS = (
    (re.compile("^triton_poi"), Kind.ELEMENTWISE),
    (re.compile("^triton_(?:red|per)"), Kind.REDUCTION),
    (re.compile("depthwise", re.I), Kind.DEPTHWISE),
    (re.compile("conv(?!ert)|fprop|[dw]grad|winograd|fft2d|mult_and_sum", re.I), Kind.CONVOLUTION),
    (re.compile("gemm|gemv|matmul|addmm|bmm|linear|dot|nvjet|cutlass", re.I), Kind.PRODUCT),
    (re.compile("reduc|softmax|pool|sort|topk|mean|sum(?!_op)|amax|amin", re.I), Kind.REDUCTION),
    (
        re.compile(
            "transpose|concat|copy|memset|memcpy|padding|gather|converttensor|shuffle|slice|fill|flip"
            "|nchwtonhwc|nhwctonchw",
            re.I,
        ),
        Kind.COPY,
    ),
)
"""Expressions that kernels are sorted by where nothing else tells what they do."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a profiler: an operation, a kernel, or a step of the runtime."""

    name: str
    start_s: float
    end_s: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    on_gpu: bool = False

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
class Work:
    """Work of one operation of a program.

    Attributes:
        layers: where it comes from, with the share of the bytes that it computes for each.
        line: of Python that made it, as `file:line`, or "".
    """

    kind: Kind
    layers: Mapping[str, float]
    line: str = ""


UNKNOWN = Work(Kind.OTHER, {"": 1.0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The fastest call of a mode, and the operations that ran in it."""

    mode: Mode
    traced: int
    whole: Event
    operations: Sequence[Event]
    work: Mapping[str, Work]


def call_each(
    executables: Mapping[Mode, Executable],
    annotation: Callable[[str], AbstractContextManager[object]],
    *,
    calls: int = CALLS,
) -> None:
    """Call each mode a few times under a profiler, a slow one less often."""
    for mode, executable in executables.items():
        executable.prepare()
        end = time.perf_counter() + ENOUGH_S
        for _ in range(calls):
            with annotation(f"{_MARK}{mode}"):
                executable.step()
                executable.synchronize()
            if time.perf_counter() > end:
                break


def time_of(
    events: Sequence[Event], work: Mapping[Mode, Mapping[str, Work]], *, plain: bool = False
) -> Time:
    """Break down the time of two modes; `ValueError` if the profiler did not see one of them."""
    calls = [fastest_call(events, mode, each) for mode, each in work.items()]
    layered = all(any(_by_layer(call)) for call in calls)
    return Time(
        modes=tuple(map(mode_time, calls)),
        lost=losses_of(*calls) if layered else (),
        plain=plain,
        layered=layered,
    )


def fastest_call(events: Sequence[Event], mode: Mode, work: Mapping[str, Work]) -> Call:
    """The fastest call of a mode, and what ran in it; `ValueError` if the profiler saw none."""
    calls = [event for event in events if event.name == f"{_MARK}{mode}" and not event.on_gpu]
    if not calls:
        raise ValueError(f"the profiler saw no call of {mode}")
    best = min(calls, key=lambda event: event.length_s)
    within = [
        event
        for event in events
        if best.start_s <= (event.start_s + event.end_s) / 2 <= best.end_s and event not in calls
    ]
    ran = list(_operations(within, work))
    others = {event.name: event.facts[KERNEL] for event in ran if event.on_gpu}
    by_kernel = {name: Work(kind_of(kernel), {"": 1.0}) for name, kernel in others.items()}
    return Call(
        mode=mode, traced=len(calls), whole=best, operations=ran, work={**by_kernel, **work}
    )


def _operations(events: Sequence[Event], work: Mapping[str, Work]) -> Iterator[Event]:
    """Kernels, copies and fills of a GPU, under the names of what they are part of.

    Without a GPU, the thunks of programs, those that go on in other threads up to their end there,
    and the nodes of a graph, whose events are called `node:type`.
    """
    on_gpu = any(event.on_gpu for event in events)
    ends = {event.facts["_c"]: event.end_s for event in events if event.name.startswith("end: ")}
    for event in events:
        if event.on_gpu != on_gpu:
            continue
        facts, name = {**event.facts, KERNEL: event.name}, event.operation
        if "hlo_op" in facts:
            name = full if (full := f"{event.program}/{name}") in work else name
            end_s = ends.get(facts.get("_p"), event.end_s)
            yield replace(event, name=name, end_s=end_s, facts=facts)
        elif on_gpu or (name in work and name != event.name):
            yield replace(event, name=name, facts=facts)


def share_time(events: Sequence[Event]) -> Counter[str]:
    """Seconds by name; where several run at once, each gets an equal part of that time."""
    edges = sorted(
        [(event.start_s, 1, event.name) for event in events]
        + [(event.end_s, -1, event.name) for event in events]
    )
    running: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    earlier = 0.0
    for at, change, name in edges:
        number = running.total()
        for each, count in running.items():
            seconds[each] += (at - earlier) * count / number  # type: ignore[assignment]
        running[name] += change
        if not running[name]:
            del running[name]
        earlier = at
    return seconds


def mode_time(call: Call) -> ModeTime:
    """Break down the time of one call."""
    by_kind = share_time(
        [replace(event, name=_kind_of(event, call.work)) for event in call.operations]
    )
    first_s = min((event.start_s for event in call.operations), default=call.whole.end_s)
    last_s = max((event.end_s for event in call.operations), default=call.whole.end_s)
    return ModeTime(
        mode=str(call.mode),
        call_s=call.whole.length_s,
        by_kind={kind: by_kind[kind] for kind in Kind if kind in by_kind},
        gaps_s=max(0.0, last_s - first_s - by_kind.total()),
        host_s=max(0.0, call.whole.length_s - (last_s - first_s)),
        calls=call.traced,
        kernels=kernels_of([event for event in call.operations if event.on_gpu], call.work),
    )


def _kind_of(event: Event, work: Mapping[str, Work]) -> Kind:
    kind = work.get(event.name, UNKNOWN).kind
    return kind_within(event.facts[KERNEL], kind) if event.on_gpu else kind


def losses_of(graph: Call, compiled: Call) -> tuple[LayerTime, ...]:
    """The layers that XLA loses most time in, the worst first."""
    one, two = _by_layer(graph), _by_layer(compiled)
    losses = [
        LayerTime(
            layer=layer,
            kind=kinds.most_common(1)[0][0],
            graph_s=one[layer].total(),
            xla_s=two[layer].total(),
        )
        for layer in dict.fromkeys([*one, *two])
        if layer and (kinds := one[layer] + two[layer])
    ]
    worst = sorted(losses, key=lambda loss: -loss.lost_s)[:WORST]
    return tuple(loss for loss in worst if loss.lost_s > 0)


def _by_layer(call: Call) -> defaultdict[str, Counter[Kind]]:
    seconds: defaultdict[str, Counter[Kind]] = defaultdict(Counter)
    for name, spent_s in share_time(call.operations).items():
        work = call.work.get(name, UNKNOWN)
        for layer, share in work.layers.items():
            seconds[layer][work.kind] += spent_s * share  # type: ignore[assignment]
    return seconds


def kind_of(name: str) -> Kind:
    """Main work of a kernel, by its name without its arguments."""
    name = name.partition(">(")[0]
    return next((kind for pattern, kind in _KINDS if pattern.search(name)), Kind.ELEMENTWISE)


def kind_within(kernel: str, kind: Kind) -> Kind:
    """Main work of a kernel that is part of an operation of a kind.

    Around a convolution or product a library runs others, which copy or add up.
    """
    own = kind_of(kernel)
    return own if kind in PRODUCTS and own in (Kind.COPY, Kind.REDUCTION) else kind


def on_tensor_cores(name: str, kind: Kind) -> bool | None:
    """True if a kernel computes in tensor cores; None if its name does not tell."""
    if kind not in PRODUCTS or _PLAIN.search(name):
        return False
    return True if _TENSOR.search(name) else None


def kernels_of(events: Sequence[Event], work: Mapping[str, Work]) -> tuple[Kernel, ...]:
    """The kernels of a call by their names, those that take most time first."""
    by_name: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_name[event.facts[KERNEL]].append(event)
    kernels = []
    for name, ran in by_name.items():
        parts = [work[event.name] for event in ran]
        kind = kind_within(name, parts[0].kind)
        layers = dict.fromkeys(layer for part in parts for layer in part.layers if layer)
        kernels.append(
            Kernel(
                name=name,
                kind=kind,
                times=len(ran),
                seconds=sum(event.length_s for event in ran),
                tensor_cores=on_tensor_cores(name, kind),
                layers=tuple(layers),
                lines=tuple(dict.fromkeys(part.line for part in parts if part.line)),
            )
        )
    return tuple(sorted(kernels, key=lambda kernel: -kernel.seconds))
