"""How often `guard` finds a change, and how often one that is not there, in simulated guards.

    python -m benchmarks.guard [--guards 2000] [--levels] [--dependent] [--pairs A.json B.json]

The pairs are drawn; all else is the package's own rule (`analysis/guard.py`). The second process of
a pair is always 1 % slower. Prints the tables of benchmarks/results/guard.md; takes two minutes of
CPU. `--levels` prints the levels of the looks instead, from a million guards. `--pairs` draws the
pairs from real ones, of guards between equal sides (`xla-sweeps guard --format json`).
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np

from xla_sweeps.analysis import guard
from xla_sweeps.analysis.guard import LEVELS, LOOK, MAX_PAIRS, Change, Pair
from xla_sweeps.analysis.interval import Numbers
from xla_sweeps.analysis.stats import special
from xla_sweeps.schema.columns import Verdict

SPREADS = (0.005, 0.01, 0.02, 0.03, 0.05)
"""Standard deviations of one process's log level; that of a pair's ratio is 1.4 times as large."""

ORDER = 0.01

ORDERS = [place % 2 == 0 for place in range(MAX_PAIRS)]

MODES = ("graph", "xla")


def drawn(source: np.random.Generator, shape: tuple[int, ...], spread: float) -> Numbers:
    """The log ratios of pairs in alternating order, whose sides are equal."""
    noise = source.normal(0, math.sqrt(2) * spread, (*shape, MAX_PAIRS))
    return noise + np.where(ORDERS, ORDER, -ORDER)


def dependent(source: np.random.Generator, guards: int, spread: float, kind: str) -> Numbers:
    """The log ratios of pairs that resemble their neighbours; one scatters by `spread`.

    `alike`: neighbours correlate by 0.7. `slow states`: the machine is slow or fast for seven pairs
    at a time, which is 0.8 of the variance.
    """
    noise = source.normal(0, 1, (guards, MAX_PAIRS))
    if kind == "slow states":
        switches = source.random(noise.shape) < 1 / 7
        switches[:, 0] = source.random(guards) < 0.5
        states = 1 - 2 * (np.cumsum(switches, axis=1) % 2)
        return spread * (math.sqrt(0.8) * states + math.sqrt(0.2) * noise)
    for place in range(1, MAX_PAIRS):
        noise[:, place] = 0.7 * noise[:, place - 1] + math.sqrt(0.51) * noise[:, place]
    return spread * noise


def print_dependent(guards: int) -> None:
    """Print how often guards of one mode are wrong, and find 3 %, where pairs are no samples."""
    print("| pairs | one scatters by | equal: false alarms | 3 %: found | with 8 pairs |")
    print("|---|---|---|---|---|")
    for kind in ("independent", "alike", "slow states"):
        for spread in (0.01, 0.02, 0.03, 0.06):
            cells = []
            for looks in (len(LEVELS), 2):
                source = np.random.default_rng((looks, round(1e4 * spread), len(kind)))
                ratios = (
                    source.normal(0, spread, (guards, MAX_PAIRS))
                    if kind == "independent"
                    else dependent(source, guards, spread, kind)
                )
                for change, wanted in ((0.0, "wrong"), (0.03, "found")):
                    moved = ratios + math.log1p(change)
                    ended = [guarded(one[None], looks=looks, detect=0.03)[0] for one in moved]
                    counted = (Verdict.SLOWER, Verdict.FASTER)[: 1 + (wanted == "wrong")]
                    cells.append(np.mean([each.verdict in counted for each in ended]))
            wrong, found, wrong_8, found_8 = (f"{100 * share:.0f} %" for share in cells)
            print(
                f"| {kind} | {spread:.0%} | {wrong} | {found} | {wrong_8}, {found_8} |", flush=True
            )


def real(paths: list[Path]) -> dict[bool, Numbers]:
    """The log ratios of guards' real pairs by order, before first or not; shape (pairs, modes)."""
    pairs = [pair for path in paths for pair in json.loads(path.read_text())["pairs"]]
    return {
        order: np.array(
            [
                [pair["log_ratios"][mode] for mode in MODES]
                for pair in pairs
                if pair["before_first"] == order
            ]
        )
        for order in (True, False)
    }


