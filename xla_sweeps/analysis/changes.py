"""Compare two sets of results: a verdict per trial and quantity, and what one side lacks. Pure.

Unlike the modes of a trial, the two sides were measured in different processes, perhaps months
apart, so nothing is paired (`interval.contrast`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from xla_sweeps.analysis import matching, stats
from xla_sweeps.analysis.interval import contrast, is_noisy
from xla_sweeps.analysis.matching import ComparedTrial, Side
from xla_sweeps.analysis.noise import Day, days_of
from xla_sweeps.analysis.pool import NOTHING
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.comparisons import by_count
from xla_sweeps.schema.measurement import UNFINISHED, Status
from xla_sweeps.schema.row import ModeState, flag_words

THROUGHPUT, SPEEDUP = "throughput", "speedup"

BROKE, FIXED = "broke", "fixed"

_NO_DAY = "no anchor trial in common (same software): the machine's own speed is unknown"
_NO_GATE = "so no change of throughput meets a --fail-on; changes of speedups do"

_LIMITED = "{} throughputs owe most of their error to the anchors: repeat these, not the trials"

_GATES = {
    "slower": (Verdict.SLOWER, THROUGHPUT),
    "smaller-speedup": (Verdict.SLOWER, SPEEDUP),
    "ambiguous": (Verdict.AMBIGUOUS, THROUGHPUT),
}
"""Verdict and kind of the changes that meet a condition."""

FAIL_ON = (*_GATES, "broke", "missing")
"""Conditions that `failures` looks for, by name."""


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One quantity of one trial, B over A.

    Attributes:
        quantity: `graph throughput`, `xla / graph speedup`.
        value_a: samples per second, or the speedup; so is `value_b`.
        ratio: B / A, with its 95 % interval; above 1 B is faster, or has the larger speedup.
        p_value: of the ratio against the floor, the larger of both sides'.
        q_value: the smallest false discovery rate, over all changes of the kind and scenario, at
            which this counts as a difference.
        contaminated: whether a side has contaminated rounds only.
    """

    name: str
    family: str
    model: str
    scenario: str
    device: str
    quantity: str
    kind: str
    value_a: float
    value_b: float
    ratio: float
    low: float
    high: float
    p_value: float
    q_value: float
    verdict: Verdict
    contaminated: bool
    floor: float
    replicates_a: int
    replicates_b: int
    trial_a: str
    trial_b: str
    flags: str


