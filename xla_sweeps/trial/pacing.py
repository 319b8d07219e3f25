"""Decide how often to call a mode in a block, and what its times show: pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xla_sweeps.analysis import stats
from xla_sweeps.schema.measurement import INPUTS, Block, Round, Trend
from xla_sweeps.schema.modes import Mode, mode_of
from xla_sweeps.schema.trial import Effort
from xla_sweeps.trial import protocol

STATIONARY_TOLERANCE = 0.01
BLOCK_OVER_SYNC = 200
MOST_FILL = 0.01
"""Largest share of a block that filling and draining the device's queue may take."""
LONGEST_BLOCK_S = 1.0  # length that no block is given to keep that share, seconds
UNEQUAL_INPUTS = 0.05
"""Relative distance of the mean of the inputs from the middle one that is still alike."""
BY_CHANCE = 0.01  # share of healthy modes that a flag may reach
TREND_LEVEL = 0.995
"""Level of the interval of a trend: a steady speed is rarely called moving."""
START_FROM = 10  # minimum number of rounds to tell that the speed was steady
SLOW_IN_BLOCKS = 1.1
WARM_CALLS = 100
WARM_S = 1.0
"""A mode whose warm-up was too short to assess makes so many calls, or calls for so long, before
its rounds count: it may have become faster."""
Clock = Callable[[], int]
"""Nanoseconds from an arbitrary start, monotonic: `time.perf_counter_ns`."""


def singles_of(block: Block, first: int) -> list[Block]:
    """Calls of a block's mode that each had a synchronization of its own, as blocks of one."""
    if block.calls == 1 and not block.single_ns:
        return [block]
    times = zip(block.single_ns, block.single_enqueue_ns, strict=True)
    return [
        Block(
            mode=block.mode,
            calls=1,
            elapsed_ns=elapsed_ns,
            enqueue_ns=enqueue_ns,
            input=(first + place) % INPUTS,
        )
        for place, (elapsed_ns, enqueue_ns) in enumerate(times)
    ]


def trend_of(call_s: Sequence[float]) -> Trend:
    """Trend of consecutive seconds a call: a change above 1 %, none, or too noisy to tell."""
    if not call_s:
        return Trend.NOT_ASSESSED
    change = stats.trend_interval(call_s, level=TREND_LEVEL)
    if change.low > STATIONARY_TOLERANCE or change.high < -STATIONARY_TOLERANCE:
        return Trend.MOVING
    change = stats.trend_interval(call_s)
    within = max(-change.low, change.high) <= STATIONARY_TOLERANCE
    return Trend.STEADY if within else Trend.NOT_ASSESSED


def trend(rounds: Sequence[Round], label: str) -> Trend:
    """Change of a mode's speed over its uncontaminated rounds, slow first ones included.

    Over all rounds where too few of them are clean. Steady takes `START_FROM` rounds.
    """
    return _trend_of_rounds([call_s[label] for call_s in _times(rounds, label)])


def changes_alone(rounds: Sequence[Round], label: str) -> bool:
    """True if a mode's speed changes over its rounds relative to the other modes'.

    A machine that becomes faster or slower changes all of them. True where there is no other mode.
    """
    ratios = []
    for call_s in _times(rounds, label):
        mine = call_s.pop(label)
        if not call_s:
            return True
        ratios.append(mine / statistics.geometric_mean(call_s.values()))
    return _trend_of_rounds(ratios) is Trend.MOVING


def slow_in_blocks(rounds: Sequence[Round], label: str) -> float | None:
    """Factor by which a call in a block takes longer than one alone, surely; else None.

    Impossible at a steady speed: `SLOW_IN_BLOCKS` is allowed.
    """
    logs = [
        math.log(block.call_s * 1e9 / statistics.fmean(block.single_ns))
        for one in rounds
        for block in one.blocks
        if block.mode == label and block.single_ns
    ]
    if len(logs) < stats.MIN_PAIRS:
        return None
    apart = stats.signed_rank_interval(logs)
    return math.exp(apart.estimate) if apart.low > math.log(SLOW_IN_BLOCKS) else None


def calls_to_warm(blocks: Sequence[Block]) -> int:
    """The number of further calls after which a mode of a short warm-up may be faster; 0 for none.

    None where it made enough in these blocks of its rounds, or where a call takes so long that a
    few more tell nothing.
    """
    call_s = min((block.call_s for block in blocks), default=WARM_S)
    made = sum(block.calls + len(block.single_ns) for block in blocks)
    if call_s >= WARM_S:
        return 0
    return max(0, min(WARM_CALLS - made, math.ceil(WARM_S / call_s)))


