"""The price of shapes as text: the answer with its lines to write, and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xla_sweeps.analysis.shapes import PADDED, Price, Way, pays_from
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.report.figures import NONE, number, round_count
from xla_sweeps.report.figures import interval as bounds
from xla_sweeps.report.terminal.explained_lines import align, wrap
from xla_sweeps.schema.modes import Execution, mode_of

CALLS = (1, 100, 10_000)
"""Calls of each shape after which the seconds of each way are shown."""


def shapes_text(price: Price, given: Sequence[str], *, title: str) -> str:
    """What to call by how often each shape is called, and what each shape costs in each mode."""
    lines = [title, ""]
    for text in answer(price, given):
        lines += wrap(text)
    shapes = [("mode", "shape", "first, s", "95 %", "later, ms", "95 %", "made")]
    for one in price.shapes:
        made = NONE if one.programs is None else str(one.programs)
        times = (*_seconds(one.first_s), *_seconds(one.later_s, 1e-3))
        shapes.append((one.mode, one.shape, *times, made))
    whole = [("way", "once, s", "95 %", *(f"{calls:,}×, s" for calls in CALLS))]
    for way in price.ways:
        once_s, each_s = way.once_s, way.each_s.estimate
        totals = [number(once_s.estimate + calls * each_s) for calls in CALLS]
        whole.append((way.name, *_seconds(once_s), *totals))
    lines += ["", *align(shapes, names=1), "", *align(whole, names=0)]
    for text in _notes(price):
        lines += ["", *wrap(text)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def answer(price: Price, given: Sequence[str]) -> Iterator[str]:
    """The way that takes the least by the number of calls, from when XLA pays, what to write."""
    for label, status, why in price.failed:
        yield f"✕ {label}: {status}{': ' * bool(why)}{why}"
    if not price.steps:  # all compile again for each value
        return
    first, *others = price.steps
    unit = "calls of each" if len(set(given)) == len(given) else "passes over them"
    taken = [first.name, *(f"{step.name} {_calls_text(step.calls, unit)}" for step in others)]
    yield f"Least time on these {len(given)} batches: {'; '.join(taken)}."
    baseline = next((way for way in price.ways if _runs_as(way, Execution.GRAPH)), None)
    compiled = [way for way in price.ways if _runs_as(way, Execution.XLA)]
    if baseline and compiled:
        paid = [f"{way.name} {_compare(baseline, way, unit)}" for way in compiled]
        yield f"Less than {baseline.name}: {'; '.join(paid)}."
    for step in price.steps:
        mode, _, padded = step.name.partition(PADDED)
        target = f"the next of {padded}" if "," in padded else padded
        pad = f"pad each batch to {target}, then " if padded else ""
        yield f"{step.name}: {pad}{mode_of(mode).switch}"


def _runs_as(way: Way, execution: Execution) -> bool:
    return mode_of(way.name.partition(PADDED)[0]).execution is execution


def _compare(baseline: Way, way: Way, unit: str) -> str:
    """From or up to how many calls on a way takes less than the baseline."""
    extra_s = way.once_s.estimate - baseline.once_s.estimate
    if extra_s > 0:
        return _calls_text(pays_from(baseline, way), unit)
    until = pays_from(way, baseline)
    if math.isinf(until.estimate):
        return "from the first call on"
    return f"up to {_count_with_bounds(until, unit)}"


def _calls_text(calls: Interval, unit: str) -> str:
    """From how many calls on, with the interval, or that it may never be."""
    if math.isinf(calls.low):
        return "never"
    if math.isinf(calls.estimate):
        return f"not as measured (from {_count(calls.low)} {unit} at the earliest)"
    perhaps = "perhaps " * math.isinf(calls.high)
    return f"{perhaps}from {_count_with_bounds(calls, unit)}"


def _count_with_bounds(calls: Interval, unit: str) -> str:
    """A number of calls with its interval."""
    high = "or never" if math.isinf(calls.high) else f"to {_count(calls.high)}"
    return f"{_count(calls.estimate)} {unit} ({_count(calls.low)} {high})"


def _count(calls: float) -> str:
    return round_count(max(1, math.ceil(calls))) if math.isfinite(calls) else "never"


def _notes(price: Price) -> Iterator[str]:
    """What the tables leave open."""
    yield (
        "First calls trace and compile; made is the number of programs that they make. Once: what "
        "first calls take more than later ones. N×: all of N calls of each."
    )
    if any(PADDED in way.name for way in price.ways):
        yield (
            "Padded: each call takes the time of the shape that it is padded to. Padding itself is "
            "not measured, and the outputs must not depend on it."
        )
    if price.recompiling:
        modes = ", ".join(price.recompiling)
        yield f"Compiles again for each new value, not only for each shape, so never pays: {modes}."


def _seconds(interval: Interval, unit_s: float = 1.0) -> tuple[str, str]:
    """A time in a unit of so many seconds, and its interval."""
    value, low, high = (each / unit_s for each in (interval.estimate, interval.low, interval.high))
    return number(value), bounds(low, high, number) if math.isfinite(high) else NONE
