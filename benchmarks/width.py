"""Width and coverage of the intervals of speedups, sweep by sweep, through the project's own rule.

    python -m benchmarks.width [--sweeps 60]

Trials have 12 rounds of 0.6 %, processes differ by 0, 0.5, 1 or 2 %, the truth is 1 and the floor
1 %. With one replicate every fourth trial of a sweep has two, and the others learn from these. The
kinds:

- `even`: all trials are alike.
- `uneven`: a fifth of the trials have six times both, rounds and processes.
- `states`: the same, and rounds are slow or fast for seven rounds at a time.
- `alone`: such a trial is the first that is measured.

Prints the table of benchmarks/results/width.md, with fixed seeds, in ten minutes of CPU.
"""

from __future__ import annotations

import argparse

import numpy as np
from msgspec.structs import replace

from benchmarks.simulated_sweeps import DUPLICATES, ROUND_NOISE, SPREADS, Case, discoveries, figure
from xla_sweeps.analysis.interval import errors_of, judge, reach_of
from xla_sweeps.analysis.pool import NOTHING, Pool, prior_of
from xla_sweeps.schema.row import Figure

FACTOR = 6.0
"""Factor by which a noisy trial scatters more; a fifth of an uneven sweep are such."""

ALONE = 400
"""Trials alone, for each sweep of the others' number."""


def trial_of(
    source: np.random.Generator, spread: float, replicates: int, *, noisy: bool, states: bool
) -> Figure:
    """A trial whose truth is 0."""
    factor = FACTOR if noisy else 1.0
    case = Case(name="", processes=factor * spread, rounds=factor * ROUND_NOISE, states=states)
    return replace(figure("speedup", case.drawn(source, replicates)), on_gpu=False)


def simulate(
    kind: str, trials: int, replicates: int, spread: float, sweeps: int
) -> tuple[float, float, float, float]:
    """Coverage, of the noisy trials too, median half-width, sweeps with a false discovery; in %."""
    source = np.random.default_rng((trials, replicates, round(1e4 * spread), len(kind)))
    covered, noisiest, half, false = list[float](), list[float](), list[float](), list[bool]()
    for _ in range(sweeps):
        noisy = np.zeros(trials, dtype=bool)
        if kind != "even":
            noisy[source.permutation(trials)[: max(1, trials // 5)]] = True
        figures = [
            trial_of(
                source,
                spread,
                max(replicates, 1 + (replicates == 1 and trials > 1 and place % DUPLICATES == 0)),
                noisy=bool(noisy[place]),
                states=kind == "states",
            )
            for place in range(trials)
        ]
        several = [one for one in figures if one.replicates > 1] if trials > 1 else []
        pool = Pool({}, {"speedup": prior_of(several)}) if several else NOTHING
        priors = list(map(pool.prior, figures))
        reach = reach_of(*errors_of(figures, priors))
        inside = np.abs([one.mean for one in figures]) <= reach
        covered.append(inside.mean())
        noisiest += [inside[noisy].mean()] if noisy.any() else []
        half.append(float(np.median(reach)))
        judged = judge(figures, priors, np.full(trials, 0.01))
        false.append(discoveries(judged["p_value"]) > 0)
    shares = [np.mean(covered), np.mean(noisiest or covered), np.mean(half), np.mean(false)]
    return tuple(100 * float(share) for share in shares)  # type: ignore[return-value]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sweeps", type=int, default=60, help="of 20 trials each (default 60)")
    options = parser.parse_args()
    print("| kind | trials | replicates | coverage | noisy ones | half-width | false discoveries |")
    print("|---|---|---|---|---|---|---|")
    cases = [(kind, 20, count) for kind in ("even", "uneven", "states") for count in (1, 2, 3)]
    cases += [("even", 100, 1), ("uneven", 100, 1), ("alone", 1, 1), ("alone", 1, 2)]
    for kind, trials, replicates in cases:
        sweeps = ALONE * options.sweeps // 60 if trials == 1 else options.sweeps * 20 // trials
        each = [simulate(kind, trials, replicates, spread, sweeps) for spread in SPREADS]
        columns = zip(*each, strict=True)
        cells = [
            " / ".join(f"{value:.{digits}f}" for value in column)
            for column, digits in zip(columns, (0, 0, 2, 0), strict=True)
        ]
        print(f"| {kind} | {trials} | {replicates} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