def is_faster_than_most(last_s: float, call_s: Sequence[float]) -> bool:
    """True if a call takes less now than in most rounds; a quarter may have been as fast.

    Where more are, `rounds.drifts` tells.
    """
    few = max(2, len(call_s) // 4)
    return last_s < (1 - stats.DRIFT) * sorted(call_s)[: few + 1][-1]


def faster_under_load(rounds: Sequence[Round], label: str) -> bool:
    """True if a mode was faster in contaminated rounds than in the clean ones, which count.

    Load makes none faster, so the clean ones were warm-up. The third fastest of each are compared.
    """
    call_s: dict[bool, list[float]] = {False: [], True: []}
    for one in rounds:
        call_s[bool(one.dirty)] += [block.call_s for block in one.blocks if block.mode == label]
    if len(call_s[False]) < stats.MIN_PAIRS or not call_s[True]:
        return False
    clean, dirty = (sorted(call_s[busy])[:3][-1] for busy in (False, True))
    return dirty < (1 - stats.DRIFT) * clean


def _times(rounds: Sequence[Round], label: str) -> list[dict[str, float]]:
    """Seconds a call of the modes in a mode's rounds: in clean ones, if these are enough."""
    times = [(one.dirty, {block.mode: block.call_s for block in one.blocks}) for one in rounds]
    mine = [(dirty, call_s) for dirty, call_s in times if label in call_s]
    clean = [call_s for dirty, call_s in mine if not dirty]
    return clean if len(clean) >= stats.MIN_PAIRS else [call_s for _, call_s in mine]


def _trend_of_rounds(figures: Sequence[float]) -> Trend:
    overall = trend_of(figures)
    if len(figures) >= START_FROM:
        moved = starts_slowly(figures) or stats.shifts(
            figures, by=STATIONARY_TOLERANCE, chance=BY_CHANCE / 4
        )
        return Trend.MOVING if moved else overall
    return overall if overall is Trend.MOVING else Trend.NOT_ASSESSED


def starts_slowly(call_s: Sequence[float]) -> bool:
    """True if the first times, at most a third of all, are longer than every later one.

    By more than 1 % in median. A trend over all of them does not see that, since most are alike.
    Times of one distribution are in such an order with a chance of 1 / binomial(n, k); so many
    first ones are looked at that the sum of these stays below `BY_CHANCE` / 2.
    """
    chance, most = 0.0, len(call_s) // 3
    for first in range(most, 1, -1):
        chance += 1 / math.comb(len(call_s), first)
        if chance > BY_CHANCE / 2:
            return False
        if min(call_s[:first]) > max(call_s[first:]) and statistics.median(call_s[:first]) > (
            1 + STATIONARY_TOLERANCE
        ) * statistics.median(call_s[first:]):
            return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Speed of a mode on a device that queues: n calls take n * call_s + fill_s seconds."""

    call_s: float
    fill_s: float


def calls_per_block(
    call_s: float, *, sync_s: float, block_s: float, fill_s: float | None = None
) -> int:
    """Calls for a block that lasts at least `block_s` and 200 empty synchronizations.

    A block has a single call, or takes each of the rotating inputs equally often. On a device that
    queues it has several, so many that filling the queue takes at most 1 % of it, unless it lasts
    `LONGEST_BLOCK_S`; `fill_s` is None where calls do not queue.
    """
    target_s = max(block_s, BLOCK_OVER_SYNC * sync_s)
    if fill_s is not None:
        target_s = max(target_s, min(fill_s / MOST_FILL, LONGEST_BLOCK_S))
    calls = math.ceil(target_s / call_s)
    return 1 if calls <= 1 and fill_s is None else INPUTS * math.ceil(calls / INPUTS)


def plan_blocks(
    warm: Mapping[str, protocol.Warmed], effort: Effort
) -> tuple[dict[str, Pace], dict[str, int]]:
    """The pace of each mode that is warm, and the calls of its blocks: the same for copies."""
    paces, calls = dict[str, Pace](), dict[str, int]()
    copies: dict[Mode, list[str]] = {}
    for label in warm:
        copies.setdefault(mode_of(label), []).append(label)
    for labels in copies.values():
        each = [warm[label] for label in labels]
        queues = each[0].fill_s is not None
        pace = Pace(
            call_s=statistics.fmean(one.call_s for one in each),
            fill_s=statistics.fmean(one.fill_s or 0.0 for one in each),
        )
        count = calls_per_block(
            pace.call_s,
            sync_s=max(one.sync_s for one in each),
            block_s=effort.block_s,
            fill_s=pace.fill_s if queues else None,
        )
        paces |= dict.fromkeys(labels, pace)
        calls |= dict.fromkeys(labels, count)
    return paces, calls


def is_too_short(pace: Pace, calls: int) -> bool:
    """True if filling the queue takes more than `MOST_FILL` of a block of so many calls."""
    return pace.fill_s > MOST_FILL * (calls * pace.call_s + pace.fill_s)


def singles_per_round(call_s: float, *, calls: int, effort: Effort) -> int:
    """Single calls of a mode after each block, so that the first rounds have all of them."""
    if calls == 1:
        return 0
    rounds = max(1, effort.rounds_min)
    wanted = min(effort.latency_calls, effort.latency_cap_s / call_s) / rounds
    return max(1, INPUTS * round(wanted / INPUTS)) if wanted >= 1 else 1


def inputs_differ(singles: Sequence[Block]) -> bool:
    """True if a call on all inputs takes another time, on average, than one on the middle input.

    By more than `UNEQUAL_INPUTS`, and by more than noise makes it, in the test of Kruskal and
    Wallis. Slow phases only make that rarer, since the inputs rotate. False unless calls on all
    inputs were timed.
    """
    groups = [
        [block.call_s for block in singles if block.input == position] for position in range(INPUTS)
    ]
    if not all(groups):
        return False
    seconds = list(map(statistics.median, groups))
    if abs(statistics.fmean(seconds) / statistics.median(seconds) - 1) <= UNEQUAL_INPUTS:
        return False
    from scipy.stats import kruskal  # most trials need it never, and it takes long to load

    return bool(kruskal(*groups).pvalue < BY_CHANCE)
