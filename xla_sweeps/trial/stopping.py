"""Decide when the rounds of a replicate end. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.estimates import Samples, logs
from xla_sweeps.analysis.stats import MIN_PAIRS
from xla_sweeps.schema.measurement import Round
from xla_sweeps.schema.trial import Effort

MAX_CONTAMINATED_SHARE = 0.2
REPEATED = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The rounds of a replicate after a Williams design.

    Attributes:
        rounds: all so far, contaminated ones included.
        labels: modes that are still measured; at least one.
        pairs: (baseline, candidate) of the headline, of modes that are still measured.
        timed_s: seconds of all rounds.
        round_s: seconds of one more round.
        is_capped: whether a mode of the headline has no time left for another design.
    """

    rounds: Sequence[Round]
    labels: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    timed_s: float
    round_s: float
    is_capped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The end as a criterion foresees it.

    Attributes:
        ended: whether no further design is to be measured.
        converged: whether its goal is reached.
        rounds: clean rounds so far, with every mode that is still measured.
        fewest_left: further rounds at least; `most_left`: at most.
        half_width: of the widest interval that it looks at; None while there is none.
        target: half-width that is wanted.
    """

    ended: bool = False
    converged: bool = False
    rounds: int = 0
    fewest_left: int = 0
    most_left: int = 0
    half_width: float | None = None
    target: float = 0.0


class StoppingCriterion(Protocol):
    """Ends the rounds of a replicate, whatever is measured in them.

    It is made of an effort, and of the seconds after which its goals may be given up.
    """

    outlook: Outlook

    def add(self, standing: Standing) -> None:
        """Take in the rounds so far, after another Williams design."""


class HeadlineInterval:
    """Measure until every headline log-ratio's 95 % interval is narrow enough.

    Significance never ends it, because that would bias the result. Intervals are looked at after
    `rounds_min` rounds and then after each `rounds_look`. `hopeless_ends` ends it at a look from
    which even the last round would not reach the target; a mode's time limit, once there are rounds
    for an interval. From the first look on, contaminated rounds end it too: to wait for a quiet
    machine is better than to measure more on a busy one.
    """

    def __init__(self, effort: Effort, least_s: float) -> None:
        self._effort, self._least_s, self._next_look = effort, least_s, effort.rounds_min
        self.outlook = Outlook(target=effort.target_half_width)

    def add(self, standing: Standing) -> None:
        """Take in the rounds so far."""
        effort, measured = self._effort, clean_rounds(standing.rounds, *standing.labels)
        width = headline_half_width(standing.rounds, standing.pairs)
        narrow = width is not None and width <= effort.target_half_width
        converged = narrow or not standing.pairs
        late = standing.timed_s >= self._least_s
        due = measured >= self._next_look
        while self._next_look <= measured:
            self._next_look += effort.rounds_look
        busy = is_contaminated(standing.rounds)
        shrinks = math.sqrt(measured / max(1, measured, effort.rounds_max))  # to the last round
        hopeless = width is not None and width * shrinks > effort.target_half_width
        futile = effort.hopeless_ends and late and hopeless
        ended = (
            (standing.is_capped and len(standing.rounds) >= MIN_PAIRS)
            or (busy and len(standing.rounds) >= effort.rounds_min)
            or (due and (converged or futile))
            or (late and measured >= effort.rounds_max)
        )
        last = effort.rounds_max if standing.pairs else effort.rounds_min
        fewest = min(self._next_look, last) - measured
        if busy:
            fewest = effort.rounds_min - len(standing.rounds)
        missing_s = max(0.0, self._least_s - standing.timed_s)
        self.outlook = Outlook(
            ended=ended,
            converged=converged,
            rounds=measured,
            fewest_left=max(0, fewest),
            most_left=max(last - measured, math.ceil(missing_s / standing.round_s)),
            half_width=width,
            target=effort.target_half_width,
        )


def is_contaminated(rounds: Sequence[Round]) -> bool:
    """True if more than a fifth of these rounds are contaminated."""
    return contaminated_share(rounds) > MAX_CONTAMINATED_SHARE


def contaminated_share(rounds: Sequence[Round]) -> float:
    """Share of these rounds that are contaminated."""
    return sum(bool(round_.dirty) for round_ in rounds) / max(1, len(rounds))


def clean_rounds(rounds: Sequence[Round], *labels: str) -> int:
    """Number of rounds that hold these modes and are not contaminated."""
    return sum(not round_.dirty and set(round_.order) >= set(labels) for round_ in rounds)


def headline_half_width(rounds: Sequence[Round], pairs: Sequence[tuple[str, str]]) -> float | None:
    """Half-width of the pairs' widest 95 % interval over clean rounds; None while there is none."""
    widths = []
    for baseline, candidate in pairs:
        ratios = log_ratios(rounds, baseline, candidate)
        if len(ratios) < stats.MIN_PAIRS:
            return None
        interval = stats.signed_rank_interval(ratios)
        widths.append((interval.high - interval.low) / 2)
    return max(widths, default=None)


def drifts(rounds: Sequence[Round], pairs: Sequence[tuple[str, str]]) -> bool:
    """True if the ratio of a pair changes over the rounds, by more than `stats.DRIFT`.

    A sudden change may be by chance in `REPEATED` of cases: it only costs measuring again.
    """
    ratios = [log_ratios(rounds, *pair) for pair in pairs]
    return any(
        stats.drifts(each)
        or stats.shifts(list(map(math.exp, each)), by=stats.DRIFT, chance=REPEATED)
        for each in ratios
    )


def log_ratios(rounds: Sequence[Round], baseline: str, candidate: str) -> list[float]:
    """log(baseline call time / candidate call time) of each round that holds both modes.

    As the record's reader takes them. Contaminated rounds are left out, unless too few others
    remain for an interval.
    """
    samples = Samples(rounds)
    clean = samples.call_s(baseline, candidate)
    enough = len(clean) >= stats.MIN_PAIRS
    counted = clean if enough else samples.call_s(baseline, candidate, contaminated=True)
    log_ratio: list[float] = logs([counted])[0].tolist()
    return log_ratio
