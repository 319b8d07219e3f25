"""The price of shapes: seconds of first and later calls, and the calls from which a way pays. Pure.

A way is a mode, or a mode whose batches are padded to the next of some of the shapes, its buckets.
Its seconds after n calls of each shape are `once + n * each`: `once` is what its first calls take
more than later ones.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xla_sweeps.analysis.interval import (
    Bounds,
    break_even,
    difference_of,
    figure_within,
    interval_alone,
)
from xla_sweeps.analysis.measured import measured_of
from xla_sweeps.analysis.stats import MIN_PAIRS, Interval, signed_rank_interval
from xla_sweeps.schema.measurement import Flag, Flagged, Status
from xla_sweeps.schema.modes import Execution, mode_of
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import TrialSummary
from xla_sweeps.schema.trial import LATER, parse_shape

PADDED = " padded to "
"""Words between mode and buckets in the name of a way whose batches are padded."""

MAX_BUCKETS = 3
"""Most shapes to which batches are padded."""

_LEAST_S = 1e-6
"""Seconds that no first call takes more than a later one: less than a clock shows."""

Rounds = Sequence[np.ndarray]
"""Seconds of the rounds of each process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A shape in a mode: seconds of the first and of a later call, and programs that are made."""

    mode: str
    shape: str
    first_s: Interval
    later_s: Interval
    programs: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to call a model on all shapes, with the rounds of its seconds.

    `each` is a call of each shape, as often as it was given.
    """

    name: str
    once: Rounds
    each: Rounds
    buckets: Sequence[str] = ()
    on_gpu: bool = False

    @property
    def once_s(self) -> Interval:
        """Seconds that its first calls take more than later ones; 0 is within it for eager ones.

        Processes are taken to differ by as much of it as by a time, whose log differs by so much.
        """
        unit = max(_LEAST_S, float(np.median(np.concatenate(self.once))))
        shares = _interval("prepare", [seconds / unit for seconds in self.once], self.on_gpu)
        return shares.map(lambda bound: max(0.0, unit * bound))

    @property
    def each_s(self) -> Interval:
        """Seconds of a later call of each shape."""
        return _level("call", self.each, self.on_gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The way that takes the least from so many calls of each shape on, with their interval."""

    name: str
    calls: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What shapes cost.

    Attributes:
        shapes: of each mode, in order.
        ways: the modes; padded to the largest shape; and to several buckets where that is a step.
        steps: the ways that take the least, by the number of calls of each shape.
        recompiling: modes that compile again for each value; no way.
        failed: of each other mode its label, status and the message of its failure.
    """

    shapes: Sequence[Shape]
    ways: Sequence[Way]
    steps: Sequence[Step]
    recompiling: Sequence[str]
    failed: Sequence[tuple[str, Status, str]] = ()


def price_of(summary: TrialSummary, records: Sequence[Record]) -> Price:
    """The price of a trial's shapes, from the modes that were measured."""
    given, on_gpu = records[-1].trial.shapes, any(record.on_gpu for record in records)
    labels = [mode.label for mode in summary.modes if mode.status is Status.OK]
    flags = {flag for record in records for flag in record.flags}
    # with a note, the mode compiles in each call, which is then part of the call's time
    recompiling = [label for label in labels if Flagged(Flag.RECOMPILES, label) in flags]
    parts = _seconds_of(measured_of(records).counted, labels)
    shapes, ways = list[Shape](), list[Way]()
    for label, seconds in parts.items():
        newest = (one.modes[label] for one in records[::-1] if label in one.modes)
        counted = (outcome.effective.get("programs") for outcome in newest)
        programs: Mapping[str, int] = next(filter(None, counted), {})
        for name in dict.fromkeys(given):
            shapes.append(
                Shape(
                    mode=label,
                    shape=name,
                    first_s=_level("prepare", seconds[name], on_gpu),
                    later_s=_level("call", seconds[name + LATER], on_gpu),
                    programs=programs.get(name),
                )
            )
        if label not in recompiling:
            ways += _ways_of(label, seconds, given, on_gpu=on_gpu)
    steps = steps_of(ways)
    least = {step.name for step in steps}
    return Price(
        shapes=shapes,
        ways=[way for way in ways if len(way.buckets) < 2 or way.name in least],
        steps=steps,
        recompiling=recompiling,
        failed=[
            (mode.label, mode.status, mode.failure.message if mode.failure else "")
            for mode in summary.modes
            if mode.label not in parts
        ],
    )


def _seconds_of(
    records: Sequence[Record], labels: Sequence[str]
) -> Mapping[str, Mapping[str, Rounds]]:
    """Seconds of each part of a stream in each process, by mode and part.

    In rounds that have all modes: undisturbed ones if they are enough for an interval, else all.
    Processes with fewer count only where no other has enough.
    """
    processes = []
    for record in records:
        rounds = [
            (one.dirty, {block.mode: block.parts_ns for block in one.blocks})
            for one in record.rounds
        ]
        whole = [(dirty, parts) for dirty, parts in rounds if parts.keys() >= {*labels}]
        clean = [parts for dirty, parts in whole if not dirty]
        processes.append(clean if len(clean) >= MIN_PAIRS else [parts for _, parts in whole])
    long = [one for one in processes if len(one) >= MIN_PAIRS]
    seconds: dict[str, dict[str, list[np.ndarray]]] = {}
    for one in long or filter(None, processes):
        for label in labels:
            for name in one[0][label]:
                each = np.array([parts[label][name] for parts in one]) / 1e9
                seconds.setdefault(label, {}).setdefault(name, []).append(each)
    return seconds


def _ways_of(
    label: str, parts: Mapping[str, Rounds], given: Sequence[str], *, on_gpu: bool
) -> Iterator[Way]:
    """A mode as a way; under XLA also with batches that are padded to the next bucket."""

    def way(called: Mapping[str, int], buckets: Sequence[str] = ()) -> Way:
        """The mode where each of these shapes is called so often."""
        pairs = [list(zip(parts[name], parts[name + LATER], strict=True)) for name in called]
        extra = [[first - later for first, later in rounds] for rounds in pairs]
        calls = [[times * one for one in parts[name + LATER]] for name, times in called.items()]
        once, each = (
            [np.sum(process, axis=0) for process in zip(*seconds, strict=True)]
            for seconds in (extra, calls)
        )
        name = f"{label}{PADDED}{', '.join(buckets)}" if buckets else label
        return Way(name=name, once=once, each=each, buckets=buckets, on_gpu=on_gpu)

    counts = Counter(given)
    yield way(counts)
    is_mixed = len({parse_shape(name)[0] is None for name in given}) > 1  # sizes and batch sizes
    if mode_of(label).execution is Execution.XLA and not is_mixed:  # else none is the largest
        *smaller, largest = sorted(counts, key=_extent)
        for count in range(min(MAX_BUCKETS, len(smaller))):
            for buckets in itertools.combinations(smaller, count):
                yield way(_count_padded(counts, (*buckets, largest)), (*buckets, largest))


def _count_padded(counts: Mapping[str, int], buckets: Sequence[str]) -> Mapping[str, int]:
    """Number of calls of each bucket, smallest first, where each shape is padded to the next."""
    called = Counter[str]()
    for name, times in counts.items():
        called[next(one for one in buckets if _extent(one) >= _extent(name))] += times
    return called


def _extent(shape: str) -> int:
    """Batch size of a shape, or else its size."""
    return max(filter(None, parse_shape(shape)))


def steps_of(ways: Sequence[Way]) -> list[Step]:
    """The ways that take the least, from the fewest calls to the most: a lower envelope."""
    if not ways:
        return []
    seconds = {way.name: (way.once_s.estimate, way.each_s.estimate) for way in ways}
    by_name = {way.name: way for way in ways}
    now, calls = min(seconds, key=lambda name: (sum(seconds[name]), seconds[name][1])), 1.0
    steps = [Step(name=now, calls=Interval(estimate=1, low=1, high=1))]
    while True:
        once, each = seconds[now]
        later = {
            name: (one - once) / (each - other)
            for name, (one, other) in seconds.items()
            if other < each
        }
        later = {name: at for name, at in later.items() if at >= calls}
        if not later:
            return steps
        before, now = now, min(later, key=lambda name: (later[name], seconds[name][1]))
        calls = later[now]
        steps.append(Step(name=now, calls=pays_from(by_name[before], by_name[now])))


def pays_from(first: Way, second: Way) -> Interval:
    """Calls of each shape from which the second way takes less; infinite where it never does."""
    extra = difference_of(Bounds.of(first.once_s), Bounds.of(second.once_s))
    logs = [np.log(one / other) for one, other in zip(first.each, second.each, strict=True)]
    each_s, ratio = first.each_s, _interval("speedup", logs, first.on_gpu).map(math.exp)
    if ratio.estimate <= 1:  # never, but for what the interval leaves open
        gain = each_s.high * (1 - 1 / ratio.high) if ratio.high > 1 else 0.0
        least = max(0.0, float(extra.low)) / gain if gain else math.inf
        return Interval(estimate=math.inf, low=least, high=math.inf)
    paid = break_even(extra, Bounds.of(each_s), Bounds.of(ratio))
    value, low, high = map(float, paid.values())
    return Interval(estimate=value, low=low, high=math.inf if math.isnan(high) else high)


def _level(name: str, rounds: Rounds, on_gpu: bool) -> Interval:
    return _interval(name, [np.log(seconds) for seconds in rounds], on_gpu).map(math.exp)


def _interval(name: str, logs: Rounds, on_gpu: bool) -> Interval:
    """The interval of logs, from each process's rounds and what processes differ by."""
    within = [signed_rank_interval(each) for each in logs]
    figure = figure_within(name, (), within, [each.size for each in logs], on_gpu=on_gpu)
    return interval_alone(figure)
