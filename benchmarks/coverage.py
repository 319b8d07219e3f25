"""Coverage of each published interval, simulated through the project's own functions.

    python -m benchmarks.coverage [--sweeps 300]

A sweep has 24 trials of 12 models in two sizes; models differ by 40 % (standard deviation of the
log speedup), sizes of one by 10 %. A process adds its own deviation to the log ratio of all its
rounds; 12 rounds scatter by 0.6 %. `alone`: nothing is known of other trials; `pooled`: the trials
of the sweep learn from each other, and single replicates from ten anchors; `uneven`: the spread
itself varies between trials (standard deviation of its log 0.5). False discoveries: the share of
sweeps of equal speeds in which any difference is discovered.

`throughput` and `compare` are of levels, which nothing pairs: a process adds its own deviation, and
its rounds drift (first-order autoregression, standard deviation 1 %, correlation 0.9) beside their
scatter. `compare` measures every trial once more. Both with fewer than three replicates know
nothing of how processes differ: throughput has no interval, and `compare` is preliminary.

Prints the table of docs/measurement.md; takes some minutes of CPU.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from xla_sweeps.analysis.interval import (
    JUDGED_FROM,
    MIN_REPLICATES,
    UNKNOWN,
    Numbers,
    Prior,
    contrast,
    judge,
    over_replicates,
    variance_budget,
)
from xla_sweeps.analysis.overview import discoveries
from xla_sweeps.analysis.pool import Evidence, prior_of
from xla_sweeps.analysis.stats import Interval, signed_rank_interval

SPREADS = (0.0, 0.005, 0.01, 0.02)
REPLICATES = (1, 2, 3, 5)
MODELS, SIZES = 12, 2
ROUNDS, ROUND_NOISE, ANCHORS = 12, 0.006, 10
BETWEEN_MODELS, BETWEEN_SIZES = 0.4, 0.1
EXTRA_S, BASELINE_S = 10.0, 0.1
DRIFT, CORRELATION = 0.01, 0.9


def measured(
    source: np.random.Generator, truth: Numbers, replicates: int, spread: float, uneven: float
) -> tuple[Numbers, Numbers, Numbers]:
    """Log speedup, and the percent within and between replicates, of each trial."""
    shape = (len(truth), replicates)
    own = spread * np.exp(source.normal(0, uneven, (len(truth), 1)))
    levels = truth[:, None] + own * source.normal(0, 1, shape)
    rounds = levels[..., None] + source.normal(0, ROUND_NOISE, (*shape, ROUNDS))
    estimates = []
    for trial in rounds:
        within: list[Interval] = [signed_rank_interval(values) for values in trial]
        budget = variance_budget(within)
        estimate = float(np.mean([interval.estimate for interval in within]))
        estimates.append((estimate, budget["within_percent"], budget["between_percent"]))
    logs, inside, between = np.array(estimates, dtype=float).T
    return logs, inside, between


def learned(
    source: np.random.Generator, replicates: int, spread: float, within: Numbers, between: Numbers
) -> Prior:
    """The prior from these trials together; for single replicates from ten anchors instead."""
    if replicates == 1:
        _, within, between = measured(source, np.zeros(1), ANCHORS, spread, 0.0)
        replicates = ANCHORS
    return prior_of(
        [
            Evidence("", "", "", "graph", "xla", True, replicates, 1.0, float(inside), float(apart))
            for inside, apart in zip(within, between, strict=True)
        ]
    )


def held(low: Numbers, high: Numbers, truth: Numbers) -> float:
    """The share of intervals that contain the truth."""
    return float(np.mean((low <= truth) & (truth <= high)))


def simulate(
    replicates: int, spread: float, sweeps: int, *, uneven: float = 0.0
) -> dict[str, float]:
    """Coverage of each interval over many sweeps, half-widths, and false discoveries.

    Args:
        replicates: of each trial.
        spread: standard deviation of the log ratio between processes.
        sweeps: how many.
        uneven: standard deviation, over trials, of the log of the spread.
    """
    source = np.random.default_rng((replicates, round(1e4 * spread), round(10 * uneven)))
    shares: dict[str, list[float]] = {}
    for _ in range(sweeps):
        models = source.normal(0.5, BETWEEN_MODELS, (MODELS, 1))
        truth = (models + source.normal(0, BETWEEN_SIZES, (MODELS, SIZES))).ravel()
        logs, within, between = measured(source, truth, replicates, spread, uneven)
        pooled = learned(source, replicates, spread, within, between)
        for name, prior in (("alone", UNKNOWN), ("pooled", pooled)):
            count = len(logs)
            facts = {
                **dict.fromkeys(JUDGED_FROM, np.full(count, EXTRA_S)),
                "within_percent": within,
                "between_percent": between,
                "replicates": np.full(count, replicates),
                "baseline_call_ms": np.full(count, 1e3 * BASELINE_S),
            }
            others = {"priors": np.array([prior] * count), "floor": np.full(count, 0.01)}
            judgement = judge({**facts, "speedup": np.exp(logs)}, **others)
            equal = judge({**facts, "speedup": np.exp(logs - truth)}, **others)
            shares.setdefault(f"{name}, false", []).append(discoveries(equal["p_value"]) > 0)
            shares.setdefault(name, []).append(
                held(judgement["low"], judgement["high"], np.exp(truth))
            )
            width = float(np.mean(np.log(judgement["high"] / judgement["low"]))) / 2
            shares.setdefault(f"{name}, half-width", []).append(width)
        low, high = judgement["break_even_low"], judgement["break_even_high"]
        paid = ~np.isnan(low)
        calls = EXTRA_S / BASELINE_S / (1 - np.exp(-truth[paid]))
        shares.setdefault("break-even", []).append(held(low[paid], high[paid], calls))
    return {name: float(np.mean(values)) for name, values in shares.items()}


def levels(source: np.random.Generator, replicates: int, spread: float) -> list[list[Numbers]]:
    """Log seconds a call of the rounds of each replicate of each trial of a sweep."""
    shape = (MODELS * SIZES, replicates, ROUNDS)
    drift = np.empty(shape)
    drift[..., 0] = source.normal(0, DRIFT, shape[:2])
    for place in range(1, ROUNDS):
        fresh = source.normal(0, DRIFT * math.sqrt(1 - CORRELATION**2), shape[:2])
        drift[..., place] = CORRELATION * drift[..., place - 1] + fresh
    own = source.normal(0, 1, shape[:2])[..., None] * spread
    return [list(trial) for trial in own + drift + source.normal(0, ROUND_NOISE, shape)]


def simulate_levels(replicates: int, spread: float, sweeps: int) -> dict[str, float]:
    """Coverage of throughput and of `compare` over many sweeps, and its false discoveries.

    Args:
        replicates: of each trial, on each side.
        spread: standard deviation of the log time between processes.
        sweeps: how many.

    Returns:
        Shares; throughput's is NaN where it has no interval.
    """
    source = np.random.default_rng((replicates, round(1e4 * spread), 7))
    shares: dict[str, list[float]] = {"throughput": [], "compare": [], "compare, false": []}
    for _ in range(sweeps):
        sides = [levels(source, replicates, spread) for _ in range(2)]
        for trial in sides[0]:
            level = over_replicates(list(map(signed_rank_interval, trial)))
            bounded = level is not None and math.isfinite(level.low)
            holds = float(level is not None and level.low <= 0 <= level.high)
            shares["throughput"].append(holds if bounded else math.nan)
        contrasts = [
            contrast(first, second, floor=0.01) for first, second in zip(*sides, strict=True)
        ]
        changes = [change for change in contrasts if change is not None]
        shares["compare"] += [
            float(change.interval.low <= 0 <= change.interval.high) for change in changes
        ]
        p_values = np.array([change.p_value for change in changes if not change.preliminary])
        shares["compare, false"].append(float(p_values.size > 0 and discoveries(p_values) > 0))
    return {name: float(np.mean(values)) for name, values in shares.items()}


def percent(share: float) -> str:
    """A share as it is shown; a dash for NaN."""
    return "—" if math.isnan(share) else f"{100 * share:.1f} %"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sweeps", type=int, default=300, help="of each kind (default 300)")
    sweeps = parser.parse_args().sweeps
    names = ("alone", "pooled", "break-even")
    columns = (
        *(*names, "pooled, uneven", "false discoveries", "half-width alone, pooled"),
        *("throughput", "compare", "compare: false discoveries"),
    )
    print(f"| processes differ by | replicates | {' | '.join(columns)} |")
    print(f"|---|---|{'---|' * len(columns)}")
    for spread in SPREADS:
        for replicates in REPLICATES:
            shares = simulate(replicates, spread, sweeps)
            shares["uneven"] = simulate(replicates, spread, sweeps, uneven=0.5)["pooled"]
            shares |= simulate_levels(replicates, spread, sweeps)
            cells = [percent(shares[name]) for name in (*names, "uneven", "pooled, false")]
            widths = ", ".join(f"{100 * shares[f'{name}, half-width']:.2f}" for name in names[:2])
            cells += [f"{widths} %", percent(shares["throughput"])]
            several = replicates >= MIN_REPLICATES
            cells.append(
                percent(shares["compare"]) if several else f"({percent(shares['compare'])})"
            )
            cells.append(percent(shares["compare, false"] if several else math.nan))
            print(f"| {100 * spread:g} % | {replicates} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
