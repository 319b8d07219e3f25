"""What each way to call a model costs, and from which batch size on, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xla_sweeps.analysis.predict_cost import Cost, Crossing, crossing
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.report.advice import SWITCH
from xla_sweeps.schema.modes import Entry, entry_of, mode_of

MAX_MISFIT = 0.1
"""Points further from the fit than this are told."""


def cost_text(
    costs: Mapping[str, Cost], copies: Mapping[int, Mapping[str, float]], *, title: str, unit: str
) -> str:
    """The table, the batch sizes at which ways cross, and the answer in sentences.

    Args:
        costs: of each mode that could be fitted, by its label.
        copies: as `predict_cost.copies_of` has them.
        title: of the model.
        unit: what a sample is called: `image`.
    """
    lines = [
        title,
        "",
        f"{'mode':<24}{'ms a call':>26}{'ms a further batch':>26}{f'ms a {unit}':>26}",
    ]
    lines += [
        f"{label:<24}{_ms(cost.fixed):>26}{_ms(cost.further):>26}{_ms(cost.sample):>26}"
        for label, cost in costs.items()
    ]
    lines += ["", *answers(costs, unit=unit)]
    for size, seconds in copies.items():
        lines.append(
            f"Copies of batch {size}, each alone: {1e3 * seconds['input']:.3g} ms in, "
            f"{1e3 * seconds['output']:.3g} ms out."
        )
    bent = {label: cost for label, cost in costs.items() if cost.misfit > MAX_MISFIT}
    lines += [
        f"{label}: a point lies {cost.misfit:.0%} from the line; its cost of a {unit} depends on "
        "the batch size, and the intervals say so."
        for label, cost in bent.items()
    ]
    return "\n".join(lines) + "\n"


def answers(costs: Mapping[str, Cost], *, unit: str) -> list[str]:
    """A sentence on what `predict` costs, and one for each other way on when to take it."""
    found = []
    for name, cost in costs.items():
        if entry_of(mode_of(name)) is not Entry.PREDICT:
            continue
        each = (
            f"{_ms(cost.sample)} ms each {unit}"
            if cost.sample.low > 0
            else f"too little to tell each {unit}"
        )
        found.append(
            f"{name} costs {_ms(cost.fixed)} ms a call before the first {unit}, and {each}."
        )
        found += [
            _against(name, cost, label, other, unit)
            for label, other in costs.items()
            if entry_of(mode_of(label)) not in (Entry.PREDICT, Entry.PREDICT_ON_BATCH)
        ]
    return found


def _against(name: str, cost: Cost, label: str, other: Cost, unit: str) -> str:
    """When another way is faster than `predict`, for a call of one batch."""
    called = f"{label} ({SWITCH[mode_of(label)]})"
    meets = crossing(cost, other)
    sizes = [point.batch_size for point in cost.points]
    if meets is None or not 1 <= meets.batch_size <= max(sizes):
        middle = sizes[len(sizes) // 2]
        first, second = (
            item.fixed.estimate + middle * item.sample.estimate for item in (cost, other)
        )
        faster = "less" if second < first else "more"
        return f"{called} costs {faster} than {name} at every batch size up to {max(sizes)}."
    first, second = (cost.fixed.estimate, other.fixed.estimate)
    side = ("below", "above") if second < first else ("above", "below")
    return (
        f"{side[0].capitalize()} {_size(meets)} {unit}s a batch, {called} costs less than {name}; "
        f"{side[1]}, more."
    )


def _size(meets: Crossing) -> str:
    if meets.low is None or meets.high is None:
        return f"{meets.batch_size:.3g} (no interval)"
    return f"{meets.batch_size:.3g} ({max(0.0, meets.low):.3g}–{meets.high:.3g})"


def _ms(interval: Interval | None) -> str:
    if interval is None:
        return "—"
    value, low, high = (1e3 * item for item in (interval.estimate, interval.low, interval.high))
    return f"{value:.3g} ({low:.3g}–{high:.3g})"


def json_of(
    costs: Mapping[str, Cost], copies: Mapping[int, Mapping[str, float]], labels: Sequence[str]
) -> dict[str, object]:
    """The same as plain data; seconds throughout."""
    meets = {
        f"{one}/{other}": crossing(costs[one], costs[other])
        for index, one in enumerate(labels)
        for other in labels[index + 1 :]
        if one in costs and other in costs
    }
    return {
        "modes": costs,
        "crossings": {pair: found for pair, found in meets.items() if found is not None},
        "copies_s": {str(size): seconds for size, seconds in copies.items()},
    }
