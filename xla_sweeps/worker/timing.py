"""Time calls: warm-up, blocks, single calls, and the synchronization self-test.

It runs in the measuring process and knows a clock and an `Executable`, no framework. A block
contains nothing but the calls, with garbage collection off.
"""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from xla_sweeps.analysis import stats
from xla_sweeps.schema.measurement import INPUTS, Block, Trend
from xla_sweeps.schema.trial import Effort
from xla_sweeps.trial.pacing import LONGEST_BLOCK_S, STATIONARY_TOLERANCE, Clock, Pace, trend_of

WARMUP_WINDOW = 10
NEW_INPUTS = INPUTS - 1
"""Inputs beyond the first; each is new to the mode once, in a block of its own."""
RECOMPILE_FACTOR = 10
RECOMPILE_S = 0.02
COMPILING_SHARE = 0.2  # of the first call's time, which another call takes if it compiles too
CLEARLY_FASTER = 0.02
YOUNG_OBJECTS = 700  # new objects that start a collection, where the model has set no number
LONGEST_RAMP = 20
"""A clock that is still rising after so many times `ramp_s` is waited for no longer."""
SYNC_CALLS = 50
FEWEST_QUEUED = 4  # calls that a test of the synchronization begins with
SYNC_TRIES = 3  # tests of a synchronization that may have failed by other load
PACE_BLOCKS = 3  # blocks of each length from which the pace of a mode is told
SEVERAL_CALLS = 5  # calls of the longer ones
NEW_INPUT_FACTOR = 1.5
"""Factor by which new values take longer where a mode keeps the answers that it has given."""

NEW_INPUT_TURNS = 12
"""Turns that must all show it: six accused a healthy mode beside other load."""


