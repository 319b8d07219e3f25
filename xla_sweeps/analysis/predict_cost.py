"""Time of each way to call a model, by batch size: levels, overheads, totals, crossings. Pure.

All ways are measured in the same rounds, so two of them are compared round by round at each size.
Between two sizes figures are interpolated on log scales. No line is fitted over the sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xla_sweeps.analysis.estimates import Samples, counting, figure, is_loaded
from xla_sweeps.analysis.interval import figure_within, interval_of
from xla_sweeps.analysis.pool import Pool
from xla_sweeps.analysis.stats import Interval, signed_rank_interval
from xla_sweeps.analysis.summary import measured_of
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import Entry, Execution, mode_in, mode_of
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import TrialSummary

Shape = tuple[int, int]
"""Batch size, and number of batches of one call."""

_LINEAR = Interval(estimate=0.0, low=0.0, high=1.0)
"""Share of a linear interpolation between two sizes in the one on log scales.

A fixed cost and a constant cost of a sample give a line; a power of the size, a line of logs.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One trial: all ways to call the model, with calls of one shape.

    Attributes:
        references: the way that each is compared with, by the labels of the ways that did not fail;
            "" where there is none.
        samples: the blocks of each replicate.
        pool: what other trials say of the spread between processes.
    """

    batch_size: int
    batches: int
    references: Mapping[str, str]
    samples: Sequence[Samples]
    pool: Pool

    @property
    def shape(self) -> Shape:
        """Batch size and number of batches."""
        return self.batch_size, self.batches

    def level(self, label: str) -> Interval:
        """Log seconds of a call."""
        level = figure("call", self.samples, label)
        assert level is not None
        return interval_of(level, self.pool.prior(level))

    def pair(self, one: str, other: str) -> tuple[Interval, Interval]:
        """Mean of the log seconds of two ways, and log of the other's over the one's, by rounds.

        The two do not depend on each other where both ways vary alike.
        """
        call_s, contaminated = counting(self.samples, one, other)
        loaded, parts = is_loaded(self.samples, one, other), []
        for name, factors in (("call", (0.5, 0.5)), ("speedup", (-1.0, 1.0))):
            within = [signed_rank_interval(np.log(rounds) @ np.array(factors)) for rounds in call_s]
            part = figure_within(
                name, (other, one), within, contaminated=contaminated, loaded=loaded
            )
            parts.append(interval_of(part, self.pool.prior(part)))
        return parts[0], parts[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Time of a call of one way, in calls of one shape.

    Attributes:
        seconds: of one call.
        reference: label of the way that it is compared with, a `tf.function`; "" where there is
            none.
        overhead: seconds a call more than the reference takes.
    """

    label: str
    batch_size: int
    batches: int
    seconds: Interval
    reference: str
    overhead: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Cost of a number of samples in all, in batches of one size.

    Attributes:
        batch_size: of all batches but the last, which may be smaller.
        batches: how many it takes.
        last_batch: samples of the last one.
        seconds: of all.
        outside: whether it takes a smaller batch, or more batches in a call, than was measured.
    """

    batch_size: int
    batches: int
    last_batch: int
    seconds: Interval
    outside: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One way among all, for a number of samples.

    Attributes:
        best: at the batch size at which it takes least, by the upper end of the interval.
        behind: seconds that it takes more than the fastest; None of the fastest itself.
    """

    label: str
    best: Total
    behind: Interval | None

    @property
    def may_be_fastest(self) -> bool:
        """True if it is the fastest, or cannot be told apart from it."""
        return self.behind is None or self.behind.low <= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """The batch size at which two ways take equally long.

    A bound is None where it lies outside the measured sizes.
    """

    batch_size: float
    low: float | None
    high: float | None


def sizes_of(trials: Iterable[tuple[TrialSummary, Sequence[Record], Pool]]) -> list[Size]:
    """The trials with a way that did not fail, calls of one batch first, in ascending order.

    Args:
        trials: each with its records, and what other trials say.
    """
    sizes = []
    for summary, records, pool in trials:
        compiled = {
            mode.label: mode.columns.jit_compile == "true"
            for mode in summary.modes
            if mode.status is Status.OK and mode.columns.call_ms is not None
        }
        if compiled:
            size = Size(
                batch_size=summary.trial.batch_size,
                batches=summary.trial.batches,
                references={label: _reference(label, compiled) for label in compiled},
                samples=measured_of(records).samples,
                pool=pool,
            )
            sizes.append(size)
    return sorted(sizes, key=lambda size: (size.batches, size.batch_size))


def _reference(label: str, compiled: Mapping[str, bool]) -> str:
    """The `tf.function` from NumPy to NumPy with the same setting of XLA; "" if not measured.

    Of everything but Keras's own methods, the one without XLA.
    """
    mode = mode_of(label)
    execution = mode.execution if mode.entry.is_method else Execution.GRAPH
    if execution.is_chosen:
        execution = Execution.XLA if compiled[label] else Execution.GRAPH
    reference = mode_in(mode.backend, (Entry.HOST, execution, False))
    return str(reference) if reference in compiled and reference != label else ""