@dataclass(frozen=True, slots=True)
class Break:
    """A mode that works on one side only: `broke` where that is A, `fixed` where it is B."""

    what: str
    name: str
    device: str
    mode: str
    status: Status
    message: str

    def __str__(self) -> str:
        reason = f": {self.message}" if self.message else ""
        return f"{self.name}, {self.mode} {self.what} ({self.status}{reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two sets of results against each other.

    Attributes:
        changes: of the commonest scenario first; in each slower first, then faster, ambiguous,
            equivalent; the largest first in each of these.
        only_a: trials and modes that B does not have; `only_b` likewise.
        environment: `(what, A's, B's)`, everything that is recorded.
        days: how fast the machine was, B over A, by `noise.days_of`; none where no anchor says so.
    """

    title_a: str
    title_b: str
    matched: int
    changes: tuple[Change, ...]
    breaks: tuple[Break, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    failed_both: int
    environment: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...] = ()
    days: Mapping[bool, Day] = field(default_factory=dict)
    accept_contaminated: bool = False


def difference_of(first: Side, second: Side, *, accept_contaminated: bool = False) -> Difference:
    """Compare B, the second set of results, with A, the first, trial by trial."""
    matched = matching.match(first, second)
    days = days_of(first.anchors, second.anchors, first.pools)
    changes: list[Change] = []
    breaks: list[Break] = []
    only: tuple[list[str], list[str]] = ([], [])
    failed_both = too_few = limited = 0
    for name, device, a, b in matched.pairs:
        modes_a, modes_b = ({mode.label: mode for mode in trial.modes} for trial in (a, b))
        for label in dict.fromkeys([*modes_a, *modes_b]):
            state = _state(modes_a.get(label), modes_b.get(label))
            if state in (BROKE, FIXED):
                failed = (modes_b if state == BROKE else modes_a)[label]
                message = failed.failure.message.partition("\n")[0][:200] if failed.failure else ""
                breaks.append(Break(state, name, device, label, failed.status, message))
            elif state in ("a", "b"):
                only[state == "b"].append(f"{name}, {label}")
            failed_both += state == "failed"
        both, thin, by_anchors = _changes(name, device, (first, a), (second, b), days)
        changes += both
        too_few += thin
        limited += by_anchors
    return Difference(
        title_a=first.title,
        title_b=second.title,
        matched=len(matched.pairs),
        changes=tuple(_control_discoveries(changes, accept_contaminated=accept_contaminated)),
        breaks=tuple(sorted(breaks, key=lambda broken: (broken.what, broken.name))),
        only_a=(*matched.only_a, *only[0]),
        only_b=(*matched.only_b, *only[1]),
        failed_both=failed_both,
        environment=matching.environment_of(matched.pairs),
        notes=(
            *matched.notes,
            *([f"{too_few} quantities have too few rounds to compare"] if too_few else []),
            *(day.note for day in days.values() if changes),
            *([_LIMITED.format(limited)] if limited else []),
            *(
                [_NO_DAY, _NO_GATE]
                if not days and any(one.kind == THROUGHPUT for one in changes)
                else []
            ),
        ),
        days=days,
        accept_contaminated=accept_contaminated,
    )


def verdicts_of(changes: Iterable[Change]) -> dict[str, int]:
    """Number of changes of each verdict."""
    counter = Counter(str(change.verdict) for change in changes)
    return {kind: counter[kind] for kind in ("faster", "slower", "equivalent", "ambiguous")}


def counts(difference: Difference) -> dict[str, int]:
    """Number of changes of each verdict, and of everything else, in all scenarios."""
    broke = sum(broken.what == BROKE for broken in difference.breaks)
    return {
        "matched": difference.matched,
        "compared": len(difference.changes),
        **verdicts_of(difference.changes),
        "broke": broke,
        "fixed": len(difference.breaks) - broke,
        "failed_both": difference.failed_both,
        "only_a": len(difference.only_a),
        "only_b": len(difference.only_b),
    }


def failures(difference: Difference, conditions: Iterable[str]) -> list[str]:
    """A line for each of the conditions (`FAIL_ON`) that is met.

    A change of throughput meets none where nothing says how fast the machine was on each side. Nor
    does a contaminated one, unless such sides are accepted.
    """
    names: dict[str, list[str]] = {
        "broke": [str(broken) for broken in difference.breaks if broken.what == BROKE],
        "missing": list(difference.only_a),
    }
    for condition, (verdict, kind) in _GATES.items():
        names[condition] = [
            f"{change.name}, {change.quantity} {change.ratio:.3f}×"
            for change in difference.changes
            if change.verdict is verdict and _gates(difference, change, kind)
        ]
    met = []
    for condition in dict.fromkeys(conditions):
        lines = names[condition]
        if lines:
            count = f"{len(lines)}, as " if len(lines) > 1 else ""
            met.append(f"{condition}: {count}{lines[0]}")
    return met


def lines_unjudged(difference: Difference, conditions: Iterable[str]) -> list[str]:
    """A line for each of the conditions that nothing could meet: a gate that cannot fail."""
    both = {"broke": difference.matched, "missing": difference.matched or difference.only_a}
    kinds = {condition: kind for condition, (_, kind) in _GATES.items()}
    return [
        f"{condition}: nothing could be judged"
        for condition in dict.fromkeys(conditions)
        if not both.get(condition)
        and not any(_gates(difference, one, kinds.get(condition)) for one in difference.changes)
    ]


def line_on_ignored(difference: Difference, conditions: Iterable[str]) -> str:
    """A line on the contaminated changes that the conditions ignore, or ""."""
    wanted = {_GATES[condition][1] for condition in conditions if condition in _GATES}
    left_out = [one for one in difference.changes if one.contaminated and one.kind in wanted]
    if difference.accept_contaminated or not left_out:
        return ""
    return (
        f"ignored {len(left_out)} contaminated comparisons, as {left_out[0].name}, "
        f"{left_out[0].quantity}; --accept-contaminated counts them"
    )


def as_section(difference: Difference) -> dict[str, Any]:
    """The comparison as plain data, for the page: a row a change, the rest as text."""
    broke, fixed = (
        [str(broken) for broken in difference.breaks if broken.what == what]
        for what in (BROKE, FIXED)
    )
    return {
        "title_a": difference.title_a,
        "title_b": difference.title_b,
        "rows": list(map(msgspec.structs.asdict, difference.changes)),
        "only_a": [*broke, *difference.only_a],
        "only_b": [*fixed, *difference.only_b],
        "environment": [{"what": what, "a": a, "b": b} for what, a, b in difference.environment],
        "notes": list(difference.notes),
        "counts": counts(difference),
    }


def _gates(difference: Difference, change: Change, kind: str | None) -> bool:
    """True if a change of this kind can meet a condition."""
    return (
        change.kind == kind
        and (kind == SPEEDUP or bool(difference.days))
        and (difference.accept_contaminated or not change.contaminated)
    )


def _state(a: ModeState | None, b: ModeState | None) -> str:
    """`both`, `a`, `b`, `broke`, `fixed`, `failed`, or "" where neither side is finished."""
    works = [mode is not None and mode.status is Status.OK for mode in (a, b)]
    finished = [mode is not None and mode.status not in UNFINISHED for mode in (a, b)]
    if all(works):
        return "both"
    if works[0]:
        return BROKE if finished[1] else "a"
    if works[1]:
        return FIXED if finished[0] else "b"
    return "failed" if any(finished) else ""


def _quantities(a: ComparedTrial, b: ComparedTrial) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name, kind and modes of each mode's throughput and of the headline speedups."""
    modes_b = {mode.label: mode for mode in b.modes}
    for mode in a.modes:
        if _state(mode, modes_b.get(mode.label)) == "both":
            yield f"{mode.label} throughput", THROUGHPUT, (mode.label,)
    for candidate, baseline in sorted(a.pairs & b.pairs):
        yield f"{candidate} / {baseline} speedup", SPEEDUP, (baseline, candidate)


