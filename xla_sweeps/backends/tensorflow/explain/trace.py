"""Trace a few calls of each mode with TensorFlow's profiler, outside of anything that is timed."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.keras.explain.program import LayerOf, Work
from xla_sweeps.backends.keras.xplane import Event
from xla_sweeps.backends.tensorflow import modes, operations, profiler
from xla_sweeps.schema.explanation import Kind, LayerTime, ModeTime, Time
from xla_sweeps.schema.modes import Mode

CALLS = 5

ENOUGH_S = 5.0
"""After so long no further call of a mode is traced."""

MODES = (Mode.GRAPH, Mode.XLA)

WORST = 10
"""Layers that are listed."""

UNKNOWN = Work(Kind.OTHER, {"": 1.0})

_MARK = "xla_sweeps:"

_CONTAINERS = operations.CALLS | {
    *("While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase")
}
"""Operations that only run others."""

_KINDS = (
    (re.compile("Depthwise"), Kind.DEPTHWISE),
    (re.compile("BatchNorm"), Kind.ELEMENTWISE),
    (re.compile("Conv"), Kind.CONVOLUTION),
    (re.compile("MatMul|Einsum"), Kind.PRODUCT),
    (re.compile("Pool|Softmax|TopK|Norm|^Arg|^(?:Sum|Mean|Max|Min|Prod|All|Any)$"), Kind.REDUCTION),
    (
        re.compile(
            "Transpose|Concat|Pad|Slice|Split|Tile|Gather|Pack|Reshape|ExpandDims|Squeeze|Broadcast"
            "|Reverse|Copy|SpaceTo|ToSpace|BatchToSpaceND|Fill|Range"
        ),
        Kind.COPY,
    ),
)
"""Expressions that TensorFlow's operations are sorted by; the first that matches counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The fastest call of a mode, and the operations that ran in it.

    Attributes:
        traced: how many calls were traced.
        whole: from its begin to its end.
        work: what each operation does, by its name.
    """

    mode: Mode
    traced: int
    whole: Event
    operations: Sequence[Event]
    work: Mapping[str, Work]


def profiled(executables: Mapping[str, modes.ModeExecutable], *, calls: int) -> Any:
    """Call each mode a few times under the profiler, a slow one less often; returns its `XSpace`.

    Args:
        executables: that ran before, by mode.
        calls: at most so many of each.
    """
    with profiler.recorded() as space:
        for label, executable in executables.items():
            executable.prepare()
            end = time.perf_counter() + ENOUGH_S
            for _ in range(calls):
                with tf.profiler.experimental.Trace(f"{_MARK}{label}"):
                    executable.step()
                    executable.synchronize()
                if time.perf_counter() > end:
                    break
    return space


def graph_work(graphs: Sequence[Any], layer_of: LayerOf) -> dict[str, Work]:
    """Work of each operation of the graphs that ran, by its name.

    Args:
        graphs: as `modes.collected_graphs` has them.
        layer_of: finds the layer of an operation.
    """
    return {
        str(node.name): Work(kind_of(str(node.op)), {_layer(node, layer_of): 1.0})
        for graph in graphs
        for node in graph.node
        if node.op not in _CONTAINERS
    }


def _layer(node: Any, layer_of: LayerOf) -> str:
    """Layer of an operation; where TensorFlow merged several, that of the weights."""
    weights = str(node.input[1]) if "Fused" in node.op and len(node.input) > 1 else ""
    return layer_of(operations.source(weights) or str(node.name))


def kind_of(op: str) -> Kind:
    """Main work of an operation of TensorFlow, by its type."""
    if op in operations.BOOKKEEPING:
        return Kind.OTHER
    return next((kind for pattern, kind in _KINDS if pattern.search(op)), Kind.ELEMENTWISE)


def time_of(events: Sequence[Event], work: Mapping[Mode, Mapping[str, Work]]) -> Time:
    """Break down the time of graph mode and of XLA.

    Args:
        events: the profiler's, of both modes.
        work: what the operations of each do, by name.

    Raises:
        ValueError: the profiler did not see one of them.
    """
    calls = [_fastest(events, mode, work[mode]) for mode in MODES]
    return Time(modes=tuple(map(mode_time, calls)), lost=lost(*calls))


def _fastest(events: Sequence[Event], mode: Mode, work: Mapping[str, Work]) -> Call:
    calls = [event for event in events if event.name == f"{_MARK}{mode}"]
    if not calls:
        raise ValueError(f"the profiler saw no call of {mode}")
    best = min(calls, key=lambda event: event.length_s)
    within = [
        event for event in events if best.start_s <= event.start_s and event.end_s <= best.end_s
    ]
    ran = list(_thunks(within) if mode is Mode.XLA else _nodes(within, work))
    return Call(mode=mode, traced=len(calls), whole=best, operations=ran, work=work)


def _thunks(events: Sequence[Event]) -> Iterator[Event]:
    """The operations of a program; of those that go on in other threads, up to their end there."""
    ends = {event.facts["_c"]: event.end_s for event in events if event.name.startswith("end: ")}
    for event in events:
        if name := event.facts.get("hlo_op"):
            yield replace(event, name=name, end_s=ends.get(event.facts.get("_p"), event.end_s))


def _nodes(events: Sequence[Event], work: Mapping[str, Work]) -> Iterator[Event]:
    """The operations of a graph, whose events are called `node:type`."""
    for event in events:
        name = event.name.partition(":")[0]
        if name in work and name != event.name:
            yield replace(event, name=name)


def shared(events: Sequence[Event]) -> Counter[str]:
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
    seconds = shared(call.operations)
    by_kind: defaultdict[Kind, float] = defaultdict(float)
    for name, spent_s in seconds.items():
        by_kind[call.work.get(name, UNKNOWN).kind] += spent_s
    first_s = min((event.start_s for event in call.operations), default=call.whole.end_s)
    last_s = max((event.end_s for event in call.operations), default=call.whole.end_s)
    return ModeTime(
        mode=str(call.mode),
        call_s=call.whole.length_s,
        by_kind={kind: by_kind[kind] for kind in Kind if kind in by_kind},
        gaps_s=max(0.0, last_s - first_s - sum(seconds.values())),
        host_s=max(0.0, call.whole.length_s - (last_s - first_s)),
        calls=call.traced,
    )


def lost(graph: Call, compiled: Call) -> tuple[LayerTime, ...]:
    """The layers that XLA loses most time in, the worst first."""
    one, two = _by_layer(graph), _by_layer(compiled)
    losses = []
    for layer in dict.fromkeys([*one, *two]):
        kinds = one.get(layer, Counter()) + two.get(layer, Counter())
        if layer and kinds:
            losses.append(
                LayerTime(
                    layer=layer,
                    kind=kinds.most_common(1)[0][0],
                    graph_s=sum(one.get(layer, {}).values()),
                    xla_s=sum(two.get(layer, {}).values()),
                )
            )
    worst = sorted(losses, key=lambda loss: -loss.lost_s)[:WORST]
    return tuple(loss for loss in worst if loss.lost_s > 0)


def _by_layer(call: Call) -> dict[str, Counter[Kind]]:
    seconds: defaultdict[str, Counter[Kind]] = defaultdict(Counter)
    for name, spent_s in shared(call.operations).items():
        work = call.work.get(name, UNKNOWN)
        for layer, share in work.layers.items():
            seconds[layer][work.kind] += spent_s * share  # type: ignore[assignment]
    return seconds
