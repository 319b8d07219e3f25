"""Blocks, warm-up and synchronization on a fake device with a fake clock: all figures are exact."""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from timed_devices import EFFORT, Clock, Device, level, made, measured, round_of

from xla_sweeps.analysis import stats
from xla_sweeps.schema.measurement import Block, Round, Trend
from xla_sweeps.schema.trial import Effort
from xla_sweeps.trial import pacing, rounds
from xla_sweeps.worker import timing


def test_a_block_includes_the_work_done_after_the_last_call_returned() -> None:
    clock = Clock()
    block = timing.measure_block(Device(clock, work_s=0.25), "xla", 4, clock=clock)
    assert block.elapsed_ns == round((0.001 + 4 * 0.25) * 1e9)
    assert block.enqueue_ns == 4_000_000
    assert block.call_s == pytest.approx(0.25025)


@dataclass
class Ramping(Device):
    """A GPU whose clock falls to half while it idles, and is back after 20 ms of work."""

    idle_ns: int = 5_000_000
    ramp_s: float = 0.02
    worked_s: float = 0.0

    def step(self) -> None:
        if self.clock.now_ns - self.busy_until_ns > self.idle_ns:
            self.worked_s = 0.0
        missing = max(0.0, 1 - self.worked_s / self.ramp_s)
        self.noise = (1 + missing,)
        self.worked_s += self.work_s * (1 + missing)
        super().step()


@pytest.mark.parametrize("work_s", [0.0005, 0.002, 0.03])
def test_a_clock_that_fell_while_the_device_idled_is_back_before_a_block(work_s: float) -> None:
    clock = Clock(now_ns=10**9)
    gpu = Ramping(clock=clock, work_s=work_s, enqueue_s=0.0)
    call_s = []
    for ramp_s in (0.0, 0.02):
        clock.pass_s(1.0)  # the driver is asked
        block = timing.settled_block(gpu, "it", 5, settle=True, clock=clock, ramp_s=ramp_s)
        call_s.append(block.call_s)
    assert call_s[1] == pytest.approx(work_s)
    if work_s < 0.01:
        assert call_s[0] > 1.2 * work_s, "one untimed call is too few"


def test_a_device_that_gets_faster_for_ever_is_not_waited_for_long() -> None:
    clock = Clock()
    gpu = Device(clock=clock, work_s=1.0, enqueue_s=0.0, noise=[0.97**n for n in range(400)])
    timing.settled_block(gpu, "it", 1, settle=True, clock=clock, ramp_s=0.02)
    assert clock.now_ns < 3e9


def test_a_block_has_the_cpu_time_of_the_process() -> None:
    clock, cpu_clock = Clock(), Clock()

    class Busy(Device):
        def step(self) -> None:
            super().step()
            cpu_clock.pass_s(0.003)

    device = Busy(clock, work_s=0.25)
    block = timing.measure_block(device, "xla", 4, clock=clock, cpu_clock=cpu_clock)
    assert block.cpu_ns == 12_000_000


def test_garbage_collection_is_off_inside_blocks_and_on_again_afterwards() -> None:
    clock, devices = made(graph=0.1, xla=0.1)
    measured(devices, clock, effort=replace(EFFORT, mode_cap_s=5))
    assert gc.isenabled()
    assert False in devices["graph"].gc_states


def warmed(device: Device, effort: Effort = EFFORT) -> timing.WarmUp:
    return timing.warm_up(device, effort=effort, clock=device.clock)


def test_warm_up_continues_until_two_windows_agree() -> None:
    slow_start = [2.0] * 15 + [1.0] * 10_000
    warm = warmed(Device(Clock(), work_s=0.2, noise=slow_start))
    assert warm.trend is Trend.STEADY
    assert 15 + timing.WARMUP_WINDOW < warm.calls <= 15 + 2 * timing.WARMUP_WINDOW
    assert warm.call_s == pytest.approx(0.201)


def test_each_block_of_a_warm_up_starts_from_the_same_state() -> None:
    """Else a training would go on for as long as it warms up."""
    device = Device(Clock(), work_s=0.2)
    warmed(device)
    blocks = "".join({"prepare": "|", "step": "."}.get(word, "") for word in device.log)
    assert max(map(len, blocks.split("|")[2:])) == 1


def test_warm_up_ends_at_its_cap_and_flags_that_speed_still_changed() -> None:
    ever_slower = [1.0 + 0.05 * index for index in range(10_000)]
    device = Device(Clock(), work_s=0.2, noise=ever_slower)
    warm = warmed(device, replace(EFFORT, warmup_cap_s=10))
    assert warm.trend is Trend.MOVING
    assert 10 <= device.clock() / 1e9 < 15


