"""Streams of calls on a device that queues them: blocks without the bias of filling the queue."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from launch_queues import LaunchQueue, network
from timed_devices import EFFORT

from xla_sweeps.schema.measurement import ModeOutcome, Status
from xla_sweeps.trial import pacing, protocol
from xla_sweeps.trial.pacing import plan_blocks
from xla_sweeps.worker import timing

PAIRS = 60
STREAM = 100
BLOCKS = 4


def block_s(device: LaunchQueue, calls: int) -> float:
    block = timing.settled_block(device, "xla", calls, settle=True, clock=device.clock)
    return block.elapsed_ns / 1e9


def planned(device: LaunchQueue) -> tuple[pacing.Pace, int]:
    """The pace of a network, and the calls of its blocks."""
    block_s(device, 1)
    pace = timing.pace_of(device, call_s=block_s(device, 3) / 3, clock=device.clock)
    calls = pacing.calls_per_block(pace.call_s, sync_s=4e-5, block_s=0.03, fill_s=pace.fill_s)
    return pace, calls


def steady_s(device: LaunchQueue) -> float:
    """Seconds of a call in a stream that never ends."""
    return (block_s(device, 2 * STREAM) - block_s(device, STREAM)) / STREAM


def errors() -> tuple[list[float], float]:
    """Relative errors of the ratios of pairs of networks, and seconds of a trial's 12 rounds."""
    rng, ratios, seconds = np.random.default_rng(7), list[float](), list[float]()
    for _ in range(PAIRS):
        timed, true = list[float](), list[float]()
        for _ in range(2):
            device = network(rng, noise=0.003)
            pace, calls = planned(device)
            blocks = [block_s(device, calls) for _ in range(BLOCKS)]
            seconds.append(12 / BLOCKS * sum(blocks))
            timed.append((float(np.median(blocks)) - pace.fill_s) / calls)
            device.noise = 0.0
            true.append(steady_s(device))
        ratios.append(abs(timed[0] / timed[1] / (true[0] / true[1]) - 1))
    return sorted(ratios), 2 * float(np.mean(seconds))


def test_a_ratio_is_that_of_long_streams() -> None:
    biases, seconds = errors()
    assert biases[round(0.9 * PAIRS)] < 0.005
    assert biases[-1] < 0.01
    assert seconds < 20


def test_the_pace_is_told_from_blocks_of_one_call_and_of_several() -> None:
    device = LaunchQueue(np.full(100, 1e-5), np.full(100, 1e-4))
    pace, calls = planned(device)
    assert pace.call_s == pytest.approx(0.01)
    assert pace.fill_s == pytest.approx(1e-5)
    assert calls == 3, "a block of one call would be a latency"


def test_a_block_is_no_longer_than_it_may_be_to_hide_the_filling_of_the_queue() -> None:
    pace = pacing.Pace(call_s=0.3, fill_s=0.1)
    calls = pacing.calls_per_block(pace.call_s, sync_s=0.0, block_s=0.03, fill_s=pace.fill_s)
    assert calls == 6
    assert pacing.is_too_short(pace, calls)
    assert not pacing.is_too_short(pacing.Pace(call_s=0.3, fill_s=0.001), 3)


class Unsteady(LaunchQueue):
    """A host that launches some calls more slowly than others."""

    def step(self) -> None:
        steady_s = self.launch_s
        self.launch_s = steady_s * next(self.factors)
        super().step()
        self.launch_s = steady_s


def test_a_host_that_is_unsteady_fills_no_queue() -> None:
    device = Unsteady(np.full(100, 1e-3), np.full(100, 1e-5))
    device.factors = itertools.cycle([1.0, 1.6, 0.7, 1.1, 0.8, 1.3, 0.9])
    pace, calls = planned(device)
    assert pace.fill_s <= 1.1e-5, "the last kernel of a call, and nothing of the host's scatter"
    assert calls == 3


def test_copies_of_a_mode_share_their_number_of_calls() -> None:
    def warmed(call_s: float, fill_s: float | None) -> protocol.Warmed:
        outcome = ModeOutcome(status=Status.OK)
        return protocol.Warmed(outcome=outcome, call_s=call_s, sync_s=0.0, fill_s=fill_s)

    queued = {"xla": warmed(0.028, 0.0003), "xla_2": warmed(0.031, 0.0012), "graph": warmed(0.1, 0)}
    paces, calls = plan_blocks(queued, EFFORT)
    assert calls == {"xla": 6, "xla_2": 6, "graph": 3}
    assert paces["xla"] == paces["xla_2"]
    assert paces["xla"].call_s == pytest.approx(0.0295)
    assert paces["xla"].fill_s == pytest.approx(0.00075)
    waited = {"xla": warmed(0.09, None), "xla_2": warmed(0.12, None)}
    _, calls = plan_blocks(waited, EFFORT)
    assert calls == {"xla": 1, "xla_2": 1}, "on a CPU, where one would have three calls alone"