class Executable(Protocol):
    """One model in one execution mode, its inputs already on the device.

    Attributes:
        position: of the input that the next call takes, among the `INPUTS` that rotate.
    """

    position: int

    def prepare(self) -> None:
        """Activate the mode, restore its state; untimed, before a block or a series of calls."""

    def step(self) -> None:
        """Start one call on the next input; it may return before the device has finished."""

    def synchronize(self) -> None:
        """Return once every call started so far has finished on the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """The warm-up of one mode.

    Attributes:
        call_s: median seconds of one call in the last window.
        trend: of the last two windows; None where it ended before there were two.
    """

    blocks: tuple[Block, ...]
    call_s: float
    trend: Trend | None

    @property
    def calls(self) -> int:
        """The number of calls."""
        return sum(block.calls for block in self.blocks)

    def recompiles(self, first_call_s: float) -> bool:
        """True if every new input costs a compilation, because shapes depend on values.

        Where it takes far less than the first call, which compiled, the mode keeps answers.
        """
        new_s = min(block.call_s for block in self.blocks[:NEW_INPUTS])
        limit_s = max(RECOMPILE_FACTOR * self.call_s, self.call_s + RECOMPILE_S)
        return new_s > limit_s and new_s >= COMPILING_SHARE * first_call_s


def measure_block(
    executable: Executable, mode: str, calls: int, *, clock: Clock, cpu_clock: Clock | None = None
) -> Block:
    """Time `calls` back-to-back calls and one synchronization; with `cpu_clock` CPU time too."""
    cpu_started = cpu_clock() if cpu_clock else 0
    started = clock()
    for _ in range(calls):
        executable.step()
    enqueued = clock()
    executable.synchronize()
    finished = clock()
    cpu_ns = cpu_clock() - cpu_started if cpu_clock else None
    return Block(
        mode=mode,
        calls=calls,
        elapsed_ns=max(1, finished - started),
        enqueue_ns=enqueued - started,
        cpu_ns=cpu_ns,
    )


def settled_block(
    executable: Executable,
    mode: str,
    calls: int,
    *,
    settle: bool,
    clock: Clock,
    cpu_clock: Clock | None = None,
    first: int = 0,
    ramp_s: float = 0.0,
    singles: int = 0,
) -> Block:
    """`measure_block` after the mode was activated and, if it is to settle, called untimed.

    It settles until calls get no faster for `ramp_s`; 0: one call. `first` is the position of the
    input of the block's first call. Single calls follow, each with a synchronization of its own.
    """
    executable.prepare()
    if settle:
        executable.position = (first - 1) % INPUTS
        _until_steady(executable, ramp_s, clock)
    executable.position = first
    with garbage_collection_off():
        objects = gc.get_count()[0]
        block = measure_block(executable, mode, calls, clock=clock, cpu_clock=cpu_clock)
        if singles:  # else the position tells what the last call was on
            executable.position = first
        alone = [measure_block(executable, mode, 1, clock=clock) for _ in range(singles)]
        objects = gc.get_count()[0] - objects
    return replace(
        block,
        input=first if calls == 1 else None,
        single_ns=tuple(single.elapsed_ns for single in alone),
        single_enqueue_ns=tuple(single.enqueue_ns for single in alone),
        collections=max(0, objects // (gc.get_threshold()[0] or YOUNG_OBJECTS)),
    )


def _until_steady(executable: Executable, ramp_s: float, clock: Clock) -> None:
    """Call until for so long no call was clearly faster than all before; at least once."""
    begun = clock()
    fastest_ns, since = math.inf, begun
    while True:
        elapsed_ns, now = measure_block(executable, "", 1, clock=clock).elapsed_ns, clock()
        if elapsed_ns < (1 - CLEARLY_FASTER) * fastest_ns:
            fastest_ns, since = elapsed_ns, now
        if now - since >= ramp_s * 1e9 or now - begun >= LONGEST_RAMP * ramp_s * 1e9:
            return


def sync_overhead_s(executable: Executable, *, clock: Clock) -> float:
    """Median seconds of a synchronization when there is nothing to wait for."""
    executable.synchronize()
    spans = []
    for _ in range(SYNC_CALLS):
        started = clock()
        executable.synchronize()
        spans.append(clock() - started)
    return statistics.median(spans) / 1e9


def warm_up(
    executable: Executable,
    *,
    effort: Effort,
    clock: Clock,
    on_new_input: Callable[[int], None] = lambda position: None,
) -> WarmUp:
    """Call until the speed is stationary, or until a limit of the effort.

    Stationary: enough calls, enough time, and two windows of ten blocks that differ in neither
    median nor trend by more than 1 %.
    """
    blocks = []
    for position in range(1, INPUTS):
        executable.prepare()
        executable.position = position
        blocks.append(measure_block(executable, "", 1, clock=clock))
        on_new_input(position)
    started = clock()
    times: list[float] = []
    calls, per_block = NEW_INPUTS, 1
    while True:
        executable.prepare()
        block = measure_block(executable, "", per_block, clock=clock)
        calls += per_block
        blocks.append(block)
        times.append(block.call_s)
        seconds = (clock() - started) / 1e9
        if per_block == 1 and block.call_s < effort.block_s / 2:
            per_block, times = max(2, math.ceil(effort.block_s / block.call_s)), []
        enough = calls >= effort.warmup_calls and seconds >= effort.warmup_s
        windows = times[-2 * WARMUP_WINDOW : -WARMUP_WINDOW], times[-WARMUP_WINDOW:]
        assessed = len(times) >= 2 * WARMUP_WINDOW
        stationary = assessed and stats.stationary(*windows, tolerance=STATIONARY_TOLERANCE)
        capped = seconds >= effort.warmup_cap_s or 0 < effort.warmup_cap_calls <= calls
        if capped or (enough and stationary):
            return WarmUp(
                blocks=tuple(blocks),
                call_s=statistics.median(windows[1] or [block.call_s]),
                trend=trend_of([*windows[0], *windows[1]]) if assessed else None,
            )


def pace_of(executable: Executable, *, call_s: float, clock: Clock) -> Pace:
    """The pace of a mode, from blocks of one call and of several in turns.

    A call takes at least as long as its launch, so filling and draining take no longer than what a
    single call is waited for: that bounds the noise of a mode that waits for the host.
    """
    several = SEVERAL_CALLS if SEVERAL_CALLS * call_s < LONGEST_BLOCK_S else 2
    ones, more = list[Block](), list[Block]()
    executable.prepare()
    with garbage_collection_off():
        for _ in range(PACE_BLOCKS):
            ones.append(measure_block(executable, "", 1, clock=clock))
            more.append(measure_block(executable, "", several, clock=clock))
    one_s = statistics.median(block.call_s for block in ones)
    several_s = statistics.median(several * block.call_s for block in more)
    waited_s = statistics.median(block.elapsed_ns - block.enqueue_ns for block in ones) / 1e9
    fill_s = min(max(0.0, one_s - (several_s - one_s) / (several - 1)), waited_s, one_s / 2)
    return Pace(call_s=one_s - fill_s, fill_s=fill_s)


class Renewable(Executable, Protocol):
    """An executable whose inputs can be replaced."""

    def renew(self) -> bool:
        """Replace the inputs on the device by values that no call has seen; False without any."""


def slow_on_new_inputs(executable: Renewable, *, clock: Clock) -> bool:
    """True if calls on new values all take much longer than half of the calls on values just seen.

    Half of them: beside other load, calls that return at once wait for a core now and then. Turns
    of one call each, on values that were uploaded together, after an untimed call: the new one
    first, or last. A turn after which new ones are not apart from the fastest ends the test.
    """
    executable.prepare()
    new_s, seen_s = list[float](), list[float]()
    for turn in range(NEW_INPUT_TURNS):
        if not executable.renew():
            return False
        executable.position = 0
        with garbage_collection_off():
            measure_block(executable, "", 1, clock=clock)
            for position in (1, 1) if turn % 2 == 0 else (0, 1):
                executable.position = position
                block = measure_block(executable, "", 1, clock=clock)
                is_new = position == 1 and len(new_s) == turn
                (new_s if is_new else seen_s).append(block.call_s)
        if min(new_s) <= NEW_INPUT_FACTOR * min(seen_s):
            return False
    return min(new_s) > NEW_INPUT_FACTOR * statistics.median_low(seen_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncTest:
    """Self-test of a synchronization: does it wait for the device?

    Attributes:
        works: False if the synchronization returns before queued calls are done.
        queued: whether calls return before their work is done; on a CPU they need not.
        enqueue_s: seconds until all calls had returned.
        synced_s: seconds until the synchronization had returned.
        after_s: seconds that a second wait took; near 0 if the first one waited.
    """

    works: bool
    queued: bool
    enqueue_s: float
    synced_s: float
    after_s: float


class Drainable(Executable, Protocol):
    """An executable whose results can be read."""

    def drain(self) -> None:
        """Wait for the device by reading one number of the last call's result."""