def _changes(
    name: str,
    device: str,
    first: tuple[Side, ComparedTrial],
    second: tuple[Side, ComparedTrial],
    days: Mapping[bool, Day],
) -> tuple[list[Change], int, int]:
    """One trial's changes, and how many quantities have too few rounds, or owe most to anchors."""
    trials = (first[1], second[1])
    pools = [side.pools.get(trial.trial_id, NOTHING) for side, trial in (first, second)]
    figures = [
        {(figure.name, figure.labels): figure for figure in trial.figures} for trial in trials
    ]
    changes, by_anchors = [], 0
    quantities = list(_quantities(*trials))
    for quantity, kind, labels in quantities:
        key = ("speedup" if kind == SPEEDUP else "call", labels)
        if not all(key in mine for mine in figures):
            continue
        floor = max(trial.floor if kind == SPEEDUP else trial.floor_across for trial in trials)
        a, b = (mine[key] for mine in figures)
        weighed = [(figure, pool.prior(figure)) for figure, pool in zip((a, b), pools, strict=True)]
        if kind == THROUGHPUT:  # of which more is faster: the first side's time less the second's
            weighed.reverse()
        day = days.get(is_noisy(a)) or next(iter(days.values()), None)
        shift = day.shift if day and kind == THROUGHPUT else (0.0, 0.0, math.inf)
        result = contrast(*weighed, floor=floor, shift=shift)
        by_anchors += shift[1] ** 2 > result.error**2 / 2
        sign, scale = (1, 1.0) if kind == SPEEDUP else (-1, trials[0].samples)
        changes.append(
            Change(
                name=name,
                family=trials[0].family,
                model=trials[0].model,
                scenario=trials[0].scenario,
                device=device,
                quantity=quantity,
                kind=kind,
                value_a=scale * math.exp(sign * a.mean),
                value_b=scale * math.exp(sign * b.mean),
                ratio=math.exp(result.interval.estimate),
                low=math.exp(result.interval.low),
                high=math.exp(result.interval.high),
                p_value=result.p_value,
                q_value=1.0,
                verdict=result.verdict,
                contaminated=a.contaminated or b.contaminated,
                floor=floor,
                replicates_a=a.replicates,
                replicates_b=b.replicates,
                trial_a=trials[0].trial_id,
                trial_b=trials[1].trial_id,
                flags=flag_words(sorted({*trials[0].flags, *trials[1].flags})),
            )
        )
    return changes, len(quantities) - len(changes), by_anchors


def _control_discoveries(changes: Sequence[Change], *, accept_contaminated: bool) -> list[Change]:
    """The changes as shown, with q-values; what is not significant or contaminated is ambiguous."""
    controlled: list[Change] = []
    families: dict[tuple[str, str], list[Change]] = {}
    for one in changes:
        if one.contaminated and not accept_contaminated:
            controlled.append(msgspec.structs.replace(one, verdict=Verdict.AMBIGUOUS))
        else:
            families.setdefault((one.scenario, one.kind), []).append(one)
    for group in families.values():
        q_values = stats.q_values([one.p_value for one in group])
        for change, q_value in zip(group, q_values, strict=True):
            differs = change.verdict in (Verdict.FASTER, Verdict.SLOWER)
            falls = differs and q_value >= stats.FALSE_DISCOVERY_RATE
            verdict = Verdict.AMBIGUOUS if falls else change.verdict
            controlled.append(msgspec.structs.replace(change, q_value=q_value, verdict=verdict))
    order = [Verdict.SLOWER, Verdict.FASTER, Verdict.AMBIGUOUS, Verdict.EQUIVALENT]
    scenarios = by_count(one.scenario for one in changes)
    return sorted(
        controlled,
        key=lambda one: (
            scenarios.index(one.scenario),
            order.index(one.verdict),
            -abs(math.log(one.ratio)),
            one.name,
        ),
    )
