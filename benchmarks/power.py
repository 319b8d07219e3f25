"""The share of true gains that are called `faster`, simulated through the project's own functions.

    python -m benchmarks.power [--sweeps 100]

The sweeps are those of `benchmarks.simulated_sweeps`, and their trials learn from each other;
every trial has the same true gain. Prints a table of benchmarks/results/coverage.md; takes a minute
of CPU.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from benchmarks.simulated_sweeps import counts, moved, prior, ratios, world_of
from xla_sweeps.analysis.interval import judge
from xla_sweeps.schema.columns import Verdict

SPREADS = (0.005, 0.01)
REPLICATES = (1, 3, 5)
FLOORS = (0.01, 0.02)
GAINS = (0.0, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.1)


def power(replicates: int, spread: float, gain: float, floor: float, sweeps: int) -> float:
    """The share of trials that are called `faster`.

    Args:
        replicates: of each trial.
        spread: standard deviation of the log ratio between processes.
        gain: of the candidate, relative: 0.02 is 2 %.
        floor: the smallest relative difference that counts.
        sweeps: how many sweeps.
    """
    source = np.random.default_rng((replicates, round(1e4 * spread)))
    faster = trials = 0
    for _ in range(sweeps):
        figures = [
            moved(one, math.log1p(gain))
            for one in ratios(world_of(source, "even", spread), counts(replicates))
        ]
        judgement = judge(figures, [prior(figures)] * len(figures), np.full(len(figures), floor))
        faster += judgement["verdict"].count(Verdict.FASTER)
        trials += len(figures)
    return faster / trials


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sweeps", type=int, default=100, help="of each kind (default 100)")
    sweeps = parser.parse_args().sweeps
    cases = [(replicates, floor) for floor in FLOORS for replicates in REPLICATES]
    heads = [f"floor {100 * floor:g} %, {replicates}" for replicates, floor in cases]
    print(f"| processes differ by | true gain | {' | '.join(heads)} |")
    print(f"|---|---|{'---|' * len(cases)}")
    for spread in SPREADS:
        for gain in GAINS:
            shares = [power(count, spread, gain, floor, sweeps) for count, floor in cases]
            cells = " | ".join(f"{100 * share:.0f} %" for share in shares)
            print(f"| {100 * spread:g} % | {100 * gain:g} % | {cells} |", flush=True)


if __name__ == "__main__":
    main()