def test_warm_up_groups_fast_calls_into_blocks() -> None:
    device = Device(Clock(), work_s=0.001, enqueue_s=0.0)
    warm = warmed(device)
    assert warm.trend is Trend.STEADY
    assert [block.calls for block in warm.blocks] == [1, 1, 1] + [100] * 20
    assert device.clock() / 1e9 == pytest.approx(20 * 0.1, rel=0.01)


@pytest.mark.parametrize("call_s", [0.0001, 0.06, 0.2])
def test_a_perfectly_steady_mode_is_steady_however_slow(call_s: float) -> None:
    assert warmed(Device(Clock(), work_s=call_s, enqueue_s=0.0)).trend is Trend.STEADY
    assert trend_at_quick(Device(Clock(), work_s=call_s)) is Trend.STEADY


@pytest.mark.parametrize(
    ("call_s", "calls"), [(0.0001, 3 + 300), (0.02, 5), (0.04, 5), (0.15, 4), (0.4, 3)]
)
def test_quick_warms_up_for_five_calls_or_three_tenths_of_a_second(
    call_s: float, calls: int
) -> None:
    warm = warmed(Device(Clock(), work_s=call_s, enqueue_s=0.0), level("quick"))
    assert warm.calls == calls
    assert warm.call_s == pytest.approx(call_s)
    assert warm.trend is None


@pytest.mark.parametrize("effort", ["quick", "publish"])
@pytest.mark.parametrize(
    ("noise", "recompiles"),
    [([30.0, 30.0], True), ([30.0, 1.0], False), ([1.0, 30.0], False), ([9.0, 9.0], False)],
)
def test_a_mode_recompiles_where_the_first_calls_on_both_new_inputs_are_slow(
    noise: list[float], recompiles: bool, effort: str
) -> None:
    noise = [*noise, *[1.0] * 100_000]
    for work_s in (0.005, 0.05, 0.5):
        device = Device(Clock(), work_s=work_s, enqueue_s=0.0, noise=noise)
        warm = warmed(device, level(effort))
        assert warm.recompiles(first_call_s=0.0) is recompiles
        assert warm.call_s == pytest.approx(work_s)


@pytest.mark.parametrize(("first_call_s", "compiles"), [(0.5, True), (2.0, True), (5.0, False)])
def test_a_mode_recompiles_only_if_new_inputs_cost_about_what_the_first_call_did(
    first_call_s: float, compiles: bool
) -> None:
    """XLA compiles for seconds; a mode that keeps answers computes for much less."""
    blocks = [
        Block(mode="", calls=1, elapsed_ns=round(1e9 * call_s), enqueue_ns=0)
        for call_s in (0.5, 0.5, 0.001, 0.001)
    ]
    warm = timing.WarmUp(blocks=tuple(blocks), call_s=0.001, trend=None)
    assert warm.recompiles(first_call_s=0.0)
    assert warm.recompiles(first_call_s) is compiles


def trend_at_quick(device: Device) -> Trend:
    """The trend of a mode over the rounds of a replicate at quick."""
    other = Device(device.clock, work_s=0.03, noise=[1.0, 1.02, 0.98])
    result = measured({"graph": device, "xla": other}, device.clock, effort=level("quick"))
    return pacing.trend(result.rounds, "graph")


NIGHTLY = pytest.mark.exhaustive


@pytest.mark.parametrize(
    "spread", [pytest.param(0.01, marks=NIGHTLY), 0.05, pytest.param(0.08, marks=NIGHTLY)]
)
@pytest.mark.parametrize("call_s", [0.03, pytest.param(0.1, marks=NIGHTLY)])
def test_noise_around_a_steady_speed_is_rarely_called_moving(spread: float, call_s: float) -> None:
    source = random.Random(1)
    trends_of = {"warm-up": list[Trend | None](), "rounds": list[Trend | None]()}
    for _ in range(200):
        noise = [math.exp(source.gauss(0, spread)) for _ in range(1000)]
        device = Device(Clock(), work_s=call_s, enqueue_s=0.0, noise=noise)
        long = replace(level("standard"), warmup_cap_s=3)
        trends_of["warm-up"].append(warmed(device, long).trend)
        trends_of["rounds"].append(trend_at_quick(device))
    for trends in trends_of.values():
        assert trends.count(Trend.MOVING) < 0.01 * len(trends)


