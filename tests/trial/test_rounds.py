"""Orders of rounds: balanced, and A/A on simulated machines, where simpler designs fail.

Both "modes" are the same; every difference found is false. Noise is log-normal per block, with what
real machines add: drift, a thermal ramp, an advantage of the first place in a round, and an offset
of each process.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from xla_sweeps.analysis import stats
from xla_sweeps.trial import rounds

TRIALS = 2000

NOISE = 0.004

Disturbance = Callable[[float, int], float]
"""Log slowdown at a time in [0, 1] and a place in the round (0: first)."""


def steady(when: float, place: int) -> float:
    return 0.0


def drift(when: float, place: int) -> float:
    return 0.03 * when


def ramp(when: float, place: int) -> float:
    return 0.05 * (1 - math.exp(-5 * when))


def slot(when: float, place: int) -> float:
    return 0.003 * place


def everything(when: float, place: int) -> float:
    return drift(when, place) + ramp(when, place) + slot(when, place)


def log_ratios(
    source: random.Random, disturbance: Disturbance, orders: Sequence[Sequence[str]]
) -> list[float]:
    """log(t_a / t_b) of each round when a and b run in these orders."""
    ratios = []
    for index, order in enumerate(orders):
        times = {}
        for place, label in enumerate(order):
            when = (2 * index + place) / (2 * len(orders))
            times[label] = disturbance(when, place) + source.gauss(0, NOISE)
        ratios.append(times["a"] - times["b"])
    return ratios


def our_design(source: random.Random, disturbance: Disturbance) -> bool:
    """True if the interval at whose width our design stops, after 12 or 20 rounds, misses zero."""
    orders: list[tuple[str, ...]] = []
    while len(orders) < 20:
        orders += rounds.williams_design(["a", "b"], source)
    state = source.getstate()
    for count in (12, 20):
        source.setstate(state)
        interval = stats.signed_rank_interval(log_ratios(source, disturbance, orders[:count]))
        if (interval.high - interval.low) / 2 <= 0.0025:
            break
    return not interval.low <= 0 <= interval.high


@pytest.mark.parametrize(
    "disturbance",
    [
        steady,
        everything,
        *(pytest.param(each, marks=pytest.mark.exhaustive) for each in (drift, ramp, slot)),
    ],
)
def test_our_design_finds_false_differences_in_at_most_six_percent(
    disturbance: Disturbance,
) -> None:
    source = random.Random(7)
    assert sum(our_design(source, disturbance) for _ in range(TRIALS)) <= 0.06 * TRIALS


def test_two_modes_run_as_abba_baab() -> None:
    seen = set()
    for seed in range(40):
        rows = rounds.williams_design(["a", "b"], random.Random(seed))
        word = "".join("".join(row) for row in rows * 2)
        assert any(word[phase : phase + 8] in ("abbabaab", "baababba") for phase in (0, 2, 4, 6))
        seen.add(tuple(rows))
    assert len(seen) == 4


@pytest.mark.parametrize("count", [3, 4, 5, 6])
def test_a_williams_design_of_more_modes_balances_positions_and_predecessors(count: int) -> None:
    labels = [f"m{index}" for index in range(count)]
    rows = rounds.williams_design(labels, random.Random(3))
    assert len(rows) == (count if count % 2 == 0 else 2 * count)
    assert all(sorted(row) == labels for row in rows)
    places = Counter((place, label) for row in rows for place, label in enumerate(row))
    followers = Counter(pair for row in rows for pair in itertools.pairwise(row))
    assert len(set(places.values())) == 1
    assert len(places) == count**2
    assert len(set(followers.values())) == 1
    assert len(followers) == count * (count - 1)
