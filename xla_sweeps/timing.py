"""The timing loop of one replicate: warm-up, calibration, balanced rounds, the latency pass, the sync self-test.

Knows a clock and an `Executable`, never TensorFlow: with a fake device and a fake clock every figure is exact. Nothing
but the calls themselves happens inside a block; garbage collection is off meanwhile.
"""

from __future__ import annotations

import gc
import math
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from xla_sweeps import stats
from xla_sweeps.measurement import Block, Round
from xla_sweeps.trial import Effort, baseline_of, headline_candidates

WARMUP_WINDOW = 10
STATIONARY_TOLERANCE = 0.01
SYNC_CALLS = 50
BLOCK_OVER_SYNC = 200
MIN_LATENCY_CALLS = 10
MAX_REPEATED_SHARE = 0.2
REPEAT_PASSES = 2

Clock = Callable[[], int]
"""Nanoseconds from an arbitrary start, monotonic: `time.perf_counter_ns`."""


class Executable(Protocol):
    """One model in one execution mode, its inputs already on the device."""

    def prepare(self) -> None:
        """Put the mode in force; called before a block or a run of calls, never timed."""

    def step(self) -> None:
        """Start one call on the next input; it may return before the device has finished."""

    def synchronize(self) -> None:
        """Return once every call started so far has finished on the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """How a mode was brought to its steady state.

    Attributes:
        call_s: median seconds of one call over the last window.
        stationary: whether the last two windows agree; False where the cap ended it.
    """

    calls: int
    seconds: float
    call_s: float
    stationary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where the rounds stand after a whole square; `half_width` is that of the widest headline log-ratio."""

    rounds: int
    rounds_max: int
    half_width: float | None
    target: float
    remaining_s: tuple[float, float]
    active: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsResult:
    """All rounds of a replicate, dirty ones included, and how measuring ended."""

    rounds: tuple[Round, ...]
    converged: bool
    repeated: int
    retired: tuple[str, ...] = ()

    @property
    def contaminated(self) -> bool:
        """Whether more than a fifth of the rounds had to be repeated."""
        clean = sum(1 for item in self.rounds if not item.dirty)
        return self.repeated > MAX_REPEATED_SHARE * max(1, clean)


Review = Callable[[Sequence[Round]], Mapping[int, str]]
"""Asked between squares, outside timed code: which of these rounds were disturbed, and by what."""


def measure_block(executable: Executable, mode: str, calls: int, *, clock: Clock) -> Block:
    """Time `calls` back-to-back calls and one synchronization as one block."""
    started = clock()
    for _ in range(calls):
        executable.step()
    enqueued = clock()
    executable.synchronize()
    finished = clock()
    return Block(mode=mode, calls=calls, elapsed_ns=max(1, finished - started), enqueue_ns=enqueued - started)


def sync_overhead_s(executable: Executable, *, clock: Clock) -> float:
    """Median seconds of a synchronization with nothing to wait for."""
    executable.synchronize()
    spans = []
    for _ in range(SYNC_CALLS):
        started = clock()
        executable.synchronize()
        spans.append(clock() - started)
    return statistics.median(spans) / 1e9


def warm_up(executable: Executable, *, effort: Effort, clock: Clock) -> WarmUp:
    """Call until speed is stationary: enough calls, enough time, two windows of blocks that agree; or the cap.

    A window is ten blocks; windows agree when neither median nor trend moves by more than 1 %.
    """
    executable.prepare()
    started = clock()
    blocks: list[float] = []
    calls, per_block = 0, 1
    while True:
        block = measure_block(executable, "", per_block, clock=clock)
        calls += per_block
        blocks.append(block.call_s)
        seconds = (clock() - started) / 1e9
        if per_block == 1 and block.call_s < effort.block_s / 2:
            per_block, blocks = max(2, math.ceil(effort.block_s / block.call_s)), []
        enough = calls >= effort.warmup_calls and seconds >= effort.warmup_s
        stationary = len(blocks) >= 2 * WARMUP_WINDOW and stats.stationary(
            blocks[-2 * WARMUP_WINDOW : -WARMUP_WINDOW], blocks[-WARMUP_WINDOW:], tolerance=STATIONARY_TOLERANCE
        )
        if (enough and stationary) or (seconds >= effort.warmup_cap_s and calls >= 2):
            call_s = statistics.median(blocks[-WARMUP_WINDOW:] or [block.call_s])
            return WarmUp(calls=calls, seconds=seconds, call_s=call_s, stationary=stationary)


def calls_per_block(call_s: float, *, sync_s: float, block_s: float) -> int:
    """The smallest number of calls whose block lasts `block_s` and 200 empty synchronizations.

    Durations are matched between modes, not calls: a fast mode gets more of them.
    """
    target_s = max(block_s, BLOCK_OVER_SYNC * sync_s)
    return max(1, math.ceil(target_s / call_s))


