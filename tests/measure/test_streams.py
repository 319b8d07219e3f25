"""Streams of calls on a device that queues them: blocks without the bias of filling the queue."""

from __future__ import annotations

import numpy as np
import pytest
from launch_queues import LaunchQueue, network

from xla_sweeps.measure import timing

PAIRS = 120
STREAM = 100
BLOCKS = 4


def block_s(device: LaunchQueue, calls: int) -> float:
    block = timing.settled_block(device, "xla", calls, settle=True, clock=device.clock)
    return block.elapsed_ns / 1e9


def planned(device: LaunchQueue) -> tuple[timing.Pace, int]:
    """The pace of a network, and the calls of its blocks."""
    block_s(device, 1)
    pace = timing.pace_of(device, call_s=block_s(device, 3) / 3, clock=device.clock)
    calls = timing.calls_per_block(pace.call_s, sync_s=4e-5, block_s=0.03, fill_s=pace.fill_s)
    return pace, calls


def steady_s(device: LaunchQueue) -> float:
    """Seconds of a call in a stream that never ends."""
    return (block_s(device, 2 * STREAM) - block_s(device, STREAM)) / STREAM


def errors(*, fixed: bool) -> tuple[list[float], float]:
    """Relative errors of the ratios of pairs of networks, and seconds of a trial's 12 rounds."""
    rng, ratios, seconds = np.random.default_rng(7), list[float](), list[float]()
    for _ in range(PAIRS):
        timed, true = list[float](), list[float]()
        for _ in range(2):
            device = network(rng, noise=0.003)
            if fixed:
                pace, calls = planned(device)
            else:  # the rule before: equal times, nothing subtracted
                pace = timing.Pace(call_s=block_s(device, 1), fill_s=0.0)
                calls = timing.calls_per_block(pace.call_s, sync_s=4e-5, block_s=0.03)
            blocks = [block_s(device, calls) for _ in range(BLOCKS)]
            seconds.append(12 / BLOCKS * sum(blocks))
            timed.append((float(np.median(blocks)) - pace.fill_s) / calls)
            device.noise = 0.0
            true.append(steady_s(device))
        ratios.append(abs(timed[0] / timed[1] / (true[0] / true[1]) - 1))
    return sorted(ratios), 2 * float(np.mean(seconds))


def test_a_ratio_is_that_of_long_streams() -> None:
    biases, seconds = errors(fixed=True)
    assert biases[round(0.9 * PAIRS)] < 0.005
    assert biases[-1] < 0.01
    assert seconds < 20


def test_blocks_of_equal_length_alone_would_be_biased() -> None:
    biases, _ = errors(fixed=False)
    assert biases[round(0.9 * PAIRS)] > 0.05


def test_the_pace_is_told_from_blocks_of_one_call_and_of_several() -> None:
    device = LaunchQueue(np.full(100, 1e-5), np.full(100, 1e-4))
    pace, calls = planned(device)
    assert pace.call_s == pytest.approx(0.01)
    assert pace.fill_s == pytest.approx(1e-5)
    assert calls == 3, "a block of one call would be a latency"


def test_a_block_is_no_longer_than_it_may_be_to_hide_the_filling_of_the_queue() -> None:
    pace = timing.Pace(call_s=0.3, fill_s=0.1)
    calls = timing.calls_per_block(pace.call_s, sync_s=0.0, block_s=0.03, fill_s=pace.fill_s)
    assert calls == 6
    assert timing.is_too_short(pace, calls)
    assert not timing.is_too_short(timing.Pace(call_s=0.3, fill_s=0.001), 3)
