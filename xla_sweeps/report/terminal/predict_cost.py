"""Times of each way to call a model, and the batch sizes at which they cross, as text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from xla_sweeps.analysis.predict_cost import (
    Cost,
    Crossing,
    Ranked,
    Size,
    costs_of,
    crossing,
    pairs_of,
    ranking,
    totals_of,
)
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.report.terminal.explained_lines import aligned, wrapped
from xla_sweeps.schema.modes import Entry, mode_of
from xla_sweeps.system.text import counted

TOO_LITTLE = "too little to tell"
"""Instead of a figure whose interval contains 0."""


def cost_text(
    sizes: Sequence[Size],
    labels: Sequence[str],
    copies: Mapping[int, Mapping[str, float]],
    *,
    title: str,
    unit: str,
    samples: int | None = None,
) -> str:
    """The table, the batch sizes at which ways cross, and the answer in sentences.

    Args:
        sizes: that were measured.
        labels: of the ways, each measured at one size or more.
        copies: as `predict_cost.copies_of` has them.
        title: of the model.
        unit: what a sample is called: `image`.
        samples: how many in all to say the cost of, if any.
    """
    costs = costs_of(sizes)
    table = [("batches", "mode", "ms a call", "more than a tf.function")]
    for cost in costs:
        shape = f"{cost.batches} × {cost.batch_size:,}"
        table.append((shape, cost.label, _ms(cost.seconds), _ms(cost.overhead)))
    lines = [title, "", *aligned(table, names=1)]
    said = [
        "More than a tf.function: predict and predict_on_batch against the one with the same "
        "jit_compile, all else against jit_compile=False, both from NumPy to NumPy.",
        *answers(sizes, costs, labels, unit=unit),
    ]
    for size, seconds in copies.items():
        said.append(
            f"Copies of batch {size}, each alone: {1e3 * seconds['input']:.3g} ms in, "
            f"{1e3 * seconds['output']:.3g} ms out."
        )
    lines += ["", *itertools.chain.from_iterable(map(wrapped, said))]
    if samples is not None:
        ranked = ranking(sizes, labels, samples)
        rows = [("mode", "batches", f"ms for {counted(samples, unit)}")]
        rows += [(way.label, _batches(way), _ms(way.best.seconds)) for way in ranked]
        lines += ["", *aligned(rows, names=0), ""]
        lines += itertools.chain.from_iterable(map(wrapped, _of_all(ranked, sizes, samples, unit)))
    return "\n".join(lines) + "\n"


def answers(
    sizes: Sequence[Size], costs: Sequence[Cost], labels: Sequence[str], *, unit: str
) -> Iterator[str]:
    """Sentences on what `predict` costs more, and one for each other way on when to take it."""
    for name in labels:
        if mode_of(name).entry is not Entry.PREDICT:
            continue
        singles = [
            cost
            for cost in costs
            if cost.label == name and cost.batches == 1 and cost.overhead and cost.overhead.low > 0
        ]
        if singles:
            ends = [f"{_ms(cost.overhead)} ms at batch {cost.batch_size:,}" for cost in singles]
            also = f", {ends[-1]}" if len(ends) > 1 else ""
            yield f"{name} takes longer than {_called(singles[0].reference)}: {ends[0]}{also}."
        for label in labels:
            if mode_of(label).entry not in (Entry.PREDICT, Entry.PREDICT_ON_BATCH):
                yield from _against(sizes, costs, (name, label), unit)


def _of_all(
    ranked: Sequence[Ranked], sizes: Sequence[Size], samples: int, unit: str
) -> Iterator[str]:
    """Sentences on the way that takes least for all samples, and on what that leaves out."""
    whole = counted(samples, unit)
    first, *others = ranked
    if near := [way.label for way in others if way.may_be_fastest]:
        names = ", ".join([first.label, *near])
        yield f"Too little to tell which way is the fastest for {whole}: {names}."
    else:
        yield f"{_called(first.label)} is the fastest for {whole}: {_ms(first.best.seconds)} ms."
    for way in others:
        if not way.may_be_fastest and mode_of(way.label).entry is Entry.PREDICT:
            yield f"{way.label} takes {_ms(way.behind)} ms longer."
    singles = [size.batch_size for size in sizes if size.batches == 1]
    most = max(size.batches for size in sizes)
    if outside := [way.label for way in ranked if way.best.outside]:
        yield (
            f"Extrapolated: {', '.join(outside)}; measured were {min(singles):,} to "
            f"{max(singles):,} {unit}s a batch, and up to {most:,} batches a call."
        )
    last = first.best
    again = (
        f"; the last batch, of {last.last_batch:,}, is a second shape, for which XLA compiles again"
        if last.batches > 1 and last.last_batch != last.batch_size
        else ""
    )
    yield f"Tracing and compiling are not counted{again}."


def _batches(way: Ranked) -> str:
    """`8 × 128`; `7 × 128 + 104` where the last one is smaller."""
    best = way.best
    if best.last_batch == best.batch_size:
        return f"{best.batches:,} × {best.batch_size:,}"
    return f"{best.batches - 1:,} × {best.batch_size:,} + {best.last_batch:,}"


def _against(
    sizes: Sequence[Size], costs: Sequence[Cost], ways: tuple[str, str], unit: str
) -> Iterator[str]:
    """Sentences on when another way is faster than `predict`, for a call of one batch.

    Where the table has the difference of both, its interval decides here too.
    """
    name, label = ways
    ratios = {size: ratio for size, (_, ratio) in pairs_of(sizes, name, label).items()}
    words = {
        size: "less" if ratio.high < 0 else "more" if ratio.low > 0 else ""
        for size, ratio in ratios.items()
    }
    for cost in costs:
        if (cost.label, cost.reference, cost.batches) == (name, label, 1) and cost.overhead:
            shown = _ms(cost.overhead) != TOO_LITTLE
            words[cost.batch_size] = words[cost.batch_size] if shown else ""
    called = _called(label)
    meets = crossing(sizes, name, label)
    if meets and {"less", "more"} <= {*words.values()}:
        below = next(iter(ratios.values())).estimate < 0
        side = ("Below", "above") if below else ("Above", "below")
        yield (
            f"{side[0]} {_size(meets, list(ratios))} {unit}s a batch, {called} costs less than "
            f"{name}; {side[1]}, more."
        )
        return
    for word in ("less", "more"):
        at = [f"{size:,}" for size, one in words.items() if one == word]
        where = "every measured batch size" if len(at) == len(words) else f"batch {', '.join(at)}"
        if at:
            yield f"{called} costs {word} than {name} at {where}."
    if open_ := [f"{size:,}" for size, one in words.items() if not one]:
        yield (
            f"{called} against {name}: too little to tell at batch {', '.join(open_)}; more "
            "replicates (effort.replicates=3) settle it."
        )


def _called(label: str) -> str:
    """A mode's label, and how people switch it on."""
    return f"{label} ({mode_of(label).switch})"


