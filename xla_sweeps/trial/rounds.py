"""Measure rounds of one replicate until its stopping criterion ends them. Pure.

A round is one block of every mode, and some single calls of each after it; the order is balanced.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.estimates import Samples, logs
from xla_sweeps.schema.comparisons import headline_pairs
from xla_sweeps.schema.measurement import INPUTS, Block, Round
from xla_sweeps.schema.trial import Effort
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.trial.pacing import Clock

REPEAT_PASSES = 2
MAX_CONTAMINATED_SHARE = 0.2
REPEATED = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress after a Williams design.

    Attributes:
        measured: rounds so far, contaminated ones included.
        rounds: of which clean, with every mode that is still measured.
        half_width: of the widest headline log-ratio.
        remaining_s: the shortest and the longest time left.
    """

    measured: int
    rounds: int
    rounds_max: int
    half_width: float | None
    target: float
    remaining_s: tuple[float, float]


TimeBlock = Callable[[str, int, bool, int, int], Block]
"""Times so many back-to-back calls of a label with one synchronization, then single calls.

After an untimed call, which refills the caches, if it is to settle. The last two arguments are the
position of the first call's input, and the number of single calls. It raises `WorkerLost` where the
label cannot be measured any more.
"""

Review = Callable[[Sequence[Round]], Sequence[Round]]
"""Called between Williams designs, outside timed code: these rounds with what contaminated them."""


def williams_design(labels: Sequence[str], rng: random.Random) -> list[tuple[str, ...]]:
    """Orders of the modes in one Williams design.

    Each mode takes each position, and follows each other mode, equally often. Two modes: ABBA BAAB,
    that is the rounds AB, BA, BA, AB, from a random phase on. More modes: n rows for an even number
    of modes, 2n for an odd one; modes and rows are shuffled.

    References:
        Williams (1949), Experimental designs balanced for the estimation of residual effects of
        treatments.
    """
    count = len(labels)
    if count < 2:
        return [tuple(labels)]
    shuffled = rng.sample(list(labels), count)
    if count == 2:
        rows = [tuple(shuffled), tuple(shuffled[::-1]), tuple(shuffled[::-1]), tuple(shuffled)]
        phase = rng.randrange(4)
        return rows[phase:] + rows[:phase]
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) % count for place in range(count)]
    places = [[(shift + step) % count for step in zigzag] for shift in range(count)]
    if count % 2:
        places += [list(reversed(row)) for row in places]
    rng.shuffle(places)
    return [tuple(shuffled[index] for index in row) for row in places]


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

    def add(self, measured: Interleaving) -> None:
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

    def add(self, measured: Interleaving) -> None:
        """Take in the rounds so far."""
        effort, rounds, pairs = self._effort, measured.rounds, measured.headline
        clean = clean_rounds(rounds, *measured.active)
        width = headline_half_width(rounds, pairs)
        narrow = width is not None and width <= effort.target_half_width
        converged = narrow or not pairs
        late = measured.timed_s >= self._least_s
        due = clean >= self._next_look
        while self._next_look <= clean:
            self._next_look += effort.rounds_look
        busy = is_contaminated(rounds)
        capped = any(not measured.designs_left(label) for label in measured.decisive)
        shrinks = math.sqrt(clean / max(1, clean, effort.rounds_max))  # to the last round
        hopeless = width is not None and width * shrinks > effort.target_half_width
        futile = effort.hopeless_ends and late and hopeless
        ended = (
            (capped and len(rounds) >= stats.MIN_PAIRS)
            or (busy and len(rounds) >= effort.rounds_min)
            or (due and (converged or futile))
            or (late and clean >= effort.rounds_max)
        )
        last = effort.rounds_max if pairs else effort.rounds_min
        fewest = min(self._next_look, last) - clean
        if busy:
            fewest = effort.rounds_min - len(rounds)
        missing_s = max(0.0, self._least_s - measured.timed_s)
        round_s = sum(map(measured.round_s, measured.active))
        self.outlook = Outlook(
            ended=ended,
            converged=converged,
            rounds=clean,
            fewest_left=max(0, fewest),
            most_left=max(last - clean, math.ceil(missing_s / round_s)),
            half_width=width,
            target=effort.target_half_width,
        )


