"""Reduce what a profiler saw of one call to where its time went. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xla_sweeps.backends.tensorflow.explain.program import Work
from xla_sweeps.schema.explanation import Kind, LayerTime, ModeTime

WORST = 10
"""Layers that are listed."""

UNKNOWN = Work(Kind.OTHER, {"": 1.0})


@dataclass(frozen=True, slots=True)
class Span:
    """One run of an operation, seconds of the profiler's clock."""

    name: str
    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        """Duration of the run."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a mode, and the operations that ran in it.

    Attributes:
        work: what each operation does, by its name.
    """

    span: Span
    operations: Sequence[Span]
    work: Mapping[str, Work]


def shared(spans: Sequence[Span]) -> Counter[str]:
    """Seconds by name; where several run at once, each gets an equal part of that time."""
    edges = sorted(
        [(span.start_s, 1, span.name) for span in spans]
        + [(span.end_s, -1, span.name) for span in spans]
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


def mode_time(mode: str, call: Call, *, calls: int) -> ModeTime:
    """Break down the time of one call.

    Args:
        mode: what was called.
        call: the fastest of those that were traced.
        calls: how many were traced.
    """
    seconds = shared(call.operations)
    by_kind: defaultdict[Kind, float] = defaultdict(float)
    for name, spent_s in seconds.items():
        by_kind[call.work.get(name, UNKNOWN).kind] += spent_s
    first_s = min((span.start_s for span in call.operations), default=call.span.end_s)
    last_s = max((span.end_s for span in call.operations), default=call.span.end_s)
    return ModeTime(
        mode=mode,
        call_s=call.span.length_s,
        by_kind={kind: by_kind[kind] for kind in Kind if kind in by_kind},
        gaps_s=max(0.0, last_s - first_s - sum(seconds.values())),
        host_s=max(0.0, call.span.length_s - (last_s - first_s)),
        calls=calls,
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