def balanced_square(labels: Sequence[str], rng: random.Random) -> list[tuple[str, ...]]:
    """Orders of one whole square: each mode stands in each place, and follows each other mode, equally often.

    Two modes: ABBA BAAB, that is the rounds AB, BA, BA, AB, at a random phase. More: the rows of a Williams design
    (n rows for an even number of modes, 2n for an odd one), modes and rows shuffled.

    References:
        Williams (1949), Experimental designs balanced for the estimation of residual effects of treatments.
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
    square = [[(shift + step) % count for step in zigzag] for shift in range(count)]
    if count % 2:
        square += [list(reversed(row)) for row in square]
    rng.shuffle(square)
    return [tuple(shuffled[index] for index in row) for row in square]


@dataclass
class _Interleaving:
    """State of the rounds of one replicate while they are measured."""

    executables: Mapping[str, Executable]
    calls: Mapping[str, int]
    effort: Effort
    rng: random.Random
    clock: Clock
    active: list[str]
    settle: dict[str, bool]
    rounds: list[Round] = field(default_factory=list)
    spent_s: dict[str, float] = field(default_factory=dict)
    retired: list[str] = field(default_factory=list)
    repeated: int = 0
    next_look: int = 0

    def run_round(self, order: tuple[str, ...]) -> Round:
        """One block of each mode, in this order, each after an untimed call that settles caches after the switch."""
        blocks = []
        started = self.clock()
        for label in order:
            executable, begun = self.executables[label], self.clock()
            executable.prepare()
            if self.settle[label]:
                executable.step()
                executable.synchronize()
            with _garbage_collection_off():
                blocks.append(measure_block(executable, label, self.calls[label], clock=self.clock))
            self.spent_s[label] = self.spent_s.get(label, 0.0) + (self.clock() - begun) / 1e9
        result = Round(
            round=len(self.rounds), order=order, blocks=tuple(blocks), started_ns=started, finished_ns=self.clock()
        )
        self.rounds.append(result)
        return result

    def run_square(self, review: Review) -> None:
        """A whole square; rounds that were disturbed are repeated whole, so all modes are treated alike."""
        pending = [self.run_round(order) for order in balanced_square(self.active, self.rng)]
        for _ in range(REPEAT_PASSES):
            dirty = review(pending)
            for number, reason in dirty.items():
                self.rounds[number] = replace(self.rounds[number], dirty=reason)
            orders = [item.order for item in pending if item.round in dirty]
            if not orders or self.repeated > MAX_REPEATED_SHARE * len(self.rounds):
                return
            self.repeated += len(orders)
            pending = [self.run_round(order) for order in orders]
        for number, reason in review(pending).items():
            self.rounds[number] = replace(self.rounds[number], dirty=reason)

    def over_cap(self) -> list[str]:
        """The modes whose next square would not fit under the time cap."""
        rows = len(balanced_square(self.active, random.Random(0)))
        counted = {label: sum(1 for item in self.rounds if label in item.order) for label in self.active}
        return [
            label
            for label in self.active
            if self.spent_s[label] * (1 + rows / max(1, counted[label])) > self.effort.mode_cap_s
        ]


def measure_rounds(
    executables: Mapping[str, Executable],
    calls: Mapping[str, int],
    call_s: Mapping[str, float],
    *,
    effort: Effort,
    seed: int,
    clock: Clock,
    review: Review,
    on_square: Callable[[Progress], None],
) -> RoundsResult:
    """Measure rounds of all modes until every headline log-ratio's interval is narrow enough, never on significance.

    Whole squares only, and after each switch an untimed call (`effort.settle_s`). A mode that is no part of the headline leaves when its time cap is spent; when a headline mode's
    is, measuring ends, not converged.

    Args:
        executables: by label, warm.
        calls: of one block, by label.
        call_s: expected seconds of one call, by label.
        effort: how many rounds, how narrow.
        seed: of the order of the modes.
        clock: nanoseconds.
        review: says between squares which rounds were disturbed.
        on_square: told of progress between squares.
    """
    labels = list(executables)
    rows = len(balanced_square(labels, random.Random(0)))
    settle = {
        label: call_s[label] <= effort.settle_s and call_s[label] * (calls[label] + 1) * rows <= effort.mode_cap_s
        for label in labels
    }
    state = _Interleaving(
        executables=executables, calls=calls, effort=effort, rng=random.Random(seed), clock=clock, active=labels,
        settle=settle, next_look=effort.rounds_min,
    )  # fmt: skip
    headline = (
        [(baseline_of(labels), candidate) for candidate in headline_candidates(labels)] if len(labels) > 1 else []
    )
    while True:
        state.run_square(review)
        width = headline_half_width(state.rounds, headline)
        converged = width is not None and width <= effort.target_half_width
        over = state.over_cap()
        measured = sum(1 for item in state.rounds if set(item.order) >= set(state.active) and not item.dirty)
        exhausted = max(measured, len(state.rounds) // 2) >= effort.rounds_max
        ended = exhausted or any(label in pair for pair in headline for label in over)
        if measured >= state.next_look:
            ended = ended or converged or (effort.hopeless_ends and _hopeless(width, measured, effort))
            while state.next_look <= measured:
                state.next_look += effort.rounds_look
        ended = ended or (not headline and (measured >= effort.rounds_min or bool(over)))
        on_square(_progress(state, measured, width, ended=ended))
        if ended:
            return RoundsResult(
                rounds=tuple(state.rounds), converged=converged or not headline, repeated=state.repeated,
                retired=tuple(state.retired),
            )  # fmt: skip
        state.retired += over
        state.active = [label for label in state.active if label not in over]


def _hopeless(width: float | None, measured: int, effort: Effort) -> bool:
    """Whether the last allowed round would still leave the interval too wide: widths shrink with the root of rounds."""
    return (
        width is not None and width * math.sqrt(measured / max(measured, effort.rounds_max)) > effort.target_half_width
    )


def headline_half_width(rounds: Sequence[Round], pairs: Sequence[tuple[str, str]]) -> float | None:
    """Half-width of the widest 95 % interval of the pairs' log-ratios over clean rounds; None while there is none."""
    widths = []
    for baseline, candidate in pairs:
        ratios = log_ratios(rounds, baseline, candidate)
        if len(ratios) < stats.MIN_PAIRS:
            return None
        interval = stats.signed_rank_interval(ratios)
        widths.append((interval.high - interval.low) / 2)
    return max(widths, default=None)