def test_a_real_trend_is_found_in_noise() -> None:
    source = random.Random(1)
    trends = []
    for _ in range(100):
        noise = [math.exp(source.gauss(0.01 * step, 0.02)) for step in range(1000)]
        trends.append(trend_at_quick(Device(Clock(), work_s=0.03, noise=noise)))
    assert trends.count(Trend.MOVING) >= 90


def xla_round(number: int, call_ms: float) -> Round:
    """A round of XLA alone."""
    return round_of(number, {"xla": call_ms / 1e3})


def found_in(count: int, slow: int, by: float, *, noise: float = 0.01) -> list[Trend]:
    """Trends of a steady speed whose first rounds are slower, in 400 cases."""
    source = random.Random(1)
    return [
        pacing.trend(
            [
                xla_round(number, 10 * math.exp(source.gauss(by * (number < slow), noise)))
                for number in range(count)
            ],
            "xla",
        )
        for _ in range(400)
    ]


@pytest.mark.parametrize(("count", "slow"), [(12, 4), (20, 6)])
def test_rounds_tell_a_slow_start(count: int, slow: int) -> None:
    assert found_in(count, slow, 0.05).count(Trend.MOVING) >= 0.9 * 400


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("count", [6, 20])
def test_rounds_of_a_steady_speed_tell_no_slow_start(count: int, noise: float) -> None:
    trends = found_in(count, 0, 0.0, noise=noise)
    assert trends.count(Trend.MOVING) <= 0.01 * 400
    assert (Trend.STEADY in trends) is (count >= 10 and noise == 0.001)


def faster_under_load(speed: Callable[[bool], float], *, noise: float = 0.02) -> float:
    """Share of 400 trials in which load, from the ninth of 24 rounds on, finds a faster mode."""
    source, count = random.Random(1), 0
    for _ in range(400):
        rounds = [
            replace(
                xla_round(number, speed(number >= 8) * math.exp(source.gauss(0, noise))),
                dirty="others" if number >= 8 else "",
            )
            for number in range(24)
        ]
        count += pacing.faster_under_load(rounds, "xla")
    return count / 400


def test_a_slow_start_is_told_where_all_later_rounds_are_contaminated() -> None:
    assert faster_under_load(lambda busy: 1.0 if busy else 2.0) == 1.0
    assert faster_under_load(lambda busy: 2.0 if busy else 1.0) == 0.0
    assert faster_under_load(lambda busy: 1.0) == 0.0
    assert faster_under_load(lambda busy: 1.0, noise=0.05) < 0.05