def _size(meets: Crossing, measured: Sequence[int]) -> str:
    low = f"<{min(measured)}" if meets.low is None else f"{meets.low:.3g}"
    high = f">{max(measured)}" if meets.high is None else f"{meets.high:.3g}"
    return f"{meets.batch_size:.3g} ({low}–{high})"


def _ms(interval: Interval | None) -> str:
    if interval is None:
        return "—"
    if interval.low <= 0 <= interval.high:
        return TOO_LITTLE
    value, low, high = (
        _figure(1e3 * seconds) for seconds in (interval.estimate, interval.low, interval.high)
    )
    return f"{value} ({low}–{high})"


def _figure(value: float) -> str:
    """Three digits, or all of a larger number's: `0.0412`, `12,300`."""
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def json_of(
    sizes: Sequence[Size],
    labels: Sequence[str],
    copies: Mapping[int, Mapping[str, float]],
    *,
    samples: int | None = None,
) -> dict[str, object]:
    """The times and differences as plain data, in seconds."""
    return {
        "modes": {
            label: [cost for cost in costs_of(sizes) if cost.label == label] for label in labels
        },
        "crossings": {
            f"{one}/{other}": met
            for one, other in itertools.combinations(labels, 2)
            if (met := crossing(sizes, one, other)) is not None
        },
        "copies_s": {str(size): seconds for size, seconds in copies.items()},
        **({} if samples is None else {"samples": _samples_json(sizes, labels, samples)}),
    }


def _samples_json(sizes: Sequence[Size], labels: Sequence[str], samples: int) -> dict[str, object]:
    ranked = ranking(sizes, labels, samples)
    return {
        "count": samples,
        "fastest": ranked[0].label,
        "may_be_fastest": [way.label for way in ranked if way.may_be_fastest],
        "modes": {
            way.label: {
                "best": way.best,
                "behind_s": way.behind,
                "batch_sizes": totals_of(sizes, way.label, samples),
            }
            for way in ranked
        },
    }
