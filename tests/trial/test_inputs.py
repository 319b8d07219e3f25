"""Inputs that take unequal time: every mode meets all of them equally often, and speeds are rates.

A fake device with a fake clock; the rounds and the statistics are the project's own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import timed_devices
from timed_devices import EFFORT, Clock, Device

from xla_sweeps.analysis.estimates import Samples, intervals
from xla_sweeps.schema.measurement import INPUTS, Block, Round
from xla_sweeps.trial import pacing
from xla_sweeps.worker import timing

COSTS = [(0.9, 1.0, 1.1), (1.0, 2.0, 4.0), (4.0, 1.0, 1.0)]

GRAPH_S, XLA_S = 0.2, 0.1

BLOCKS_S = [0.05, 0.15, 0.35, 1.0]
"""Lengths of a block, from a single call of both modes on."""


def measured(costs: Sequence[float], block_s: float, *, settle: bool = True) -> list[Round]:
    """Rounds of a graph that takes twice as long as XLA on every input."""
    clock = Clock()
    devices = {
        label: Device(clock, work_s=work_s, enqueue_s=0.0, costs=costs)
        for label, work_s in (("graph", GRAPH_S), ("xla", XLA_S))
    }
    calls = {
        label: pacing.calls_per_block(device.work_s, sync_s=0.0, block_s=block_s)
        for label, device in devices.items()
    }
    effort = replace(EFFORT, settle_s=1e6 if settle else 0.0)
    ended = timed_devices.measured(devices, clock, calls=calls, effort=effort)
    assert ended.converged
    return ended.rounds


def estimated(measured: Sequence[Round], *labels: str) -> float:
    """The published figure: seconds a call of a mode, or the speedup of the second of two."""
    return math.exp(intervals([Samples(measured).call_s(*labels)])[0].estimate)


@pytest.mark.parametrize("settle", [True, False])
@pytest.mark.parametrize("block_s", BLOCKS_S)
@pytest.mark.parametrize("costs", COSTS)
def test_a_speedup_does_not_depend_on_which_inputs_a_block_happens_to_take(
    costs: Sequence[float], block_s: float, settle: bool
) -> None:
    taken = measured(costs, block_s, settle=settle)
    (interval,) = intervals([Samples(taken).call_s("graph", "xla")])
    assert math.exp(interval.estimate) == pytest.approx(2.0, rel=0.005)
    assert interval.high - interval.low < 0.005


@pytest.mark.parametrize("block_s", BLOCKS_S)
@pytest.mark.parametrize("costs", COSTS)
def test_a_throughput_is_calls_over_seconds(costs: Sequence[float], block_s: float) -> None:
    taken, mean = measured(costs, block_s), sum(costs) / len(costs)
    assert estimated(taken, "graph") == pytest.approx(GRAPH_S * mean, rel=0.005)
    assert estimated(taken, "xla") == pytest.approx(XLA_S * mean, rel=0.005)


def test_all_modes_of_a_round_time_the_same_input_and_rounds_take_turns() -> None:
    taken = measured(COSTS[0], 0.05)
    assert [[block.input for block in one.blocks] for one in taken] == [
        [index % 3] * 2 for index in range(len(taken))
    ]
    longer = measured(COSTS[0], 0.6)
    assert {block.input for one in longer for block in one.blocks} == {None}


@pytest.mark.parametrize("call_s", [0.0001, 0.0101, 0.0149, 0.02, 0.0299])
def test_a_block_takes_each_input_equally_often(call_s: float) -> None:
    calls = pacing.calls_per_block(call_s, sync_s=0.0, block_s=0.03)
    assert calls % INPUTS == 0
    assert 0 <= calls * call_s - 0.03 < 3 * call_s
    assert pacing.calls_per_block(0.03, sync_s=0.0, block_s=0.03) == 1


def rounds_of(logs: Sequence[float], costs: Sequence[float]) -> list[Round]:
    """Rounds of one mode whose blocks are single calls: their noise, and what the inputs cost."""
    return [
        timed_devices.round_of(index, {"xla": costs[index % 3] * math.exp(noise)})
        for index, noise in enumerate(logs)
    ]


def without_inputs(measured: Sequence[Round]) -> list[Round]:
    """The rounds as an older record has them."""
    return [
        replace(one, blocks=tuple(replace(block, input=None) for block in one.blocks))
        for one in measured
    ]


@pytest.mark.parametrize("costs", [(1.0, 1.0, 1.0), (1.0, 2.0, 4.0)])
@pytest.mark.parametrize(
    "count", [6, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (10, 12, 20))]
)
def test_the_interval_of_a_rate_contains_the_truth(costs: Sequence[float], count: int) -> None:
    source = random.Random(2)
    truth = math.log(sum(costs) / 3)
    covered, widths, widths_alike = 0, 0.0, 0.0
    for _ in range(1000):
        noise = [source.gauss(0, 0.01) for _ in range(count)]
        (rate,) = intervals([Samples(rounds_of(noise, costs)).call_s("xla")])
        covered += rate.low <= truth <= rate.high
        widths += rate.high - rate.low
        alike = without_inputs(rounds_of(noise, (1.0, 1.0, 1.0)))
        (single,) = intervals([Samples(alike).call_s("xla")])
        widths_alike += single.high - single.low
    assert covered >= 0.935 * 1000
    assert widths <= (1.1 if costs[0] == costs[-1] else 1.3) * widths_alike


def test_one_outlier_moves_no_rate() -> None:
    for outlier in range(10):
        noise = [0.5 * (index == outlier) for index in range(10)]
        (rate,) = intervals([Samples(rounds_of(noise, (1.0, 2.0, 4.0))).call_s("xla")])
        assert math.exp(rate.estimate) == pytest.approx(7 / 3, rel=0.01)


def test_records_without_inputs_are_read_as_before() -> None:
    older = without_inputs(rounds_of([0.0] * 9, (1.0, 2.0, 4.0)))
    assert Samples(older).call_s("xla")[:, 0].tolist() == [1.0, 2.0, 4.0] * 3


@pytest.mark.parametrize(
    ("costs", "differ"),
    [
        ((1.0, 1.0, 1.0), False),
        ((0.9, 1.0, 1.1), False),
        ((1.0, 1.0, 1.14), False),
        ((1.0, 1.0, 1.2), True),
        ((1.0, 2.0, 4.0), True),
        ((0.5, 1.0, 1.0), True),
    ],
)
def test_inputs_of_which_the_middle_one_is_no_average_are_noticed(
    costs: Sequence[float], differ: bool
) -> None:
    device = Device(clock := Clock(), work_s=0.1, enqueue_s=0.0, costs=costs)
    block = timing.settled_block(device, "xla", 3, settle=True, clock=clock, first=1, singles=30)
    singles = pacing.singles_of(block, 1)
    assert pacing.inputs_differ(singles) is differ
    assert not pacing.inputs_differ(singles[:2])


def singles_of(noise: Sequence[float], costs: Sequence[float] = (1.0, 1.0, 1.0)) -> list[Block]:
    """Single calls on inputs in turn: their noise as logs, and what the inputs cost."""
    return [block for one in rounds_of(noise, costs) for block in one.blocks]


def noise_of(kind: str, cv: float, count: int, source: random.Random) -> list[float]:
    """Logs of noise: independent, or of a host that is twice as slow 15 % of the time."""
    logs, slow = list[float](), False
    for _ in range(count):
        slow = kind == "slow states" and source.random() < (6 / 7 if slow else 0.0252)
        logs.append(source.gauss(0, cv) + math.log(2) * slow)
    return logs


KINDS = [("independent", 0.2), ("independent", 0.3), ("slow states", 0.02), ("slow states", 0.2)]


@pytest.mark.parametrize(
    "count", [12, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (6, 40))]
)
@pytest.mark.parametrize(("kind", "cv"), KINDS)
def test_noise_on_equal_inputs_raises_the_flag_in_fewer_than_one_of_a_hundred(
    kind: str, cv: float, count: int
) -> None:
    source = random.Random(3)
    raised = sum(
        pacing.inputs_differ(singles_of(noise_of(kind, cv, count, source))) for _ in range(300)
    )
    assert raised < 3


@pytest.mark.parametrize("cv", [0.02, 0.1, 0.2])
def test_inputs_that_differ_are_found_in_noise(cv: float) -> None:
    source = random.Random(3)
    raised = sum(
        pacing.inputs_differ(singles_of(noise_of("independent", cv, 40, source), (1.0, 2.0, 4.0)))
        for _ in range(50)
    )
    assert raised >= 45


class Remembering(Device):
    """A device whose first call on a value takes longer, by a factor."""

    factor = 1.0
    generation = 0

    def __init__(self, clock: Clock, **changes: Any) -> None:
        super().__init__(clock, **changes)
        self.seen: set[tuple[int, int]] = set()
        self.steady: list[float] = []

    def renew(self) -> bool:
        self.generation += 1
        return True

    def step(self) -> None:
        value = (self.generation, self.position)
        level = self.steady.pop(0) if self.steady else 1.0
        self.noise = [level * (1.0 if value in self.seen else self.factor)]
        self.seen.add(value)
        super().step()


@pytest.mark.parametrize(
    ("factor", "calls", "slow"), [(1.0, 3, False), (1.4, 3, False), (1.7, 36, True), (30, 36, True)]
)
@pytest.mark.parametrize("costs", [(1.0, 1.0, 1.0), (1.0, 4.0, 2.0)])
def test_calls_on_new_values_that_all_take_longer_are_noticed(
    factor: float, calls: int, slow: bool, costs: Sequence[float]
) -> None:
    device = Remembering(clock := Clock(), work_s=0.1, enqueue_s=0.0, costs=costs)
    device.factor = factor
    assert timing.slow_on_new_inputs(device, clock=clock) is slow
    assert device.calls == calls


@pytest.mark.parametrize(("kind", "cv"), KINDS)
def test_a_slow_host_is_no_mode_that_keeps_answers(kind: str, cv: float) -> None:
    source, raised = random.Random(4), 0
    for _ in range(1000):
        device = Remembering(clock := Clock(), work_s=0.1, enqueue_s=0.0)
        device.steady = [math.exp(log) for log in noise_of(kind, cv, 36, source)]
        raised += timing.slow_on_new_inputs(device, clock=clock)
    assert raised < 10
