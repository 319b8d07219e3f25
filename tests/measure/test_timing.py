"""The timing loop on a fake device with a fake clock: every figure is exact."""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import pytest
from direct import Direct

from xla_sweeps.analysis.stats import MIN_PAIRS
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.measure import rounds, timing
from xla_sweeps.measure.rounds import Latencies, measure_latencies
from xla_sweeps.schema.measurement import Block, Round, Trend
from xla_sweeps.schema.trial import Effort

EFFORT = Effort(
    name="test",
    replicates=1,
    rounds_min=6,
    rounds_look=6,
    rounds_max=24,
    target_half_width=0.01,
    block_s=0.1,
    mode_cap_s=1e6,
    warmup_calls=5,
    warmup_s=0.5,
    warmup_cap_s=60,
    latency_calls=20,
    latency_cap_s=1e6,
    settle_s=1e6,
    hopeless_ends=False,
)


@dataclass
class Clock:
    """Nanoseconds that pass only on request."""

    now_ns: int = 0

    def __call__(self) -> int:
        return self.now_ns

    def pass_s(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


@dataclass
class Device:
    """An accelerator: a call returns after `enqueue_s`, its work on the device takes `work_s`."""

    clock: Clock
    work_s: float
    enqueue_s: float = 0.001
    waits: bool = True
    noise: Sequence[float] = (1.0,)
    busy_until_ns: int = 0
    calls: int = 0
    log: list[str] = field(default_factory=list)
    gc_states: set[bool] = field(default_factory=set)

    def prepare(self) -> None:
        self.log.append("prepare")

    def step(self) -> None:
        self.clock.pass_s(self.enqueue_s)
        work_s = self.work_s * self.noise[self.calls % len(self.noise)]
        self.busy_until_ns = max(self.busy_until_ns, self.clock.now_ns) + round(work_s * 1e9)
        self.calls += 1
        self.log.append("step")
        self.gc_states.add(gc.isenabled())

    def synchronize(self) -> None:
        self.log.append("synchronize")
        if self.waits:
            self.drain()

    def drain(self) -> None:
        self.clock.now_ns = max(self.clock.now_ns, self.busy_until_ns)


def quiet(rounds: Sequence[Round]) -> Sequence[Round]:
    return rounds


def marked(rounds: Sequence[Round], dirty: Collection[int]) -> Sequence[Round]:
    """The rounds, of which these numbers are contaminated."""
    return [replace(round_, dirty="others" if round_.round in dirty else "") for round_ in rounds]


def seconds(latencies: Latencies) -> list[float]:
    return [block.call_s for block in latencies.calls]


def latencies_of(
    devices: Mapping[str, Device], measured: Sequence[Round], calls: Mapping[str, int], clock: Clock
) -> dict[str, Latencies]:
    latencies, lost = measure_latencies(
        Direct(devices, clock).singles, measured, calls, effort=EFFORT
    )
    assert not lost
    return latencies


def measured(
    devices: Mapping[str, Device],
    clock: Clock,
    *,
    effort: Effort = EFFORT,
    calls: int = 2,
    review: rounds.Review = quiet,
) -> rounds.RoundsResult:
    return rounds.measure_rounds(
        Direct(devices, clock).block,
        dict.fromkeys(devices, calls),
        {label: device.work_s for label, device in devices.items()},
        effort=effort,
        seed=1,
        clock=clock,
        review=review,
        on_design=lambda progress: None,
    )


def test_a_block_includes_the_work_done_after_the_last_call_returned() -> None:
    clock = Clock()
    block = timing.measure_block(Device(clock, work_s=0.25), "xla", 4, clock=clock)
    assert block.elapsed_ns == round((0.001 + 4 * 0.25) * 1e9)
    assert block.enqueue_ns == 4_000_000
    assert block.call_s == pytest.approx(0.25025)


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
    clock = Clock()
    device = Device(clock, work_s=0.1)
    measured(
        {"graph": device, "xla": Device(clock, work_s=0.1)},
        clock,
        effort=replace(EFFORT, mode_cap_s=5),
    )
    assert gc.isenabled()
    assert False in device.gc_states


def test_warm_up_continues_until_two_windows_agree() -> None:
    clock = Clock()
    slow_start = [2.0] * 15 + [1.0] * 10_000
    warm = timing.warm_up(Device(clock, work_s=0.2, noise=slow_start), effort=EFFORT, clock=clock)
    assert warm.trend is Trend.STEADY
    assert 15 + timing.WARMUP_WINDOW < warm.calls <= 15 + 2 * timing.WARMUP_WINDOW
    assert warm.call_s == pytest.approx(0.201)


def test_each_block_of_a_warm_up_starts_from_the_same_state() -> None:
    """Else a training would go on for as long as it warms up."""
    device = Device(clock := Clock(), work_s=0.2)
    timing.warm_up(device, effort=EFFORT, clock=clock)
    blocks = "".join({"prepare": "|", "step": "."}.get(word, "") for word in device.log)
    assert max(map(len, blocks.split("|")[2:])) == 1


def test_warm_up_ends_at_its_cap_and_flags_that_speed_still_changed() -> None:
    clock = Clock()
    ever_slower = [1.0 + 0.05 * index for index in range(10_000)]
    warm = timing.warm_up(
        Device(clock, work_s=0.2, noise=ever_slower),
        effort=replace(EFFORT, warmup_cap_s=10),
        clock=clock,
    )
    assert warm.trend is Trend.MOVING
    assert 10 <= clock() / 1e9 < 15


def test_warm_up_groups_fast_calls_into_blocks() -> None:
    clock = Clock()
    device = Device(clock, work_s=0.001, enqueue_s=0.0)
    warm = timing.warm_up(device, effort=EFFORT, clock=clock)
    assert warm.trend is Trend.STEADY
    assert [block.calls for block in warm.blocks] == [1, 1, 1] + [100] * 20
    assert clock() / 1e9 == pytest.approx(20 * 0.1, rel=0.01)


@cache
def level(name: str) -> Effort:
    return settings_of(compose_config([f"effort={name}", "device=cpu"])).trial.effort


@pytest.mark.parametrize("call_s", [0.0001, 0.06, 0.2])
def test_a_perfectly_steady_mode_is_steady_however_slow(call_s: float) -> None:
    clock = Clock()
    device = Device(clock, work_s=call_s, enqueue_s=0.0)
    assert timing.warm_up(device, effort=EFFORT, clock=clock).trend is Trend.STEADY
    assert trend_at_quick(Device(clock, work_s=call_s), clock) is Trend.STEADY


@pytest.mark.parametrize(
    ("call_s", "calls"), [(0.0001, 3 + 300), (0.02, 5), (0.04, 5), (0.15, 4), (0.4, 3)]
)
def test_quick_warms_up_for_five_calls_or_three_tenths_of_a_second(
    call_s: float, calls: int
) -> None:
    clock = Clock()
    device = Device(clock, work_s=call_s, enqueue_s=0.0)
    warm = timing.warm_up(device, effort=level("quick"), clock=clock)
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
    clock = Clock()
    for work_s in (0.005, 0.05, 0.5):
        device = Device(clock, work_s=work_s, enqueue_s=0.0, noise=[*noise, *[1.0] * 100_000])
        warm = timing.warm_up(device, effort=level(effort), clock=clock)
        assert warm.recompiles is recompiles
        assert warm.call_s == pytest.approx(work_s)


def trend_at_quick(device: Device, clock: Clock) -> Trend:
    """The trend of a mode over the rounds of a replicate at quick."""
    other = Device(clock, work_s=0.03, noise=[1.0, 1.02, 0.98])
    result = measured({"graph": device, "xla": other}, clock, effort=level("quick"))
    return timing.trend(result.rounds, "graph")


@pytest.mark.parametrize("spread", [0.01, 0.05, 0.08])
@pytest.mark.parametrize("call_s", [0.03, 0.1])
def test_noise_around_a_steady_speed_is_rarely_called_moving(spread: float, call_s: float) -> None:
    source = random.Random(1)
    trends_of = {"warm-up": list[Trend | None](), "rounds": list[Trend | None]()}
    for _ in range(200):
        clock = Clock()
        noise = [math.exp(source.gauss(0, spread)) for _ in range(1000)]
        device = Device(clock, work_s=call_s, enqueue_s=0.0, noise=noise)
        long = replace(level("standard"), warmup_cap_s=3)
        trends_of["warm-up"].append(timing.warm_up(device, effort=long, clock=clock).trend)
        trends_of["rounds"].append(trend_at_quick(device, clock))
    for trends in trends_of.values():
        assert trends.count(Trend.MOVING) <= 0.05 * len(trends)


def test_a_real_trend_is_found_in_noise() -> None:
    source = random.Random(1)
    trends = []
    for _ in range(100):
        clock = Clock()
        noise = [math.exp(source.gauss(0.01 * step, 0.02)) for step in range(1000)]
        trends.append(trend_at_quick(Device(clock, work_s=0.03, noise=noise), clock))
    assert trends.count(Trend.MOVING) >= 90


def xla_round(number: int, call_ms: float) -> Round:
    """A round of XLA alone."""
    block = Block(mode="xla", calls=1, elapsed_ns=round(call_ms * 1e6), enqueue_ns=0)
    return Round(round=number, order=("xla",), blocks=(block,))


def found_in(count: int, slow: int, by: float, *, noise: float = 0.01) -> list[Trend]:
    """Trends of a steady speed whose first rounds are slower, in 400 cases."""
    source = random.Random(1)
    return [
        timing.trend(
            [
                xla_round(number, 10 * math.exp(source.gauss(by * (number < slow), noise)))
                for number in range(count)
            ],
            "xla",
        )
        for _ in range(400)
    ]


@pytest.mark.parametrize(("count", "slow"), [(10, 2), (10, 3), (12, 2), (12, 4), (20, 2), (20, 6)])
def test_rounds_tell_a_slow_start(count: int, slow: int) -> None:
    assert found_in(count, slow, 0.05).count(Trend.MOVING) >= 0.9 * 400


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("count", [6, 10, 12, 20])
def test_rounds_of_a_steady_speed_tell_no_slow_start(count: int, noise: float) -> None:
    trends = found_in(count, 0, 0.0, noise=noise)
    assert trends.count(Trend.MOVING) <= 0.05 * 400
    assert (Trend.STEADY in trends) is (count >= 10 and noise == 0.001)


def test_less_than_one_per_cent_is_no_slow_start() -> None:
    assert set(found_in(10, 2, 0.005, noise=0.0001)) == {Trend.STEADY}


def test_contaminated_rounds_tell_no_trend() -> None:
    clean = [xla_round(number, 10) for number in range(10)]
    later = [xla_round(10 + number, 20 + number) for number in range(8)]
    assert timing.trend([*clean, *later], "xla") is Trend.MOVING
    disturbed = [replace(round_, dirty="a build") for round_ in later]
    assert timing.trend([*clean, *disturbed], "xla") is Trend.STEADY
    assert timing.trend([*clean, *disturbed], "eager") is Trend.NOT_ASSESSED


@pytest.mark.parametrize(
    ("call_s", "sync_s", "calls"),
    [(0.03, 0.0, 1), (0.0299, 0.0, 2), (0.001, 0.0, 30), (0.001, 0.001, 200), (5.0, 0.0, 1)],
)
def test_calls_per_block_match_durations_not_counts(
    call_s: float, sync_s: float, calls: int
) -> None:
    assert timing.calls_per_block(call_s, sync_s=sync_s, block_s=0.03) == calls


def test_measuring_stops_at_the_first_look_where_the_interval_is_narrow_enough() -> None:
    clock = Clock()
    result = measured({"graph": Device(clock, work_s=0.2), "xla": Device(clock, work_s=0.1)}, clock)
    assert result.converged
    assert len(result.rounds) == 8  # whole designs of four: the first look at or after six rounds
    ratios = rounds.log_ratios(result.rounds, "graph", "xla")
    assert ratios == pytest.approx(
        [math.log(0.401 / 0.201)] * 8
    )  # two calls and the first one's enqueue


def test_measuring_never_stops_on_significance() -> None:
    clock = Clock()
    noise = [1.0, 1.3, 0.8, 1.1, 0.7, 1.2, 0.9]
    devices = {
        "graph": Device(clock, work_s=1.0, noise=noise),
        "xla": Device(clock, work_s=0.1, noise=noise[::-1]),
    }
    result = measured(devices, clock)
    assert not result.converged
    assert len(result.rounds) == 24
    assert min(rounds.log_ratios(result.rounds, "graph", "xla")) > 1.5


UNTIMED = ["prepare", "step", "synchronize"]


@pytest.mark.parametrize("calls", [1, 2])
def test_every_block_follows_an_untimed_call_of_its_own_mode(calls: int) -> None:
    clock = Clock()
    device = Device(clock, work_s=0.1)
    measured({"graph": device, "xla": Device(clock, work_s=0.1)}, clock, calls=calls)
    unit = [*UNTIMED, *["step"] * calls, "synchronize"]
    assert device.log == unit * (len(device.log) // len(unit))


@pytest.mark.parametrize(("name", "limit_s"), [("quick", 0.1), ("standard", 10), ("publish", 10)])
@pytest.mark.parametrize("slow", ["eager", "graph", "xla"])
def test_all_modes_are_settled_or_none_as_the_slowest_of_the_headline_says(
    name: str, limit_s: float, slow: str
) -> None:
    for factor in (0.9, 1.1):
        clock = Clock()
        devices = {mode: Device(clock, work_s=0.01) for mode in ("eager", "graph", "xla")}
        devices[slow].work_s = factor * limit_s
        measured(devices, clock, effort=replace(level(name), mode_cap_s=1e6), calls=1)
        settled = {mode: device.log[:4] == [*UNTIMED, "step"] for mode, device in devices.items()}
        assert set(settled.values()) == {slow == "eager" or factor < 1}


def test_measuring_ends_early_where_the_last_round_would_not_reach_the_target() -> None:
    noise = [1.0, 1.3, 0.8, 1.1, 0.7, 1.2, 0.9]
    for hopeless_ends, expected in ((True, 8), (False, 24)):
        clock = Clock()
        devices = {
            "graph": Device(clock, work_s=1.0, noise=noise),
            "xla": Device(clock, work_s=0.1, noise=noise[::-1]),
        }
        result = measured(devices, clock, effort=replace(EFFORT, hopeless_ends=hopeless_ends))
        assert not result.converged
        assert len(result.rounds) == expected


def test_a_slow_mode_outside_the_headline_is_dropped_and_the_others_continue() -> None:
    clock = Clock()
    noise = [1.0, 1.2, 0.9, 1.1, 0.8]
    devices = {
        "eager": Device(clock, work_s=3.0),
        "graph": Device(clock, work_s=0.1, noise=noise),
        "xla": Device(clock, work_s=0.1, noise=noise[::-1]),
    }
    result = measured(devices, clock, effort=replace(EFFORT, mode_cap_s=60))
    assert sum("eager" in round_.order for round_ in result.rounds) == 6
    assert (
        sum({"graph", "xla"} <= set(round_.order) for round_ in result.rounds) >= EFFORT.rounds_max
    )


@pytest.mark.parametrize(("name", "with_eager"), [("quick", 6), ("standard", 24)])
def test_eager_leaves_a_quick_replicate_after_the_fewest_rounds_that_have_an_interval(
    name: str, with_eager: int
) -> None:
    clock = Clock()
    devices = {
        "eager": Device(clock, work_s=0.1),
        "graph": Device(clock, work_s=0.02),
        "xla": Device(clock, work_s=0.01),
    }
    result = measured(devices, clock, effort=level(name))
    assert result.converged
    sizes = [len(round_.order) for round_ in result.rounds]
    assert sizes == [3] * with_eager + [2] * (len(sizes) - with_eager)
    assert len(sizes) >= level(name).rounds_min
    assert rounds.headline_half_width(result.rounds, [("eager", "xla")]) == pytest.approx(0)


@pytest.mark.parametrize(("dirty", "leaves"), [({2}, True), ({0, 1, 2, 3, 4, 5}, False)])
def test_eager_stays_until_six_of_its_rounds_are_clean(dirty: set[int], leaves: bool) -> None:
    clock = Clock()
    devices = {label: Device(clock, work_s=0.02) for label in ("eager", "graph", "xla")}

    def disturbed(rounds: Sequence[Round]) -> Sequence[Round]:
        return marked(rounds, dirty)

    result = measured(devices, clock, effort=level("quick"), review=disturbed)
    assert ("eager" not in result.rounds[-1].order) == leaves
    clean = [round_ for round_ in result.rounds if not round_.dirty and "eager" in round_.order]
    assert len(clean) == 6


def test_a_headline_mode_over_its_cap_ends_measuring_after_a_complete_williams_design() -> None:
    clock = Clock()
    devices = {
        "graph": Device(clock, work_s=10.0, noise=[1.0, 1.5]),
        "xla": Device(clock, work_s=0.1),
    }
    result = measured(devices, clock, effort=replace(EFFORT, mode_cap_s=60), calls=1)
    assert not result.converged
    assert len(result.rounds) == 4


def test_contaminated_rounds_are_repeated_completely_and_excluded_from_the_ratios() -> None:
    clock = Clock()
    asked: list[int] = []

    def disturbed_once(rounds: Sequence[Round]) -> Sequence[Round]:
        asked.extend(round_.round for round_ in rounds)
        return marked(rounds, {1})

    result = measured(
        {"graph": Device(clock, work_s=0.2), "xla": Device(clock, work_s=0.1)},
        clock,
        review=disturbed_once,
    )
    assert asked == list(range(len(result.rounds)))
    assert [round_.round for round_ in result.rounds if round_.dirty] == [1]
    assert not rounds.is_contaminated(result.rounds)
    assert result.rounds[4].order == result.rounds[1].order
    assert len(rounds.log_ratios(result.rounds, "graph", "xla")) == len(result.rounds) - 1


def busy(rounds: Sequence[Round]) -> Sequence[Round]:
    """A monitor that sees others on the machine all the time."""
    return marked(rounds, {round_.round for round_ in rounds})


@pytest.mark.parametrize(
    ("name", "labels", "most"),
    [
        ("quick", ["graph", "xla"], 12),
        ("quick", ["eager", "graph", "xla"], 12),
        ("quick", ["graph"], 12),
        ("standard", ["eager", "graph", "xla"], 24),
        ("publish", ["graph", "xla"], 24),
    ],
)
def test_a_machine_that_is_never_quiet_ends_measuring_at_the_first_look(
    name: str, labels: list[str], most: int
) -> None:
    clock = Clock()
    effort = level(name)
    devices = {label: Device(clock, work_s=0.02, noise=[1.0, 1.4, 0.7]) for label in labels}
    result = measured(devices, clock, effort=effort, review=busy)
    assert rounds.is_contaminated(result.rounds)
    assert effort.rounds_min <= len(result.rounds) <= most
    if len(labels) > 1:
        assert len(rounds.log_ratios(result.rounds, "graph", "xla")) >= MIN_PAIRS


def test_a_machine_that_turns_busy_later_ends_measuring_once_a_fifth_is_contaminated() -> None:
    clock = Clock()
    noise = [1.0, 1.3, 0.8, 1.1, 0.7, 1.2, 0.9]
    devices = {
        "graph": Device(clock, work_s=1.0, noise=noise),
        "xla": Device(clock, work_s=0.1, noise=noise[::-1]),
    }

    def turns_busy(rounds: Sequence[Round]) -> Sequence[Round]:
        return marked(rounds, {round_.round for round_ in rounds if round_.round >= 12})

    result = measured(devices, clock, review=turns_busy)
    assert rounds.is_contaminated(result.rounds)
    assert len(result.rounds) == 16


@pytest.mark.parametrize("contaminated_every", [0, 9])
def test_the_time_left_is_never_above_what_the_limits_leave_and_holds_the_truth(
    contaminated_every: int,
) -> None:
    clock = Clock()
    noise = [1.0, 1.3, 0.8, 1.1, 0.7, 1.2, 0.9]
    devices = {
        "eager": Device(clock, work_s=0.6),
        "graph": Device(clock, work_s=1.0, noise=noise),
        "xla": Device(clock, work_s=0.1, noise=noise[::-1]),
    }
    effort = replace(EFFORT, mode_cap_s=60, rounds_max=60)
    seen: list[tuple[int, rounds.Progress]] = []
    rounds.measure_rounds(
        Direct(devices, clock).block,
        dict.fromkeys(devices, 2),
        {label: device.work_s for label, device in devices.items()},
        effort=effort,
        seed=1,
        clock=clock,
        review=lambda rounds: marked(
            rounds,
            {
                round_.round
                for round_ in rounds
                if contaminated_every and round_.round % contaminated_every == 4
            },
        ),
        on_design=lambda progress: seen.append((clock.now_ns, progress)),
    )
    end_ns, last = seen[-1]
    assert last.remaining_s == (0.0, 0.0)
    for at_ns, progress in seen[:-1]:
        soonest, latest = progress.remaining_s
        assert 0 < soonest <= latest <= len(devices) * effort.mode_cap_s - at_ns / 1e9
        assert soonest * 0.8 <= (end_ns - at_ns) / 1e9 <= latest * 1.2
        assert progress.measured >= progress.rounds


def test_on_a_busy_machine_the_time_left_is_that_to_the_first_look() -> None:
    clock = Clock()
    seen: list[rounds.Progress] = []
    rounds.measure_rounds(
        Direct({"graph": Device(clock, work_s=0.2), "xla": Device(clock, work_s=0.1)}, clock).block,
        {"graph": 2, "xla": 2},
        {"graph": 0.2, "xla": 0.1},
        effort=replace(EFFORT, rounds_min=20, rounds_max=60),
        seed=1,
        clock=clock,
        review=busy,
        on_design=seen.append,
    )
    assert [(progress.measured, progress.rounds) for progress in seen] == [
        (count, 0) for count in (4, 8, 12, 16, 20)
    ]
    soonest = [progress.remaining_s[0] for progress in seen]
    assert soonest == pytest.approx([14.5, 10.8, 7.2, 3.6, 0.0], abs=0.1)


@pytest.mark.parametrize("dies_at", [0, 1, 5, 6])
def test_a_worker_that_is_lost_costs_its_own_modes_and_no_complete_round(dies_at: int) -> None:
    clock = Clock()
    labels = ("graph", "xla", "graph_2", "xla_2")
    dying = Direct(
        {label: Device(clock, work_s=0.1) for label in labels},
        clock,
        dies=("graph_2", dies_at),
        lost=("graph_2", "xla_2"),
    )
    reviewed: list[int] = []

    def review(rounds: Sequence[Round]) -> Sequence[Round]:
        reviewed.extend(round_.round for round_ in rounds)
        return rounds

    result = rounds.measure_rounds(
        dying.block,
        dict.fromkeys(labels, 2),
        dict.fromkeys(labels, 0.1),
        effort=EFFORT,
        seed=1,
        clock=clock,
        review=review,
        on_design=lambda progress: None,
    )
    assert [loss.labels for loss in result.lost] == [{"graph_2", "xla_2"}]
    sizes = [len(round_.order) for round_ in result.rounds]
    assert sizes == [4] * dies_at + [2] * (len(sizes) - dies_at)
    assert reviewed == list(range(len(result.rounds)))
    assert result.converged
    assert len(rounds.log_ratios(result.rounds, "graph", "xla")) >= EFFORT.rounds_min


def test_when_the_last_worker_is_lost_the_complete_rounds_are_kept() -> None:
    clock = Clock()
    devices = {"graph": Device(clock, 0.1), "xla": Device(clock, 0.1)}
    dying = Direct(devices, clock, dies=("xla", 5), lost=("xla", "graph"))
    seen: list[rounds.Progress] = []
    result = rounds.measure_rounds(
        dying.block,
        {"graph": 2, "xla": 2},
        {"graph": 0.1, "xla": 0.1},
        effort=EFFORT,
        seed=1,
        clock=clock,
        review=quiet,
        on_design=seen.append,
    )
    assert len(result.rounds) == 5
    assert not result.converged
    assert len(seen) == 1, "the second design of rounds was not completed"


def test_an_aa_pair_is_measured_like_any_other_pair() -> None:
    clock = Clock()
    result = measured(
        {"graph": Device(clock, work_s=0.1), "graph_2": Device(clock, work_s=0.1)}, clock
    )
    assert result.converged
    assert rounds.log_ratios(result.rounds, "graph", "graph_2") == pytest.approx(
        [0.0] * len(result.rounds)
    )


def test_a_single_mode_is_measured_for_the_minimum_of_rounds() -> None:
    clock = Clock()
    result = measured({"graph": Device(clock, work_s=0.1)}, clock)
    assert len(result.rounds) == EFFORT.rounds_min


def test_latencies_are_single_synced_calls() -> None:
    clock = Clock()
    devices = {"graph": Device(clock, work_s=0.02), "xla": Device(clock, work_s=0.01)}
    calls = {"graph": 2, "xla": 3}
    latencies = latencies_of(devices, (), calls, clock)
    assert seconds(latencies["graph"]) == pytest.approx((0.021,) * 20)
    assert seconds(latencies["xla"]) == pytest.approx((0.011,) * 20)
    assert {block.enqueue_ns for block in latencies["xla"].calls} == {1_000_000}
    first, second = zip(latencies["graph"].passes, latencies["xla"].passes, strict=True)
    assert first[0].started_ns < first[1].started_ns  # the second time in the other order
    assert second[0].started_ns > second[1].started_ns
    assert [latency_pass.calls for latency_pass in (*first, *second)] == [10] * 4


def test_blocks_of_one_call_are_latencies_already() -> None:
    clock = Clock()
    devices = {"graph": Device(clock, work_s=0.5), "xla": Device(clock, work_s=0.2)}
    result = measured(devices, clock, calls=1)
    before = devices["graph"].calls
    latencies = latencies_of(devices, result.rounds, {"graph": 1, "xla": 1}, clock)
    assert devices["graph"].calls == before
    assert seconds(latencies["graph"]) == pytest.approx((0.501,) * len(result.rounds))
    assert latencies["graph"].passes == ()


@dataclass
class Lazy(Device):
    """A device that loads the code for reading a result when it is first needed."""

    loaded: bool = False

    def drain(self) -> None:
        super().drain()
        if not self.loaded:
            self.clock.pass_s(0.05)
        self.loaded = True


@pytest.mark.parametrize("kind", [Device, Lazy])
def test_the_sync_self_test_passes_a_device_that_queues_and_a_sync_that_waits(
    kind: type[Device],
) -> None:
    clock = Clock()
    result = timing.sync_self_test(kind(clock, work_s=0.005), seconds=0.15, clock=clock)
    assert result.works
    assert result.queued
    assert 0.12 < result.synced_s < 0.2


def test_the_sync_self_test_catches_a_sync_that_does_not_wait() -> None:
    clock = Clock()
    device = Device(clock, work_s=0.005, waits=False)
    assert not timing.sync_self_test(device, seconds=0.15, clock=clock).works


def test_sync_overhead_is_the_median_of_empty_syncs() -> None:
    clock = Clock()

    class Costly(Device):
        def synchronize(self) -> None:
            clock.pass_s(0.0005)

    assert timing.sync_overhead_s(Costly(clock, work_s=1.0), clock=clock) == pytest.approx(0.0005)


def test_latencies_of_a_contaminated_replicate_come_from_all_its_rounds() -> None:
    clock = Clock()
    devices = {"graph": Device(clock, work_s=0.5), "xla": Device(clock, work_s=0.2)}
    rounds_ = measured(devices, clock, calls=1).rounds
    dirty = [replace(round_, dirty="busy") for round_ in rounds_]
    calls = {"graph": 1, "xla": 1}
    latencies = latencies_of(devices, dirty, calls, clock)
    assert len(latencies["graph"].calls) == len(latencies["xla"].calls) == len(dirty)
    latencies = latencies_of(devices, [*dirty[1:], rounds_[0]], calls, clock)
    assert len(latencies["graph"].calls) == 1
