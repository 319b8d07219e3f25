"""Trace a few calls of each mode with TensorFlow's profiler, outside of anything that is timed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.tensorflow import modes, operations, profiler
from xla_sweeps.backends.tensorflow.explain.compiled import hlo_text
from xla_sweeps.backends.tensorflow.explain.program import LayerOf, Work
from xla_sweeps.backends.tensorflow.explain.timeline import Call, Span, lost, mode_time
from xla_sweeps.backends.tensorflow.profiler import Event
from xla_sweeps.schema.explanation import Kind, Time
from xla_sweeps.schema.modes import Mode

CALLS = 5

ENOUGH_S = 5.0
"""After so long no further call of a mode is traced."""

MODES = (Mode.GRAPH, Mode.XLA)

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


@dataclass(frozen=True, slots=True)
class Profile:
    """Events of the profiler, and the programs that were loaded: each an `HloProto`, by name."""

    events: Sequence[Event]
    programs: Mapping[str, bytes]

    def program(self, executable: modes.ModeExecutable) -> str:
        """The text of the program that XLA made of a mode; "" if the profiler has none."""
        function = executable.concrete.name.decode().strip("_")
        contents = (each for name, each in self.programs.items() if f"{function}_" in name)
        return hlo_text(content) if (content := next(contents, b"")) else ""


def profiled(executables: Mapping[str, modes.ModeExecutable], *, calls: int = CALLS) -> Profile:
    """Call each mode a few times under the profiler; a slow one less often.

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
    return Profile(list(profiler.events(space)), dict(profiler.programs(space)))


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


def time_of(profile: Profile, work: Mapping[Mode, Mapping[str, Work]]) -> Time:
    """Break down the time of graph mode and of XLA.

    Args:
        profile: of both modes.
        work: what the operations of each do, by name.

    Raises:
        ValueError: the profiler did not see one of them.
    """
    graph, compiled = (_fastest(profile, mode, work[mode]) for mode in MODES)
    return Time(
        modes=tuple(
            mode_time(str(mode), call, calls=number)
            for mode, (call, number) in zip(MODES, (graph, compiled), strict=True)
        ),
        lost=lost(graph[0], compiled[0]),
    )


def _fastest(profile: Profile, mode: Mode, work: Mapping[str, Work]) -> tuple[Call, int]:
    """The fastest of a mode's calls with the operations that ran in it, and how many there are."""
    calls = [event for event in profile.events if event.name == f"{_MARK}{mode}"]
    if not calls:
        raise ValueError(f"the profiler saw no call of {mode}")
    best = min(calls, key=lambda event: event.end_s - event.start_s)
    within = [
        event
        for event in profile.events
        if best.start_s <= event.start_s and event.end_s <= best.end_s
    ]
    ran = list(_thunks(within) if mode is Mode.XLA else _nodes(within, work))
    span = Span(str(mode), best.start_s, best.end_s)
    return Call(span=span, operations=ran, work=work), len(calls)


def _thunks(events: Sequence[Event]) -> Iterator[Span]:
    """The operations of a program; of those that go on in other threads, up to their end there."""
    ends = {event.facts["_c"]: event.end_s for event in events if event.name.startswith("end: ")}
    for event in events:
        if name := event.facts.get("hlo_op"):
            yield Span(name, event.start_s, ends.get(event.facts.get("_p"), event.end_s))


def _nodes(events: Sequence[Event], work: Mapping[str, Work]) -> Iterator[Span]:
    """The operations of a graph, whose events are called `node:type`."""
    for event in events:
        name = event.name.partition(":")[0]
        if name in work and name != event.name:
            yield Span(name, event.start_s, event.end_s)