@dataclass
class Interleaving:
    """The rounds of all modes of a replicate, until its criterion ends them.

    Designs are never cut short. An untimed call follows each switch of modes, or in no mode at all
    (`effort.settle_s`). A mode outside the headline leaves after `effort.side_rounds`, or at its
    time limit; when a headline mode reaches its limit, measuring ends without convergence. A mode
    that is lost is measured no further; the others are.

    Attributes:
        call_s: expected seconds of one call, by label.
        singles: single calls after each block, by label.
        least_s: time from which an interval that stays too wide ends measuring, seconds.
        rounds: all so far, contaminated ones included.
        lost: modes that could not be measured to the end, and why.
    """

    time_block: TimeBlock
    calls: Mapping[str, int]
    call_s: Mapping[str, float]
    effort: Effort
    seed: int
    clock: Clock
    review: Review
    on_design: Callable[[Progress], None]
    singles: Mapping[str, int] = field(default_factory=dict)
    least_s: float = 0.0
    criterion: Callable[[Effort, float], StoppingCriterion] = HeadlineInterval
    rounds: list[Round] = field(default_factory=list)
    lost: tuple[WorkerLost, ...] = ()
    spent_s: dict[str, float] = field(default_factory=dict)
    repeated: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.active = list(self.calls)
        self.headline = list(headline_pairs(tuple(self.calls)))
        self.stopping = self.criterion(self.effort, self.least_s)

    def measure(self) -> Interleaving:
        """Measure one Williams design after the other to the end; returns itself."""
        while True:
            self.run_design()
            if not self.active:
                return self
            self.stopping.add(self)
            ended = self.stopping.outlook.ended
            if not ended:
                self.retire()
            self.on_design(self.progress(ended=ended))
            if ended:
                return self

    @property
    def decisive(self) -> set[str]:
        """The modes that end measuring, by rounds and limits: the headline's, or the only one."""
        return {label for pair in self.headline for label in pair} or set(self.active)

    @property
    def converged(self) -> bool:
        """True if the criterion reached its goal with modes that are left."""
        return bool(self.active) and self.stopping.outlook.converged

    def run_round(self, order: tuple[str, ...]) -> Round:
        """Measure one block of each mode, in this order, each after an untimed call.

        That call refills the caches; modes profit unequally, so all have it or none.

        Raises:
            WorkerLost: a mode cannot be measured any more; the round does not count.
        """
        settle = max(self.call_s[label] for label in self.decisive) <= self.effort.settle_s
        blocks, first = [], len(self.rounds) % INPUTS
        started = self.clock()
        for label in order:
            begun = self.clock()
            singles = self.singles_left(label)
            blocks.append(self.time_block(label, self.calls[label], settle, first, singles))
            self.spent_s[label] = self.spent_s.get(label, 0.0) + (self.clock() - begun) / 1e9
        result = Round(
            round=len(self.rounds),
            order=order,
            blocks=tuple(blocks),
            started_ns=started,
            finished_ns=self.clock(),
        )
        self.rounds.append(result)
        return result

    def singles_left(self, label: str) -> int:
        """Number of single calls of a mode in the next round; none once it has all."""
        each = self.singles.get(label, 0)
        return each if clean_rounds(self.rounds, label) * each < self.effort.latency_calls else 0

    def run_design(self) -> None:
        """Measure a Williams design; its contaminated rounds are repeated, unless all of them are.

        A design that loses a mode ends there; its complete rounds are kept.
        """
        design, before = williams_design(self.active, self.rng), len(self.lost)
        pending = self.run_rounds(design)
        for _ in range(REPEAT_PASSES):
            orders = [round_.order for round_ in self.mark(pending)]
            if (
                len(self.lost) != before
                or len(orders) in (0, len(design))
                or self.repeated > MAX_CONTAMINATED_SHARE * len(self.rounds)
            ):
                return
            self.repeated += len(orders)
            pending = self.run_rounds(orders)
        self.mark(pending)

    def run_rounds(self, orders: Sequence[tuple[str, ...]]) -> list[Round]:
        """Measure rounds in these orders; those before a mode was lost, if one is."""
        complete: list[Round] = []
        try:
            for order in orders:
                complete.append(self.run_round(order))
        except WorkerLost as lost:
            self.lost += (lost,)
            self.active = [label for label in self.active if label not in lost.labels]
            self.headline = list(headline_pairs(tuple(self.active)))
        return complete

    def mark(self, rounds: Sequence[Round]) -> list[Round]:
        """Have these rounds reviewed; the contaminated ones among them."""
        reviewed = self.review(rounds) if rounds else ()
        for round_ in reviewed:
            self.rounds[round_.round] = round_
        return [round_ for round_ in reviewed if round_.dirty]

    def retire(self) -> None:
        """Measure no more of the modes outside the headline that had their time or their rounds."""
        wanted = self.effort.side_rounds or math.inf
        left = [
            label
            for label in self.active
            if label not in self.decisive
            and (not self.designs_left(label) or clean_rounds(self.rounds, label) >= wanted)
        ]
        self.active = [label for label in self.active if label not in left]

    @property
    def timed_s(self) -> float:
        """Seconds of all rounds so far."""
        return sum(self.spent_s.values())

    @property
    def rows(self) -> int:
        """The number of rounds in a Williams design of the modes that are still measured."""
        return len(williams_design(self.active, random.Random(0)))

    def designs_left(self, label: str) -> int:
        """Number of further Williams designs that a mode's time limit allows."""
        left_s = max(0.0, self.effort.mode_cap_s - self.spent_s.get(label, 0.0))
        return math.floor(left_s / (self.rows * self.round_s(label)))

    def round_s(self, label: str) -> float:
        """Seconds that a mode takes of a round that has it, contaminated or not."""
        rounds = sum(label in round_.order for round_ in self.rounds)
        return self.spent_s[label] / rounds if rounds else self.calls[label] * self.call_s[label]

    def progress(self, *, ended: bool) -> Progress:
        """The progress that is shown after a Williams design."""
        outlook, rows = self.stopping.outlook, self.rows
        share = min(contaminated_share(self.rounds), MAX_CONTAMINATED_SHARE)
        latest = outlook.most_left / (1 - share)
        return Progress(
            measured=len(self.rounds),
            rounds=outlook.rounds,
            rounds_max=outlook.rounds + rows * max(0, math.ceil(outlook.most_left / rows)),
            half_width=outlook.half_width,
            target=outlook.target,
            remaining_s=(0.0, 0.0)
            if ended
            else (self._time_s(outlook.fewest_left), self._time_s(latest)),
        )

    def _time_s(self, rounds: float) -> float:
        """Seconds of so many more rounds, in whole designs, within every mode's time limit."""
        rows = self.rows
        designs = min(math.ceil(rounds / rows), *map(self.designs_left, self.decisive))
        return sum(
            min(designs, self.designs_left(label)) * rows * self.round_s(label)
            for label in self.active
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