def test_a_slow_start_that_ends_within_the_last_rounds_is_told() -> None:
    source = random.Random(1)
    missed = []
    for count in range(12, 25):
        for fast in range(count // 2):
            slow = [20 * math.exp(source.gauss(0, 0.02)) for _ in range(count - fast)]
            call_s = [*slow, *[math.exp(source.gauss(0, 0.02)) for _ in range(fast)]]
            shifts = stats.shifts(call_s, by=stats.DRIFT, chance=rounds.REPEATED)
            if not shifts and not pacing.is_faster_than_most(1.0, call_s):
                missed.append((count, fast))
    assert not missed
    steady = [[math.exp(source.gauss(0, 0.05)) for _ in range(20)] for _ in range(400)]
    faster = sum(pacing.is_faster_than_most(call_s[-1], call_s[:-1]) for call_s in steady)
    assert faster < 0.05 * 400


def test_a_mode_of_long_calls_makes_no_further_ones_to_be_warm() -> None:
    def more(call_s: float, count: int) -> int:
        nanoseconds = round(1e9 * call_s)
        block = Block(mode="xla", calls=1, elapsed_ns=nanoseconds, enqueue_ns=nanoseconds)
        return pacing.calls_to_warm([block] * count)

    assert [more(0.001, 8), more(0.1, 8), more(0.001, 100)] == [92, 10, 0]
    assert [more(1.5, 8), more(18.0, 8), more(0.1, 0)] == [0, 0, 0]


def test_less_than_one_per_cent_is_no_slow_start() -> None:
    assert Trend.MOVING not in found_in(20, 4, 0.005, noise=0.0001)


def share_that_changes_alone(
    *, machine: float, own: Callable[[int], float] = lambda number: 0.0
) -> float:
    """Share of 200 trials of 12 rounds in which XLA's speed moves, also against two other modes.

    `machine` is the standard deviation of a state of the machine that lasts for several rounds;
    `own` is what XLA's calls alone take longer in a round. Both are logarithms.
    """
    source = random.Random(1)
    count = 0
    for _ in range(200):
        state, rounds = 0.0, []
        for number in range(12):
            state = 0.9 * state + machine * source.gauss(0, 0.44)
            logs = {mode: source.gauss(state, 0.02) for mode in ("eager", "graph", "xla")}
            logs["xla"] += own(number)
            call_s = {mode: 0.01 * math.exp(log) for mode, log in logs.items()}
            rounds.append(round_of(number, call_s))
        count += pacing.trend(rounds, "xla") is Trend.MOVING and pacing.changes_alone(rounds, "xla")
    return count / 200


def test_a_machine_that_changes_its_speed_is_no_unfinished_warm_up() -> None:
    assert share_that_changes_alone(machine=0.1) < 0.01


def test_a_mode_that_becomes_faster_alone_is_found_on_a_machine_that_changes() -> None:
    assert share_that_changes_alone(machine=0.02, own=lambda number: 0.4 * 0.7**number) > 0.9


def test_a_mode_without_others_is_judged_by_itself() -> None:
    assert pacing.changes_alone([xla_round(number, 10) for number in range(12)], "xla")


def test_contaminated_rounds_tell_no_trend() -> None:
    clean = [xla_round(number, 10) for number in range(10)]
    later = [xla_round(10 + number, 20 + number) for number in range(12)]
    assert pacing.trend([*clean, *later], "xla") is Trend.MOVING
    busy = [replace(round_, dirty="a build") for round_ in [*clean, *later]]
    assert pacing.trend(busy, "xla") is Trend.MOVING, "no round is clean: all of them count"
    disturbed = [replace(round_, dirty="a build") for round_ in later]
    assert pacing.trend([*clean, *disturbed], "xla") is Trend.STEADY
    assert pacing.trend([*clean, *disturbed], "eager") is Trend.NOT_ASSESSED


@pytest.mark.parametrize(
    ("call_s", "sync_s", "calls"),
    [(0.03, 0.0, 1), (0.0299, 0.0, 3), (0.001, 0.0, 30), (0.001, 0.001, 201), (5.0, 0.0, 1)],
)
def test_calls_per_block_match_durations_not_counts(
    call_s: float, sync_s: float, calls: int
) -> None:
    assert pacing.calls_per_block(call_s, sync_s=sync_s, block_s=0.03) == calls


@dataclass
class Lazy(Device):
    """A device that loads the code for reading a result when it is first needed."""

    loaded: bool = False

    def drain(self) -> None:
        super().drain()
        if not self.loaded:
            self.clock.pass_s(0.05)
        self.loaded = True


def self_tested(device: Device) -> timing.SyncTest:
    return timing.sync_self_test(device, seconds=0.15, clock=device.clock)


@pytest.mark.parametrize("kind", [Device, Lazy])
def test_the_sync_self_test_passes_a_device_that_queues_and_a_sync_that_waits(
    kind: type[Device],
) -> None:
    result = self_tested(kind(Clock(), work_s=0.005))
    assert result.works
    assert result.queued
    assert 0.12 < result.synced_s < 0.2


def test_the_sync_self_test_catches_a_sync_that_does_not_wait() -> None:
    assert not self_tested(Device(Clock(), work_s=0.005, waits=False)).works


@dataclass
class SlowToRead(Device):
    """A device from which reading a number takes longer than many calls."""

    def drain(self) -> None:
        super().drain()
        self.clock.pass_s(0.005)


@pytest.mark.parametrize("waits", [True, False])
def test_the_sync_self_test_keeps_the_device_busy_for_long_enough(waits: bool) -> None:
    result = self_tested(SlowToRead(Clock(), work_s=0.0001, enqueue_s=0.00001, waits=waits))
    assert 0.15 <= result.synced_s + result.after_s < 0.4
    assert result.queued
    assert result.works is waits


@dataclass
class Stopped(Device):
    """A device whose process the kernel stops during the second wait, on its first two tests."""

    tests: int = 0

    def synchronize(self) -> None:
        super().drain()

    def drain(self) -> None:
        super().drain()
        if self.tests in (1, 2):
            self.clock.pass_s(0.05)
        self.tests += 1


def test_a_process_that_is_stopped_meanwhile_does_not_fail_the_sync_self_test() -> None:
    device = Stopped(Clock(), work_s=0.06)
    assert self_tested(device).works
    assert device.tests == 4, "the first result, and three tests"


def test_sync_overhead_is_the_median_of_empty_syncs() -> None:
    clock = Clock()

    class Costly(Device):
        def synchronize(self) -> None:
            clock.pass_s(0.0005)

    assert timing.sync_overhead_s(Costly(clock, work_s=1.0), clock=clock) == pytest.approx(0.0005)
