"""Streams of calls on a device that queues them: blocks without the bias of filling the queue."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from timed_devices import EFFORT

from xla_sweeps.schema.measurement import ModeOutcome, Status
from xla_sweeps.trial import pacing, protocol
from xla_sweeps.trial.pacing import plan_blocks
from xla_sweeps.worker import timing

PAIRS = 60
STREAM = 100
BLOCKS = 4


Seconds = npt.NDArray[np.float64]

ALIKE = 0.95
"""Correlation of the logs of neighbouring kernels' times."""

DEPTH = 1024
"""Kernels that CUDA's launch queue holds."""


class LaunchQueue:
    """A network whose calls launch one kernel after the other; satisfies `timing.Executable`.

    Args:
        launch_s: seconds of the host to launch each kernel.
        kernel_s: seconds of the device for each, shape like `launch_s`.
        noise: standard deviation of a call's time on the device, relative.
        seed: of the noise.
    """

    factors: Iterator[float]

    def __init__(
        self, launch_s: Seconds, kernel_s: Seconds, *, noise: float = 0.0, seed: int = 0
    ) -> None:
        self.position = 0
        self.launch_s, self._kernel_s, self.noise = launch_s, kernel_s, noise
        self._rng = np.random.default_rng(seed)
        self._ends = np.zeros(DEPTH)
        self._now_s = 0.0

    def clock(self) -> int:
        return round(self._now_s * 1e9)

    def prepare(self) -> None: ...

    def step(self) -> None:
        """Launch a call's kernels; wait for room where the queue is full."""
        factor = 1 + self.noise * self._rng.standard_normal()
        for start in range(0, len(self.launch_s), DEPTH):
            launch_s = self.launch_s[start : start + DEPTH]
            kernel_s = self._kernel_s[start : start + DEPTH] * factor
            count = len(launch_s)
            spent = np.cumsum(launch_s)
            room = np.maximum.accumulate(self._ends[:count] - (spent - launch_s))
            launched = spent + np.maximum(self._now_s, room)
            worked = np.cumsum(kernel_s)
            waited = np.maximum.accumulate(launched - (worked - kernel_s))
            ends = worked + np.maximum(self._ends[-1], waited)
            self._ends = np.concatenate([self._ends[count:], ends])
            self._now_s = float(launched[-1])

    def synchronize(self) -> None:
        self._now_s = max(self._now_s, float(self._ends[-1]))


def network(rng: np.random.Generator, *, noise: float = 0.0) -> LaunchQueue:
    """A network of 60 to 700 kernels, which the host launches in 0.1 to 1.3 of their time.

    Neighbours are alike, as in real networks, so the host falls behind in some stages.
    """
    count = int(rng.integers(60, 700))
    sizes = np.empty(count)
    sizes[0] = rng.standard_normal()
    for place, step in enumerate(rng.standard_normal(count - 1), start=1):
        sizes[place] = ALIKE * sizes[place - 1] + math.sqrt(1 - ALIKE**2) * step
    kernel_s = np.exp(1.2 * sizes)
    kernel_s *= 10 ** rng.uniform(-2.3, -1.2) / kernel_s.sum()
    launch_s = rng.lognormal(0, 0.5, count)
    launch_s *= rng.uniform(0.1, 1.3) * kernel_s.sum() / launch_s.sum()
    return LaunchQueue(launch_s, kernel_s, noise=noise, seed=int(rng.integers(2**31)))


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