def log_ratios(rounds: Sequence[Round], baseline: str, candidate: str) -> list[float]:
    """log(baseline call time / candidate call time) of each round that holds both modes.

    Clean rounds only, unless too few of them are left for an interval: then all.
    """
    clean, every = [], []
    for item in rounds:
        times = {block.mode: block.call_s for block in item.blocks}
        if baseline in times and candidate in times:
            every.append(math.log(times[baseline] / times[candidate]))
            if not item.dirty:
                clean.append(every[-1])
    return clean if len(clean) >= stats.MIN_PAIRS else every


def measure_latencies(
    executables: Mapping[str, Executable], rounds: Sequence[Round], calls: Mapping[str, int], *, effort: Effort,
    clock: Clock,
) -> dict[str, tuple[float, ...]]:  # fmt: skip
    """Seconds of single calls with a synchronization after each, by label.

    A mode whose blocks were single calls has been timed so already, and those blocks are returned. The others get two
    passes in opposite order, up to `effort.latency_calls` calls or `effort.latency_cap_s` seconds in all.
    """
    single = {label for label in executables if calls[label] == 1}
    latencies: dict[str, list[float]] = {label: [] for label in executables}
    for item in rounds:
        for block in item.blocks:
            if block.mode in single and not item.dirty:
                latencies[block.mode].append(block.call_s)
    todo = [label for label in executables if label not in single]
    for order in (todo, todo[::-1]):
        for label in order:
            executable, begun = executables[label], clock()
            executable.prepare()
            executable.step()
            executable.synchronize()
            with _garbage_collection_off():
                for done in range(max(1, effort.latency_calls // 2)):
                    if done >= MIN_LATENCY_CALLS // 2 and (clock() - begun) / 1e9 > effort.latency_cap_s / 2:
                        break
                    latencies[label].append(measure_block(executable, label, 1, clock=clock).call_s)
    return {label: tuple(values) for label, values in latencies.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncTest:
    """Whether a synchronization really waits: a long chain returns early without it and takes its full time with it.

    Attributes:
        works: False where calls do queue but the synchronization returns before the work is done.
        queued: whether calls return before their work is done at all; on a CPU they need not.
    """

    works: bool
    queued: bool
    enqueue_s: float
    synced_s: float
    after_s: float


def sync_self_test(executable: Executable, *, calls: int, clock: Clock) -> SyncTest:
    """Enqueue a chain of calls, synchronize, and synchronize again: the second wait must find nothing left to do.

    A synchronization that does not wait leaves the device busy: reading a result afterwards (`executable.drain`) then
    takes the time that the synchronization should have taken.
    """
    executable.prepare()
    executable.step()
    executable.synchronize()
    started = clock()
    for _ in range(calls):
        executable.step()
    enqueued = clock()
    executable.synchronize()
    synced = clock()
    drain = getattr(executable, "drain", executable.synchronize)
    drain()
    drained = clock()
    enqueue_s, synced_s, after_s = (enqueued - started) / 1e9, (synced - started) / 1e9, (drained - synced) / 1e9
    return SyncTest(
        works=after_s <= 0.1 * max(synced_s, 1e-9) + 0.002, queued=enqueue_s < 0.5 * (synced_s + after_s),
        enqueue_s=enqueue_s, synced_s=synced_s, after_s=after_s,
    )  # fmt: skip


def _progress(state: _Interleaving, measured: int, width: float | None, *, ended: bool) -> Progress:
    effort = state.effort
    per_round = sum(state.spent_s[label] for label in state.active) / max(1, measured)
    soonest = max(0, min(state.next_look, effort.rounds_max) - measured)
    latest = max(0, effort.rounds_max - measured)
    remaining = (0.0, 0.0) if ended else (soonest * per_round, latest * per_round)
    rows = len(balanced_square(state.active, random.Random(0)))
    return Progress(
        rounds=measured, rounds_max=rows * math.ceil(effort.rounds_max / rows), half_width=width,
        target=effort.target_half_width, remaining_s=remaining, active=tuple(state.active),
    )  # fmt: skip


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
