"""How much a pair's ratio says while other load is planted beside it: coverage and width.

    python -m benchmarks.loaded [--trials 20]

Modes take turns in blocks of 30 ms, ten rounds a trial, as in a `quick` trial on a busy machine.
Busy loops run beside them: none, 1, 2, 4, or two that come and go in bursts. The true ratio of a
mode and the same work done 1.03 or 5 times is known; that of different work (two threads against
one, memory against arithmetic) is the ratio of the fastest tenths of all blocks without planted
load. Each trial's ratio is taken from all rounds, from its clean rounds, and from all rounds
weighted by their load. Prints Markdown; takes three minutes.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.interval import (
    Numbers,
    built_in,
    error_within,
    errors_of,
    figure_of,
    reach_of,
)
from xla_sweeps.system.devices import usable_cores
from xla_sweeps.trial.monitor import allowed_cores, machine_times

BLOCK_S = 0.03
ROUNDS = 10
LOADS = ("none", "1", "2", "4", "bursts")
PAIRS = {
    "the same, 3 % more": ("one thread", "1.03 times", 1.03),
    "the same, 5 times": ("one thread", "5 times", 5.0),
    "memory": ("one thread", "memory", None),
    "two threads": ("one thread", "two threads", None),
}
"""Baseline, candidate, and the seconds of the candidate over those of the baseline if known."""

PARTS = (0.0, 0.1, 0.2, 0.3, 0.4)
"""Standard deviations of the log that load adds to a ratio, to be tried."""


class Trial(NamedTuple):
    """Seconds a call by mode, and other processes' cores; a value a round."""

    call_s: dict[str, Numbers]
    foreign: Numbers


def works() -> dict[str, Callable[[], object]]:
    """The modes."""
    small, large = np.ones(4096, dtype=np.float32), np.ones(2**22, dtype=np.float32)
    target, matrix = np.empty_like(large), np.ones((384, 384), dtype=np.float32)

    def times(count: int) -> Callable[[], object]:
        return lambda: [np.sqrt(small, out=small) for _ in range(count)]

    return {
        "one thread": times(100),
        "1.03 times": times(103),
        "5 times": times(500),
        "memory": lambda: np.copyto(target, large),
        "two threads": lambda: matrix @ matrix,
    }


def burn(bursts: bool, seed: int) -> None:
    """Use a core, for ever or in bursts of 0.2 to 1.5 s."""
    source = random.Random(seed)
    while True:
        until = time.monotonic() + source.uniform(0.2, 1.5)
        while time.monotonic() < until or not bursts:
            sum(range(1000))
        time.sleep(source.uniform(0.2, 1.5))


@contextmanager
def beside(load: str) -> Iterator[None]:
    """Other load for a while."""
    count = {"none": 0, "bursts": 2}.get(load) if not load.isdigit() else int(load)
    loops = [
        multiprocessing.Process(target=burn, args=(load == "bursts", seed), daemon=True)
        for seed in range(count or 0)
    ]
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            loop.terminate()
            loop.join()


def measure(calls: dict[str, int], run: dict[str, Callable[[], object]]) -> Trial:
    """One trial: rounds of all modes in a random order."""
    call_s: dict[str, list[float]] = {name: [] for name in run}
    foreign, mine, stat = [], os.sched_getaffinity(0), Path("/proc/stat")
    for _ in range(ROUNDS):
        begun = time.monotonic(), machine_times(stat.read_text(), mine)[0], time.process_time()
        for name in random.sample(list(run), len(run)):
            run[name]()
            started = time.perf_counter()
            for _ in range(calls[name]):
                run[name]()
            call_s[name].append((time.perf_counter() - started) / calls[name])
        wall = time.monotonic() - begun[0]
        busy = machine_times(stat.read_text(), mine)[0] - begun[1]
        foreign.append(max(0.0, busy - (time.process_time() - begun[2])) / wall)
    return Trial({name: np.array(each) for name, each in call_s.items()}, np.array(foreign))


def estimates(trial: Trial, pair: tuple[str, str]) -> dict[str, tuple[float, float]]:
    """Log ratio and its standard error from the rounds, by way; clean rounds where enough."""
    logs = np.log(trial.call_s[pair[1]] / trial.call_s[pair[0]])
    clean = logs[trial.foreign <= allowed_cores(usable_cores())]
    weights = 1 / (1 + trial.foreign) ** 2
    weights /= weights.sum()
    mean = float(weights @ logs)
    found = {"weighted": (mean, math.sqrt(float(weights**2 @ (logs - mean) ** 2)))}
    for way, chosen in (("all", logs), ("clean", clean)):
        if len(chosen) >= stats.MIN_PAIRS:
            interval = stats.signed_rank_interval(chosen)
            found[way] = interval.estimate, error_within(interval)
    return found


def line(trials: Sequence[Trial], name: str, truth: float, way: str) -> str:
    """One row of the table: error of the ratio; coverage and reach for each part of load."""
    pair = PAIRS[name][:2]
    every = [estimates(trial, pair).get(way) for trial in trials]
    kept = [each for each in every if each is not None]
    if not kept:
        return f"| 0 of {len(trials)} | | {'| ' * len(PARTS)}|"
    figures = [figure_of("speedup", pair, [value], [error]) for value, error in kept]
    error, freedom = errors_of(figures, [built_in("speedup")] * len(figures))
    off = np.array([value for value, _ in kept]) - math.log(truth)
    cells = []
    for part in PARTS:
        reach = reach_of(np.hypot(error, part), freedom)
        factor = math.exp(float(np.median(reach)))
        cells.append(f"{np.mean(np.abs(off) <= reach):.0%}, {factor:.2f}×")
    spread = f"{off.mean():+.2f} ± {off.std():.2f}"
    return f"| {len(kept)} of {len(trials)} | {spread} | {' | '.join(cells)} |"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=20, help="of each load (default 20)")
    count, run = parser.parse_args().trials, works()
    fastest = dict.fromkeys(run, math.inf)
    for _ in range(50):
        for name, step in run.items():
            started = time.perf_counter()
            step()
            fastest[name] = min(fastest[name], time.perf_counter() - started)
    calls = {name: max(1, round(BLOCK_S / seconds)) for name, seconds in fastest.items()}
    measured: dict[str, list[Trial]] = {}
    for load in LOADS:
        with beside(load):
            measured[load] = [measure(calls, run) for _ in range(count)]
    quick = {
        name: float(
            np.quantile(np.concatenate([one.call_s[name] for one in measured["none"]]), 0.1)
        )
        for name in run
    }
    print(f"{usable_cores()} cores, {count} trials of {ROUNDS} rounds for each load\n")
    heads = " | ".join(f"part {part:g}" for part in PARTS)
    print(f"| load | pair | ratio from | trials | log error | {heads} |")
    print(f"|---|---|---|---|---|{'---|' * len(PARTS)}")
    for load, trials in measured.items():
        for name, (first, second, known) in PAIRS.items():
            truth = known or quick[second] / quick[first]
            for way in ("all", "clean", "weighted"):
                print(f"| {load} | {name} | {way} {line(trials, name, truth, way)}")


if __name__ == "__main__":
    main()
