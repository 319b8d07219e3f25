"""Inputs that take unequal time: every mode meets all of them equally often, and speeds are rates.

A fake device with a fake clock; the rounds and the statistics are the project's own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from direct import Direct
from timed_devices import EFFORT, Clock, Device

from xla_sweeps.analysis.estimates import Samples, intervals
from xla_sweeps.measure import rounds, timing
from xla_sweeps.schema.measurement import INPUTS, Block, Round

COSTS = [(0.9, 1.0, 1.1), (1.0, 2.0, 4.0), (4.0, 1.0, 1.0)]

GRAPH_S, XLA_S = 0.2, 0.1

BLOCKS_S = [0.05, 0.15, 0.25, 0.35, 0.45, 0.6, 1.0]
"""Lengths of a block, from a single call of both modes on."""


def measured(costs: Sequence[float], block_s: float, *, settle: bool = True) -> list[Round]:
    """Rounds of a graph that takes twice as long as XLA on every input."""
    clock = Clock()
    devices = {
        label: Device(clock, work_s=work_s, enqueue_s=0.0, costs=costs)
        for label, work_s in (("graph", GRAPH_S), ("xla", XLA_S))
    }
    call_s = {label: device.work_s for label, device in devices.items()}
    ended = rounds.Interleaving(
        Direct(devices, clock).block,
        {
            label: timing.calls_per_block(seconds, sync_s=0.0, block_s=block_s)
            for label, seconds in call_s.items()
        },
        call_s,
        effort=replace(EFFORT, settle_s=1e6 if settle else 0.0),
        seed=1,
        clock=clock,
        review=lambda reviewed: reviewed,
        on_design=lambda progress: None,
    ).measure()
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
    calls = timing.calls_per_block(call_s, sync_s=0.0, block_s=0.03)
    assert calls % INPUTS == 0
    assert 0 <= calls * call_s - 0.03 < 3 * call_s
    assert timing.calls_per_block(0.03, sync_s=0.0, block_s=0.03) == 1


def rounds_of(logs: Sequence[float], costs: Sequence[float]) -> list[Round]:
    """Rounds of one mode whose blocks are single calls: their noise, and what the inputs cost."""
    return [
        Round(
            round=index,
            order=("xla",),
            blocks=(
                Block(
                    mode="xla",
                    calls=1,
                    elapsed_ns=round(1e9 * costs[index % 3] * math.exp(noise)),
                    enqueue_ns=0,
                    input=index % 3,
                ),
            ),
        )
        for index, noise in enumerate(logs)
    ]


def without_inputs(measured: Sequence[Round]) -> list[Round]:
    """The rounds as an older record has them."""
    return [
        replace(one, blocks=tuple(replace(block, input=None) for block in one.blocks))
        for one in measured
    ]


@pytest.mark.parametrize("costs", [(1.0, 1.0, 1.0), (1.0, 2.0, 4.0)])
@pytest.mark.parametrize("count", [6, 10, 12, 20])
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


def singles_on(device: Device, clock: Clock) -> list[Block]:
    """Nine single calls after a block."""
    block = timing.settled_block(device, "xla", 3, settle=True, clock=clock, first=1, singles=9)
    return timing.singles_of(block, 1)


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
    singles = singles_on(device, clock)
    assert timing.inputs_s(singles) == pytest.approx([0.1 * cost for cost in costs])
    assert timing.inputs_differ(singles) is differ
    assert not timing.inputs_differ(singles[:2])


class Forgetful(Device):
    """A device whose calls on new values take longer; at times one is slow without a reason."""

    factor = 1.0
    slow_call = -1
    renewals = 0

    def renew(self) -> bool:
        self.renewals += 1
        slow = 2.0 if self.renewals - 1 == self.slow_call else 1.0
        self.noise = [self.factor * slow]
        return True


@pytest.mark.parametrize(
    ("factor", "slow_call", "calls", "slow"),
    [(1.0, -1, 1, False), (1.4, -1, 1, False), (1.7, -1, 3, True), (1.0, 0, 2, False)],
)
def test_calls_on_new_values_that_all_take_longer_are_noticed(
    factor: float, slow_call: int, calls: int, slow: bool
) -> None:
    device = Forgetful(clock := Clock(), work_s=0.1, enqueue_s=0.0)
    device.factor, device.slow_call = factor, slow_call
    assert timing.slow_on_new_inputs(device, seen_s=0.1, clock=clock) is slow
    assert device.calls == calls


def test_an_input_that_is_expensive_by_itself_is_not_one_of_new_values() -> None:
    device = Forgetful(clock := Clock(), work_s=0.1, enqueue_s=0.0, costs=(1.0, 2.0, 4.0))
    singles = singles_on(device, clock)
    seen_s = max(timing.inputs_s(singles))
    assert not timing.slow_on_new_inputs(device, seen_s=seen_s, clock=clock)