def sync_self_test(executable: Drainable, *, seconds: float, clock: Clock) -> SyncTest:
    """Start many calls, synchronize, then wait again: the second wait must take no time.

    A result is read beforehand too: the first time, the device may load code for it. The number of
    calls doubles until they take long enough: starting and reading a single one may take longer.
    Where the second wait takes time, the test is repeated: beside other load this process may have
    been stopped meanwhile, while a synchronization that does not wait fails each time.
    """
    executable.prepare()
    executable.step()
    executable.drain()
    calls = FEWEST_QUEUED
    test = _queue_and_wait(executable, calls, clock)
    while test.synced_s + test.after_s < seconds:
        calls *= 2
        test = _queue_and_wait(executable, calls, clock)
    for _ in range(SYNC_TRIES - 1):
        if not test.works:
            test = _queue_and_wait(executable, calls, clock)
    return test


def _queue_and_wait(executable: Drainable, calls: int, clock: Clock) -> SyncTest:
    block = measure_block(executable, "", calls, clock=clock)
    synced = clock()
    executable.drain()
    after_s = (clock() - synced) / 1e9
    synced_s, enqueue_s = block.elapsed_ns / 1e9, block.enqueue_ns / 1e9
    return SyncTest(
        works=after_s <= 0.1 * synced_s + 0.002,
        queued=enqueue_s < 0.5 * (synced_s + after_s),
        enqueue_s=enqueue_s,
        synced_s=synced_s,
        after_s=after_s,
    )


@contextmanager
def garbage_collection_off() -> Iterator[None]:
    """Keep the garbage collector out of timed code."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
