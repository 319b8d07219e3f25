"""Trace a few calls of each mode with an engine's profiler, outside of anything that is timed."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from xla_sweeps.backends.keras.explain.events import Event, OpWork
from xla_sweeps.backends.keras.explain.kernels import kernels_of, kind_of, kind_within
from xla_sweeps.schema.explanation import Kind, LayerTime, ModeTime, Time
from xla_sweeps.schema.modes import Mode
from xla_sweeps.worker.timing import Executable

CALLS = 5

ENOUGH_S = 5.0
"""After so long no further call of a mode is traced."""

WORST = 10
"""Layers that are listed."""

UNKNOWN = OpWork(Kind.OTHER, {"": 1.0})

_MARK = "xla_sweeps:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The fastest call of a mode, and the operations that ran in it."""

    mode: Mode
    traced: int
    whole: Event
    operations: Sequence[Event]
    work: Mapping[str, OpWork]


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
    events: Sequence[Event], work: Mapping[Mode, Mapping[str, OpWork]], *, plain: bool = False
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


def fastest_call(events: Sequence[Event], mode: Mode, work: Mapping[str, OpWork]) -> Call:
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
    others = {event.name: OpWork(kind_of(event.kernel), {"": 1.0}) for event in ran if event.on_gpu}
    return Call(mode=mode, traced=len(calls), whole=best, operations=ran, work={**others, **work})


def _operations(events: Sequence[Event], work: Mapping[str, OpWork]) -> Iterator[Event]:
    """Kernels, copies and fills of a GPU, under the names of what they are part of.

    Without a GPU, the thunks of programs, those that go on in other threads up to their end there,
    and the nodes of a graph, whose events are called `node:type`.
    """
    on_gpu = any(event.on_gpu for event in events)
    ends = {event.facts["_c"]: event.end_s for event in events if event.name.startswith("end: ")}
    for event in events:
        if event.on_gpu != on_gpu:
            continue
        name, end_s = event.operation, event.end_s
        if "hlo_op" in event.facts:
            name = full if (full := f"{event.program}/{name}") in work else name
            end_s = ends.get(event.facts.get("_p"), end_s)
        elif not on_gpu and (name not in work or name == event.name):
            continue
        yield replace(event, name=name, end_s=end_s, kernel=event.name)


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


def _kind_of(event: Event, work: Mapping[str, OpWork]) -> Kind:
    kind = work.get(event.name, UNKNOWN).kind
    return kind_within(event.kernel, kind) if event.on_gpu else kind


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
