"""Coverage of the published intervals, simulated through the project's own functions.

    python -m benchmarks.coverage [--sweeps 100] [--only speedup]   # or first, others, trust

The sweeps and their worlds (`even`, `uneven`, `heavy`) are those of `benchmarks.simulated_sweeps`.

One replicate: every fourth trial of the sweep is measured twice, as sweeps at `quick` do, and the
others learn from these. `first`: nothing is known, the sweep has this trial alone.

`first`: the first trial of a device, on a GPU whose host or device sets the pace, and on a CPU. A
host-bound mode is in a slow or a fast state for some rounds, so a process sees few of them.

`compare` measures the sweep on another day; both days have four anchors,
each measured as often as a trial.

`trust`: sweeps of some A/A pairs, whose copies are equal or really differ.

Prints the tables of benchmarks/results/coverage.md; takes some minutes of CPU.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.simulated_sweeps import (
    ANCHORS,
    CASES,
    FLAT,
    REPLICATES,
    ROUND_NOISE,
    SPREADS,
    TRIALS,
    Case,
    World,
    counts,
    discoveries,
    figure,
    latencies,
    levels,
    moved,
    prior,
    priors,
    ratios,
    single,
    world_of,
)
from xla_sweeps.analysis import stats
from xla_sweeps.analysis.interval import (
    Bounds,
    Numbers,
    break_even,
    contrast,
    difference_of,
    errors_of,
    judge,
    reach_of,
)
from xla_sweeps.analysis.pool import MIN_FLOOR, NOTHING
from xla_sweeps.analysis.trust import NOMINAL, UNTRUSTED_BELOW
from xla_sweeps.schema.row import Figure


def bounds_of(figures: Sequence[Figure], truth: float = 0.0) -> Bounds:
    """The figures with their intervals, beside a truth."""
    reach = reach_of(*errors_of(figures, priors(figures)))
    logs = truth + np.array([one.mean for one in figures])
    return Bounds(np.exp(logs), np.exp(logs - reach), np.exp(logs + reach))


def holds(bounds: Bounds, truth: float) -> Numbers:
    """1 for each interval that contains the truth, else 0."""
    return ((bounds.low <= truth) & (truth <= bounds.high)).astype(float)


def simulate_speedups(kind: str, replicates: int, spread: float, sweeps: int) -> dict[str, float]:
    """Coverage over all trials and over the noisiest tenth, half-width, false discoveries."""
    source = np.random.default_rng((replicates, round(1e4 * spread), len(kind)))
    shares: dict[str, list[float]] = {}
    for _ in range(sweeps):
        world = world_of(source, kind, spread)
        figures = ratios(world, counts(replicates))
        judged = judge(figures, priors(figures), np.full(TRIALS, 0.01))
        inside = (judged["low"] <= 1) & (judged["high"] >= 1)
        alone = judge(figures, list(map(NOTHING.prior, figures)), np.full(TRIALS, 0.01))
        for name, value in {
            "all": inside.mean(),
            "noisiest": inside[world.noisiest].mean(),
            "first": ((alone["low"] <= 1) & (alone["high"] >= 1)).mean(),
            "half": float(np.median(np.log(judged["high"] / judged["low"]))) / 2,
            "false": float(discoveries(judged["p_value"]) > 0),
        }.items():
            shares.setdefault(name, []).append(float(value))
    return {name: float(np.mean(values)) for name, values in shares.items()}


def simulate_others(
    kind: str, replicates: int, spread: float, compile_cv: float, day: float, sweeps: int
) -> dict[str, float]:
    """Coverage of every other figure, and the false discoveries of `compare`."""
    source = np.random.default_rng((replicates, round(1e4 * spread), len(kind), round(1e3 * day)))
    times = counts(replicates)
    shares: dict[str, list[float]] = {}

    def add(name: str, values: Any) -> None:
        shares.setdefault(name, []).append(float(np.mean(values)))

    for _ in range(sweeps):
        world = world_of(source, kind, spread)
        call = levels(world, times, source)
        add("throughput", holds(bounds_of(call), 1.0))
        for name, share in (("latency_p50", 0.5), ("latency_p90", 0.9)):
            add(name, holds(bounds_of(latencies(world, times, source, share, name)), 1.0))
        add("memory", holds(bounds_of(single(world, times, "memory", 0.0)), 1.0))
        add("input_share", holds(bounds_of(ratios(world, times)), 1.0))
        prepare = [
            bounds_of(single(world, times, "prepare", compile_cv), math.log(seconds))
            for seconds in (1.0, 11.0)
        ]
        extra = difference_of(*prepare)
        add("compile", holds(prepare[1], 11.0))
        add("extra", holds(extra, 10.0))
        gain = bounds_of(ratios(world, times), math.log(1.5))
        paid = break_even(extra, bounds_of(call, math.log(0.1)), gain)
        truth = 10.0 / (0.1 * (1 - 1 / 1.5))
        ends = Bounds(*(paid[f"break_even_{end}"] for end in ("calls", "low", "high")))
        add("break-even", holds(ends, truth))
        compared = compare(world, call, times, source, day)
        add("compare", [one.interval.low <= 0 <= one.interval.high for one in compared])
        add("compare, false", discoveries(np.array([one.p_value for one in compared])) > 0)
    return {name: float(np.mean(values)) for name, values in shares.items()}


def compare(
    world: World, first: list[Figure], times: Sequence[int], source: np.random.Generator, day: float
) -> list[Any]:
    """The changes of the sweep's levels to another day, less that of the anchors."""
    shift = source.normal(0, day) if day else 0.0
    second = [moved(one, shift) for one in levels(world, times, source)]
    plain = World(np.full(TRIALS, world.spreads.min()), np.full(TRIALS, ROUND_NOISE), world.draw)
    anchors = [levels(plain, [ANCHORS * min(times)], source)[0] for _ in range(2)]
    priors = [prior(first), prior(second)]
    change = contrast((anchors[0], priors[0]), (moved(anchors[1], shift), priors[0]), floor=0.0)
    machine = (change.interval.estimate, change.error, change.freedom)
    return [
        contrast((a, priors[0]), (b, priors[1]), floor=0.01, shift=machine)
        for a, b in zip(first, second, strict=True)
    ]