def costs_of(sizes: Iterable[Size]) -> list[Cost]:
    """Time and overhead of each way at each size at which it was measured, by size."""
    return [
        Cost(
            label=label,
            batch_size=size.batch_size,
            batches=size.batches,
            seconds=_propagated(lambda logs: math.exp(logs[0]), [size.level(label)]),
            reference=reference,
            overhead=_overhead(size, label, reference) if reference else None,
        )
        for size in sizes
        for label, reference in size.references.items()
    ]


def _overhead(size: Size, label: str, reference: str) -> Interval:
    """Seconds that a call takes more than one of the reference; a method's is never below 0.

    The difference of two times is 2 * geometric mean * sinh(log ratio / 2). So the speed of the
    whole process, which both share, widens the interval by its share of the difference alone.
    """
    middle, ratio = size.pair(reference, label)
    least = 0.0 if mode_of(label).entry.is_method else -math.inf

    def difference(logs: Sequence[float]) -> float:
        return 2 * math.exp(logs[0]) * math.sinh(logs[1] / 2)

    both = _propagated(difference, [middle, ratio], least=least)
    low, high = (  # the sign is that of the ratio, however little of the level is known
        max(both.low, difference([middle.low, ratio.low])) if ratio.low > 0 else both.low,
        min(both.high, difference([middle.low, ratio.high])) if ratio.high < 0 else both.high,
    )
    return Interval(estimate=both.estimate, low=low, high=max(high, least))


def _propagated(
    function: Callable[[Sequence[float]], float],
    parts: Sequence[Interval],
    *,
    least: float = -math.inf,
) -> Interval:
    """The interval of a function of independent estimates, from theirs; nothing is below `least`.

    Each estimate alone is moved to its bounds; the changes are added in quadrature (method of
    variance estimates recovery).

    References:
        Donner & Zou (2012), Closed-Form Confidence Intervals for Functions of the Normal Mean and
        Standard Deviation.
    """
    middle = [part.estimate for part in parts]
    value = function(middle)
    below = above = 0.0
    for place, part in enumerate(parts):
        changes = [
            function([*middle[:place], end, *middle[place + 1 :]]) - value
            for end in (part.low, part.high)
        ]
        below += min(0.0, *changes) ** 2
        above += max(0.0, *changes) ** 2
    bounds = (value, value - math.sqrt(below), value + math.sqrt(above))
    estimate, low, high = (max(least, bound) for bound in bounds)
    return Interval(estimate=estimate, low=low, high=high)


def crossing(sizes: Iterable[Size], one: str, other: str) -> Crossing | None:
    """The batch size at which a call of one batch takes equally long; None unless there is one.

    The log ratio of both is interpolated over the log of the size. The interval holds the sizes
    around the crossing at which the ratio's interval holds 0, and where lines of both would cross.
    """
    pairs = pairs_of(sizes, one, other)
    logs, ratios = [math.log(size) for size in pairs], [ratio for _, ratio in pairs.values()]
    zeros = _zeros(logs, [ratio.estimate for ratio in ratios])
    if len(zeros) != 1:
        return None
    zero = zeros[0]
    edges = _zeros(logs, [ratio.low for ratio in ratios])
    edges += _zeros(logs, [ratio.high for ratio in ratios])
    differences = [
        math.exp(middle.estimate) * math.sinh(ratio.estimate / 2)
        for middle, ratio in pairs.values()
    ]
    line = math.log(_zeros(list(pairs), differences)[0]) - zero
    below = max((edge for edge in edges if edge < zero), default=None)
    above = min((edge for edge in edges if edge > zero), default=None)
    return Crossing(
        batch_size=math.exp(zero),
        low=None if below is None else math.exp(zero - math.hypot(zero - below, min(0.0, line))),
        high=None if above is None else math.exp(zero + math.hypot(above - zero, max(0.0, line))),
    )


def pairs_of(sizes: Iterable[Size], one: str, other: str) -> dict[int, tuple[Interval, Interval]]:
    """`Size.pair` of two ways by batch size, for calls of one batch."""
    return {
        size.batch_size: size.pair(one, other)
        for size in sizes
        if size.batches == 1 and {one, other} <= size.references.keys()
    }


def _zeros(places: Sequence[float], values: Sequence[float]) -> list[float]:
    """Places at which a line through the points changes its sign."""
    points = list(zip(places, values, strict=True))
    return [
        first + (second - first) * before / (before - after)
        for (first, before), (second, after) in itertools.pairwise(points)
        if (before < 0) != (after < 0)
    ]


def totals_of(sizes: Iterable[Size], label: str, samples: int) -> list[Total]:
    """Cost of so many samples at each measured batch size, in ascending order.

    `predict` gets all batches in one call, as `_total_s` says; the other ways are called for each.
    Batches larger than all the samples are one batch of these.
    """
    levels = {size.shape: size.level(label) for size in sizes if label in size.references}
    singles = {min(batch_size, samples) for batch_size, batches in levels if batches == 1}
    return [_total(levels, label, size, samples) for size in sorted(singles)]


