"""Costs of each way to call a model, and the batch sizes at which they cross, as text."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from xla_sweeps.analysis.predict_cost import Cost, Crossing, Ranked, crossing, ranking, totals_of
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.report.terminal.explanation import aligned, wrapped
from xla_sweeps.schema.modes import Entry, mode_of
from xla_sweeps.system.text import counted

MAX_MISFIT = 0.1
"""Distance from the fit from which a point is mentioned."""


def cost_text(
    costs: Mapping[str, Cost],
    copies: Mapping[int, Mapping[str, float]],
    *,
    title: str,
    unit: str,
    samples: int | None = None,
) -> str:
    """The table, the batch sizes at which ways cross, and the answer in sentences.

    Args:
        costs: of each mode that could be fitted, by its label.
        copies: as `predict_cost.copies_of` has them.
        title: of the model.
        unit: what a sample is called: `image`.
        samples: how many in all to say the cost of, if any.
    """
    head = ("mode", "ms a call", "ms a further batch", f"ms each {unit}")
    figures = [
        (label, _ms(cost.fixed), _ms(cost.further), _ms(cost.sample))
        for label, cost in costs.items()
    ]
    lines = [
        title,
        "",
        *aligned([head, *figures], names=0),
    ]
    said = answers(costs, unit=unit)
    for size, seconds in copies.items():
        said.append(
            f"Copies of batch {size}, each alone: {1e3 * seconds['input']:.3g} ms in, "
            f"{1e3 * seconds['output']:.3g} ms out."
        )
    said += [
        f"{label}: a point lies {cost.misfit:.0%} from the line; the cost of each {unit} depends "
        "on the batch size, which widens the intervals."
        for label, cost in costs.items()
        if cost.misfit > MAX_MISFIT
    ]
    lines += ["", *itertools.chain.from_iterable(map(wrapped, said))]
    if samples is not None:
        ranked = ranking(costs, samples)
        rows = [("mode", "batches", f"ms for {counted(samples, unit)}")]
        rows += [(way.label, _batches(way), _ms(way.best.seconds)) for way in ranked]
        lines += ["", *aligned(rows, names=0), ""]
        lines += itertools.chain.from_iterable(map(wrapped, _of_all(ranked, costs, samples, unit)))
    return "\n".join(lines) + "\n"


def answers(costs: Mapping[str, Cost], *, unit: str) -> list[str]:
    """A sentence on what `predict` costs, and one for each other way on when to take it."""
    sentences = []
    for name, cost in costs.items():
        if mode_of(name).entry is not Entry.PREDICT:
            continue
        each = (
            f"{_ms(cost.sample)} ms each {unit}"
            if cost.sample.low > 0
            else f"too little to measure for each {unit}"
        )
        sentences.append(
            f"{name} costs {_ms(cost.fixed)} ms a call before the first {unit}, and {each}."
        )
        sentences += [
            _against(name, cost, label, other, unit)
            for label, other in costs.items()
            if mode_of(label).entry not in (Entry.PREDICT, Entry.PREDICT_ON_BATCH)
        ]
    return sentences


def _of_all(
    ranked: Sequence[Ranked], costs: Mapping[str, Cost], samples: int, unit: str
) -> list[str]:
    """Sentences on the way that takes least for all samples, and on what that leaves out."""
    whole = counted(samples, unit)
    first, *others = ranked
    if first.best.seconds.low <= 0:
        sentences = [f"Inconclusive: which way is the fastest for {whole}."]
    else:
        sentences = [
            f"{_called(first.label)} is the fastest for {whole}: {_ms(first.best.seconds)} ms."
        ]
        if near := [way.label for way in others if way.may_be_fastest]:
            sentences.append(f"Possibly as fast: {', '.join(near)}.")
        sentences += [
            f"{way.label} takes {_ms(way.behind)} ms longer."
            for way in others
            if not way.may_be_fastest and mode_of(way.label).entry is Entry.PREDICT
        ]
    measured = max(point.batch_size * point.batches for c in costs.values() for point in c.points)
    if samples > measured:
        sentences.append(f"Extrapolated: the largest call measured had {counted(measured, unit)}.")
    last = first.best
    again = (
        f"; the last batch, of {last.last_batch:,}, is a second shape, for which XLA compiles again"
        if last.batches > 1 and last.last_batch != last.batch_size
        else ""
    )
    return [*sentences, f"Tracing and compiling are not counted{again}."]


def _batches(way: Ranked) -> str:
    """`8 × 128`; `7 × 128 + 104` where the last one is smaller."""
    best = way.best
    if best.last_batch == best.batch_size:
        return f"{best.batches:,} × {best.batch_size:,}"
    return f"{best.batches - 1:,} × {best.batch_size:,} + {best.last_batch:,}"


def _against(name: str, cost: Cost, label: str, other: Cost, unit: str) -> str:
    """Sentence on when another way is faster than `predict`, for a call of one batch."""
    called = _called(label)
    meets = crossing(cost, other)
    sizes = [point.batch_size for point in cost.points]
    if meets is None or not 1 <= meets.batch_size <= max(sizes):
        middle = sizes[len(sizes) // 2]
        first, second = (
            each.fixed.estimate + middle * each.sample.estimate for each in (cost, other)
        )
        faster = "less" if second < first else "more"
        return f"{called} costs {faster} than {name} at every batch size up to {max(sizes)}."
    first, second = (cost.fixed.estimate, other.fixed.estimate)
    side = ("below", "above") if second < first else ("above", "below")
    return (
        f"{side[0].capitalize()} {_size(meets)} {unit}s a batch, {called} costs less than {name}; "
        f"{side[1]}, more."
    )


def _called(label: str) -> str:
    """A mode's label, and how people switch it on."""
    return f"{label} ({mode_of(label).switch})"


def _size(meets: Crossing) -> str:
    if meets.low is None or meets.high is None:
        return f"{meets.batch_size:.3g} (no interval)"
    return f"{meets.batch_size:.3g} ({max(0.0, meets.low):.3g}–{meets.high:.3g})"


def _ms(interval: Interval | None) -> str:
    if interval is None:
        return "—"
    value, low, high = (
        _figure(1e3 * seconds) for seconds in (interval.estimate, interval.low, interval.high)
    )
    return f"{value} ({low}–{high})"


def _figure(value: float) -> str:
    """Three digits, or all of a larger number's: `0.0412`, `12,300`."""
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def json_of(
    costs: Mapping[str, Cost],
    copies: Mapping[int, Mapping[str, float]],
    *,
    samples: int | None = None,
) -> dict[str, object]:
    """The costs as plain data, in seconds."""
    return {
        "modes": costs,
        "crossings": {
            f"{one}/{other}": met
            for one, other in itertools.combinations(costs, 2)
            if (met := crossing(costs[one], costs[other])) is not None
        },
        "copies_s": {str(size): seconds for size, seconds in copies.items()},
        **({} if samples is None else {"samples": _samples_json(costs, samples)}),
    }


def _samples_json(costs: Mapping[str, Cost], samples: int) -> dict[str, object]:
    ranked = ranking(costs, samples)
    told = ranked[0].best.seconds.low > 0
    return {
        "count": samples,
        "fastest": ranked[0].label if told else None,
        "may_be_fastest": [way.label for way in ranked if way.may_be_fastest or not told],
        "modes": {
            way.label: {
                "best": way.best,
                "behind_s": way.behind,
                "batch_sizes": totals_of(costs[way.label], samples),
            }
            for way in ranked
        },
    }
