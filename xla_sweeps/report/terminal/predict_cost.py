"""Times of each way to call a model, and when to take which, as text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from xla_sweeps.analysis.predict_cost import Cost, Size, costs_of, pairs_of
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.report.figures import NONE, three_digits, with_bounds
from xla_sweeps.report.sentences import SETTLE, TOO_LITTLE
from xla_sweeps.report.terminal.explained_lines import align, wrap
from xla_sweeps.schema.modes import Entry, mode_of


def cost_text(sizes: Sequence[Size], labels: Sequence[str], *, title: str) -> str:
    """The answer with the line to write, the table, and when to take which way."""
    costs = costs_of(sizes)
    table = [("batches", "mode", "ms a call", "more than a tf.function")]
    for cost in costs:
        shape = f"{cost.batches} × {cost.batch_size:,}"
        table.append((shape, cost.label, _ms(cost.seconds), _ms(cost.overhead)))
    said = [
        "More than a tf.function: predict and predict_on_batch against the one with the same "
        "jit_compile, all else against jit_compile=False, both from NumPy to NumPy.",
        *answers(sizes, costs, labels),
    ]
    words = itertools.chain.from_iterable(map(wrap, said))
    answered = itertools.chain.from_iterable(map(wrap, answer(sizes, costs, labels)))
    lines = [title, "", *answered, "", *align(table, names=1), "", *words]
    return "\n".join(lines) + "\n"


def answer(sizes: Sequence[Size], costs: Sequence[Cost], labels: Sequence[str]) -> Iterator[str]:
    """The way that clearly costs less than `predict` at most sizes, and what to write."""
    name = next((label for label in labels if mode_of(label).entry is Entry.PREDICT), "")
    ways = [label for label in labels if not mode_of(label).entry.is_method]
    if not name or not ways:
        return
    seconds = {(cost.label, cost.batch_size): cost.seconds for cost in costs if cost.batches == 1}
    ratios = {label: pairs_of(sizes, name, label) for label in ways}
    less = {way: [size for size in ratios[way] if ratios[way][size].high < 0] for way in ways}
    gain = {way: -sum(ratio.estimate for ratio in ratios[way].values()) for way in ways}
    best = max(ways, key=lambda way: (len(less[way]), gain[way]))
    called, switch = mode_of(name).called, mode_of(best).switch
    if less[best]:
        pairs = [
            f"{_ms(seconds[best, size])} ms a call instead of {_ms(seconds[name, size])} at batch "
            f"{size:,}"
            for size in dict.fromkeys((less[best][0], less[best][-1]))
        ]
        yield f"Call {switch} instead of {called}: {', '.join(pairs)}."
        call = switch.replace("tf.function(", "tf.function(model, ")
        yield f"write   {call}, instead of model.predict(x)"
    elif all(ratio.low > 0 for own in ratios.values() for ratio in own.values()):
        yield f"Keep {called}: every other way costs more at every measured batch size."
    else:
        yield f"{TOO_LITTLE.capitalize()} what to call instead of {called}: {SETTLE}."


def answers(sizes: Sequence[Size], costs: Sequence[Cost], labels: Sequence[str]) -> Iterator[str]:
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
            yield f"{name} takes longer than {_name_of(singles[0].reference)}: {ends[0]}{also}."
        for label in labels:
            if mode_of(label).entry not in (Entry.PREDICT, Entry.PREDICT_ON_BATCH):
                yield from _against(sizes, costs, (name, label))


def _against(sizes: Sequence[Size], costs: Sequence[Cost], ways: tuple[str, str]) -> Iterator[str]:
    """Sentences on when another way is faster than `predict`; the table's intervals decide."""
    name, label = ways
    words = {
        size: "less" if ratio.high < 0 else "more" if ratio.low > 0 else ""
        for size, ratio in pairs_of(sizes, name, label).items()
    }
    for cost in costs:
        if (cost.label, cost.reference, cost.batches) == (name, label, 1) and cost.overhead:
            shown = _ms(cost.overhead) != TOO_LITTLE
            words[cost.batch_size] = words[cost.batch_size] if shown else ""
    called = _name_of(label)
    for word in ("less", "more"):
        at = [f"{size:,}" for size, one in words.items() if one == word]
        where = "every measured batch size" if len(at) == len(words) else f"batch {', '.join(at)}"
        if at:
            yield f"{called} costs {word} than {name} at {where}."
    if open_ := [f"{size:,}" for size, one in words.items() if not one]:
        yield (f"{called} against {name}: {TOO_LITTLE} at batch {', '.join(open_)}; {SETTLE}.")


def _name_of(label: str) -> str:
    return f"{label} ({mode_of(label).switch})"


def _ms(interval: Interval | None) -> str:
    if interval is None:
        return NONE
    if interval.low <= 0 <= interval.high:
        return TOO_LITTLE
    value, low, high = interval.estimate, interval.low, interval.high
    return with_bounds(1e3 * value, 1e3 * low, 1e3 * high, three_digits)


def json_of(sizes: Sequence[Size], labels: Sequence[str]) -> dict[str, object]:
    """The times and differences as plain data, in seconds."""
    costs = costs_of(sizes)
    return {"modes": {label: [cost for cost in costs if cost.label == label] for label in labels}}
