"""Time of each way to call a model, by batch size: levels and overheads. Pure.

All ways are measured in the same rounds, so two of them are compared round by round at each size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xla_sweeps.analysis.estimates import Samples, counting, figure, is_loaded
from xla_sweeps.analysis.interval import (
    Bounds,
    figure_within,
    interval_of,
    propagate,
)
from xla_sweeps.analysis.measured import measured_of
from xla_sweeps.analysis.pool import Pool
from xla_sweeps.analysis.stats import Interval, signed_rank_interval
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import Entry, Execution, mode_in, mode_of
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import TrialSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One trial: all ways to call the model, with calls of one shape.

    `references` has the ways that did not fail, and what each is compared with, or "".
    """

    batch_size: int
    batches: int
    references: Mapping[str, str]
    samples: Sequence[Samples]
    pool: Pool

    def level(self, label: str) -> Interval:
        """Log seconds of a call."""
        level = figure("call", self.samples, label)
        assert level is not None
        return interval_of(level, self.pool.prior(level))

    def has_both(self, one: str, other: str) -> bool:
        """True if some replicate measured both ways."""
        return bool(counting(self.samples, one, other)[0])

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
    """Time of a call of one way, and what it takes more than `reference`, or ""."""

    label: str
    batch_size: int
    batches: int
    seconds: Interval
    reference: str
    overhead: Interval | None


def sizes_of(trials: Iterable[tuple[TrialSummary, Sequence[Record], Pool]]) -> list[Size]:
    """The trials with a way that did not fail, calls of one batch first, in ascending order."""
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
            together = {
                label: reference if reference and size.has_both(reference, label) else ""
                for label, reference in size.references.items()
            }
            sizes.append(replace(size, references=together))
    return sorted(sizes, key=lambda size: (size.batches, size.batch_size))


def _reference(label: str, compiled: Mapping[str, bool]) -> str:
    """The `tf.function` from NumPy to NumPy with the same setting of XLA; "" if not measured."""
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
            seconds=size.level(label).map(math.exp),
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

    def difference(middle: Any, ratio: Any) -> Any:
        return 2 * np.exp(middle) * np.sinh(ratio / 2)

    both = propagate(difference, Bounds.of(middle), Bounds.of(ratio))
    value, low, high = map(float, both)
    if ratio.low > 0:  # the sign is that of the ratio, however little of the level is known
        low = max(low, float(difference(middle.low, ratio.low)))
    if ratio.high < 0:
        high = min(high, float(difference(middle.low, ratio.high)))
    return Interval(estimate=max(value, least), low=max(low, least), high=max(high, least))


def pairs_of(sizes: Iterable[Size], one: str, other: str) -> dict[int, Interval]:
    """Log ratio of the other way's time over the one's by batch size, for calls of one batch."""
    return {
        size.batch_size: size.pair(one, other)[1]
        for size in sizes
        if size.batches == 1
        and {one, other} <= size.references.keys()
        and size.has_both(one, other)
    }