def _total(levels: Mapping[Shape, Interval], label: str, size: int, samples: int) -> Total:
    def seconds(logs: Sequence[float]) -> float:
        calls = {shape: math.exp(log) for shape, log in zip(levels, logs[:-1], strict=True)}
        return _total_s(calls, label, (size, samples), linear=logs[-1])

    batches, last = _split(samples, size)
    most = max(batches for _, batches in levels) if _saves(label) else 1
    return Total(
        batch_size=size,
        batches=batches,
        last_batch=last,
        seconds=_propagated(seconds, [*levels.values(), _LINEAR], least=0.0),
        outside=last < min(size for size, _ in levels) or 1 < most < batches,
    )


def ranking(sizes: Sequence[Size], labels: Iterable[str], samples: int) -> list[Ranked]:
    """The ways for so many samples, each at its best batch size, the fastest first."""
    best = [
        (label, min(totals, key=lambda total: total.seconds.high))
        for label in labels
        if (totals := totals_of(sizes, label, samples))
    ]
    best.sort(key=lambda choice: choice[1].seconds.estimate)
    return [
        Ranked(
            label=label,
            best=total,
            behind=_behind(sizes, best[0], (label, total), samples) if place else None,
        )
        for place, (label, total) in enumerate(best)
    ]


def _behind(
    sizes: Iterable[Size], first: tuple[str, Total], other: tuple[str, Total], samples: int
) -> Interval:
    """Seconds that the other way takes more, each at its best size, round by round."""
    ways = (first[0], other[0])
    parts: list[Interval] = []
    shapes: list[tuple[Shape, list[str]]] = []
    for size in sizes:
        measured = [label for label in ways if label in size.references]
        if measured:
            shapes.append((size.shape, measured))
            parts += size.pair(*ways) if len(measured) == 2 else [size.level(measured[0])]

    def difference(logs: Sequence[float]) -> float:
        seconds: dict[str, dict[Shape, float]] = {label: {} for label in ways}
        left = iter(logs)
        for shape, measured in shapes:
            middle = next(left)
            half = next(left) / 2 if len(measured) == 2 else 0.0
            for label, sign in zip(measured, (-1, 1), strict=False):
                seconds[label][shape] = math.exp(middle + sign * half)
        least, most = (
            _total_s(seconds[label], label, (total.batch_size, samples), linear=logs[-1])
            for label, total in (first, other)
        )
        return most - least

    return _propagated(difference, [*parts, _LINEAR])


def _total_s(
    seconds: Mapping[Shape, float], label: str, work: tuple[int, int], *, linear: float
) -> float:
    """Seconds of so many samples in batches of a size, from those of calls of the measured shapes.

    `predict` gets them in one call. A further batch saves what it saves in the measured call whose
    number of batches is nearest; without such a call each batch is a call.

    Args:
        seconds: of a call.
        label: of the way.
        work: batch size, and number of samples in all.
        linear: as in `_LINEAR`.
    """
    size, samples = work
    batches, last = _split(samples, size)
    rest = _call_s(seconds, last, linear)
    if batches == 1:
        return rest
    full = _call_s(seconds, size, linear)
    saved = _saved_s(seconds, batches) if _saves(label) else 0.0
    return full + (batches - 2) * max(0.0, full - saved) + max(0.0, rest - saved)


def _split(samples: int, size: int) -> tuple[int, int]:
    """Number of batches of a size, and the samples of the last one."""
    batches = math.ceil(samples / size)
    return batches, samples - (batches - 1) * size


def _saves(label: str) -> bool:
    """True if one call takes several batches; the other ways loop over them."""
    return mode_of(label).entry is Entry.PREDICT


def _call_s(seconds: Mapping[Shape, float], size: int, linear: float) -> float:
    """Seconds of a call of one batch, interpolated; beyond the measured sizes those of the ends."""
    sizes, values = np.array(sorted((n, seconds[n, k]) for n, k in seconds if k == 1)).T
    by_logs = math.exp(np.interp(math.log(size), np.log(sizes), np.log(values)))
    return by_logs + linear * (float(np.interp(size, sizes, values)) - by_logs)


def _saved_s(seconds: Mapping[Shape, float], batches: int) -> float:
    """Seconds that each further batch of a call saves against a call of its own."""
    several = [(n, k) for n, k in seconds if k > 1 and (n, 1) in seconds]
    if not several:
        return 0.0
    size, count = min(several, key=lambda shape: abs(math.log(shape[1] / batches)))
    return (count * seconds[size, 1] - seconds[size, count]) / (count - 1)


def copies_of(summaries: Iterable[TrialSummary]) -> Mapping[int, Mapping[str, float]]:
    """Median seconds of the copies of a call of one batch, alone, by batch size."""
    copies: dict[int, Mapping[str, float]] = {}
    for summary in summaries:
        for mode in summary.modes if summary.trial.batches == 1 else ():
            copied, returned = mode.columns.copy_input_ms, mode.columns.copy_output_ms
            if copied is not None and returned is not None:
                seconds = {"input": copied / 1e3, "output": returned / 1e3}
                copies.setdefault(summary.trial.batch_size, seconds)
    return dict(sorted(copies.items()))