def redrawn(source: np.random.Generator, guards: int, pairs: dict[bool, Numbers]) -> Numbers:
    """Guards of real pairs, alternating, no pair twice in one; shape (guards, modes, pairs)."""
    halves = [
        np.stack([source.permutation(pairs[order])[: MAX_PAIRS // 2] for _ in range(guards)])
        for order in (ORDERS[0], ORDERS[1])
    ]
    return np.stack(halves, axis=2).reshape(guards, MAX_PAIRS, len(MODES)).swapaxes(1, 2)


def guarded(ratios: Numbers, *, looks: int, detect: float) -> list[Change]:
    """The changes at the look that ends a guard.

    Args:
        ratios: log ratios, shape (modes, pairs).
        looks: as planned.
        detect: the smallest relative difference that matters.
    """
    changes: list[Change] = []
    for count in range(LOOK, LOOK * looks + 1, LOOK):
        pairs = [
            Pair(order, dict(zip(MODES, each, strict=False)))
            for order, each in zip(ORDERS, ratios.T[:count].tolist(), strict=False)
        ]
        judged = MODES[: len(ratios)]
        changes = [
            guard.judge(pairs, mode, looks=looks, modes=len(judged), detect=detect)
            for mode in judged
        ]
        if guard.is_settled(changes):
            break
    return changes


def row(spread: float, looks: int, guards: int, pairs: dict[bool, Numbers] | None = None) -> str:
    """A line of the table: guards of equal sides, of 2 % and of 5 % in both modes.

    With real `pairs`, they are drawn among them instead, and multiplied by the change.
    """
    source = np.random.default_rng((looks, round(1e4 * spread)))
    cells = [f"{100 * spread:.2g} %", str(LOOK * looks)]
    for change, detect in ((0.0, 0.02), (0.02, 0.02), (0.05, 0.05)):
        equal = (
            redrawn(source, guards, pairs) if pairs else drawn(source, (guards, len(MODES)), spread)
        )
        ended = [guarded(one, looks=looks, detect=detect) for one in equal + math.log1p(change)]
        wrong = (Verdict.SLOWER, Verdict.FASTER) if not change else (Verdict.SLOWER,)
        named = [any(each.verdict in wrong for each in changes) for changes in ended]
        taken = np.mean([changes[0].pairs for changes in ended])
        cells += [f"{100 * np.mean(named):.1f} %", f"{taken:.1f}"]
    return f"| {' | '.join(cells)} |"


def simpler(spread: float, guards: int) -> str:
    """A line on simpler gates, between equal sides: how often each finds a difference."""
    source = np.random.default_rng(round(1e4 * spread))
    ratios = drawn(source, (guards,), spread)
    always = source.normal(ORDER, math.sqrt(2) * spread, (guards, 8))
    single = np.abs(np.expm1(source.normal(0, math.sqrt(2) * spread, guards))) > 0.05
    sessions = source.normal(0, 0.01, (guards, 2, 1)) + source.normal(0, spread, (guards, 2, 5))
    shares = [
        single.mean(),
        (_p(always) < 0.05).mean(),
        (_welch(sessions[:, 0], sessions[:, 1]) < 0.05).mean(),
        np.any([_p(ratios[:, :count]) < 0.05 for count in range(3, MAX_PAIRS + 1)], axis=0).mean(),
    ]
    return f"| {100 * spread:g} % | {' | '.join(f'{100 * share:.0f} %' for share in shares)} |"


def _p(ratios: Numbers) -> Numbers:
    """The p-value of a plain t-test of each row."""
    error = ratios.std(axis=-1, ddof=1) / math.sqrt(ratios.shape[-1])
    p_value: Numbers = 2 * special().stdtr(ratios.shape[-1] - 1, -np.abs(ratios.mean(-1)) / error)
    return p_value


def _welch(first: Numbers, second: Numbers) -> Numbers:
    """The p-value of a t-test between rows of the same length."""
    count = first.shape[-1]
    error = np.sqrt((first.var(-1, ddof=1) + second.var(-1, ddof=1)) / count)
    middle = np.abs(first.mean(-1) - second.mean(-1))
    p_value: Numbers = 2 * special().stdtr(2 * count - 2, -middle / error)
    return p_value


def print_levels() -> None:
    """Print the level at which so many looks find a difference in 5 %, for one mode and for two."""
    source = np.random.default_rng(0)
    smallest = []
    for _ in range(10):
        ratios = drawn(source, (100_000,), 0.01)
        p_values = []
        for count in range(LOOK, MAX_PAIRS + 1, LOOK):
            middle, error, freedom, _ = guard.fit(ratios[:, :count], ORDERS[:count])
            p_values.append(2 * special().stdtr(freedom, -np.abs(middle) / error))
        smallest.append(np.minimum.accumulate(p_values, axis=0))
    least = np.concatenate(smallest, axis=1)
    for modes in (1, 2, 4):
        levels = [modes * np.quantile(one, 0.05 / modes) for one in least]
        print(modes, " ".join(f"{level:.4f}" for level in levels))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--guards", type=int, default=2000, help="of each kind (default 2000)")
    parser.add_argument("--levels", action="store_true", help="print the levels of the looks")
    parser.add_argument("--dependent", action="store_true", help="pairs that depend on each other")
    parser.add_argument("--pairs", nargs="+", type=Path, help="reports of guards on equal sides")
    options = parser.parse_args()
    if options.pairs:
        pairs = real(options.pairs)
        both = np.concatenate(list(pairs.values()))
        for mode, ratios in zip(MODES, both.T, strict=True):
            beyond = [
                f"{np.mean(np.abs(ratios) > bound):.0%} beyond {bound:.0%}"
                for bound in (0.02, 0.05)
            ]
            print(f"{mode}: {len(ratios)} pairs, a ratio scatters {ratios.std():.1%}; {beyond}")
        for looks in (2, 4, len(LEVELS)):
            print(row(both.std() / math.sqrt(2), looks, options.guards, pairs), flush=True)
        return
    if options.dependent:
        print_dependent(options.guards)
        return
    if options.levels:
        print_levels()
        return
    heads = ("equal: false alarms", "pairs", "2 %: found", "pairs", "5 %: found", "pairs")
    print(f"| processes differ by | at most | {' | '.join(heads)} |")
    print(f"|---|---|{'---|' * len(heads)}")
    for looks in (2, 4, len(LEVELS)):
        for spread in SPREADS:
            print(row(spread, looks, options.guards), flush=True)
    print(
        "\n| processes differ by | one run a side, 5 % | always before first, 8 pairs, t |", end=""
    )
    print(" two sessions that differ by 1 %, 5 runs a side, t | a look after every pair, t |")
    print("|---|---|---|---|---|")
    for spread in SPREADS:
        print(simpler(spread, 20_000))


if __name__ == "__main__":
    main()