def percent(share: float) -> str:
    """A share as it is shown."""
    return f"{100 * share:.0f}"


def print_speedups(sweeps: int) -> None:
    """The table of the speedup's interval."""
    print(
        "| processes differ by | replicates | trials | coverage | first trial | noisiest tenth | "
        "half-width | false discoveries |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for kind in ("even", "uneven", "heavy"):
        for replicates in REPLICATES:
            each = [simulate_speedups(kind, replicates, spread, sweeps) for spread in SPREADS]
            names = ("all", "first", "noisiest", "half", "false")
            cells = [
                " / ".join(
                    f"{100 * one[name]:.1f}" if name == "half" else percent(one[name])
                    for one in each
                )
                for name in names
            ]
            print(
                f"| {' / '.join(f'{100 * spread:g}' for spread in SPREADS)} % | {replicates} | "
                f"{kind} | {' | '.join(cells)} |",
                flush=True,
            )


def simulate_first(case: Case, replicates: int, trials: int) -> dict[str, tuple[float, float]]:
    """Coverage and half-width of first trials, by the built-in prior and by the flat one."""
    source = np.random.default_rng((replicates, round(1e4 * case.processes)))
    figures = [
        figure("speedup", case.drawn(source, replicates), on_gpu=case.on_gpu) for _ in range(trials)
    ]
    made = {}
    unknown = list(map(NOTHING.prior, figures))
    for name, assumed in (("now", unknown), ("flat", [FLAT] * trials)):
        reach = reach_of(*errors_of(figures, assumed))
        inside = np.abs([one.mean for one in figures]) <= reach
        made[name] = (float(inside.mean()), float(np.median(reach)))
    return made


def print_first(sweeps: int) -> None:
    """The table of first trials: coverage and half-width, by a flat prior and now."""
    print("| first trial | processes, rounds differ by | 1 replicate | 2 | 3 |")
    print("|---|---|---|---|---|")
    for case in CASES:
        cells = []
        for replicates in REPLICATES[:3]:
            made = simulate_first(case, replicates, 20 * sweeps)
            flat, now = (
                f"{percent(made[name][0])} ({100 * made[name][1]:.1f})" for name in ("flat", "now")
            )
            cells.append(f"{flat} → {now}")
        spreads = f"{100 * case.processes:g}, {100 * case.rounds:g} %"
        print(f"| {case.name} | {spreads} | {' | '.join(cells)} |", flush=True)


def print_others(sweeps: int) -> None:
    """The table of the other figures."""
    names = (
        "throughput",
        "latency_p50",
        "latency_p90",
        "memory",
        "input_share",
        "compile",
        "extra",
        "break-even",
        "compare",
        "compare, false",
    )
    print(f"| trials | replicates | compile varies by | days by | {' | '.join(names)} |")
    print(f"|---|---|---|---|{'---|' * len(names)}")
    for kind in ("even", "uneven", "heavy"):
        for replicates in REPLICATES:
            for cv, day in ((0.0, 0.0), (0.05, 0.01), (0.15, 0.02)):
                each = [
                    simulate_others(kind, replicates, spread, cv, day, sweeps) for spread in SPREADS
                ]
                cells = [" / ".join(percent(one[name]) for one in each) for name in names]
                print(
                    f"| {kind} | {replicates} | {100 * cv:g} % | {100 * day:g} % | "
                    f"{' | '.join(cells)} |",
                    flush=True,
                )


def untrusted(kind: str, replicates: int, pairs: int, apart: float, sweeps: int) -> float:
    """The share of sweeps whose intervals are not trusted, by as many A/A pairs."""
    source = np.random.default_rng((replicates, pairs, round(1e4 * apart), len(kind)))
    judged = 0
    for _ in range(sweeps):
        worlds = [world_of(source, kind, 0.005) for _ in range(-(-pairs // TRIALS))]
        figures = [one for world in worlds for one in ratios(world, counts(replicates))][:pairs]
        reach = reach_of(*errors_of(figures, priors(figures)))
        middles = np.array([one.mean for one in figures]) + apart
        wrong = int((np.abs(middles) - reach > math.log1p(MIN_FLOOR)).sum())
        judged += wrong > 0 and stats.special().bdtrc(wrong - 1, pairs, NOMINAL) < UNTRUSTED_BELOW
    return judged / sweeps


def print_trust(sweeps: int) -> None:
    """The table of untrusted sweeps: processes differ by 0.5 %."""
    numbers, differ = (8, 15, 20, 40), (0.0, 0.02, 0.03)
    print(f"| trials | replicates | {' | '.join(f'{number} pairs' for number in numbers)} |")
    print(f"|---|---|{'---|' * len(numbers)}")
    for kind in ("even", "uneven", "heavy"):
        for replicates in (1, 3):
            cells = [
                " / ".join(
                    percent(untrusted(kind, replicates, number, apart, sweeps)) for apart in differ
                )
                for number in numbers
            ]
            print(f"| {kind} | {replicates} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the tables."""
    tables = {
        "speedup": print_speedups,
        "first": print_first,
        "others": print_others,
        "trust": print_trust,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sweeps", type=int, default=100, help="of each kind (default 100)")
    parser.add_argument("--only", choices=tuple(tables), help="one table")
    options = parser.parse_args()
    for name, print_table in tables.items():
        if options.only in (None, name):
            print_table(options.sweeps)


if __name__ == "__main__":
    main()
