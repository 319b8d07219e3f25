"""A fake device that runs kernels in order from a launch queue, as a GPU does."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

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
