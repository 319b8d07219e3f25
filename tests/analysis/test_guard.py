"""The rule of `guard`: its verdicts, and how often it is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.guard import dependent, drawn, guarded
from xla_sweeps.analysis.guard import LEVELS, LOOK, MAX_PAIRS, Pair, fit, judge, looks_within
from xla_sweeps.schema.columns import Verdict


def pairs_of(*percent: float, order: float = 0.0) -> list[Pair]:
    """Pairs in alternating order of one mode, each slower by so many percent."""
    return [
        Pair(place % 2 == 0, {"graph": math.log1p(one / 100) + (-1) ** place * order})
        for place, one in enumerate(percent)
    ]


@pytest.mark.parametrize(
    ("percent", "verdict"),
    [
        ((8, 8.5, 7.5, 8), Verdict.SLOWER),
        ((-8, -8.5, -7.5, -8), Verdict.FASTER),
        ((0.1, -0.1, 0.2, 0), Verdict.EQUIVALENT),
        ((2, 2.1, 1.9, 2), Verdict.EQUIVALENT),
        ((20, -15, 9, -7), Verdict.AMBIGUOUS),
    ],
)
def test_a_verdict_needs_an_interval_of_one_sign_or_within_what_matters(
    percent: tuple[float, ...], verdict: Verdict
) -> None:
    change = judge(pairs_of(*percent), "graph", looks=1, modes=1, detect=0.05)
    assert change.verdict is verdict
    assert change.low < change.change < change.high
    assert (change.pairs, change.confidence) == (4, 0.95)


def test_an_effect_of_the_order_is_no_change_and_widens_no_interval() -> None:
    plain = judge(pairs_of(8, 8.5, 7.5, 8), "graph", looks=6, modes=2, detect=0.05)
    moved = judge(pairs_of(8, 8.5, 7.5, 8, order=0.3), "graph", looks=6, modes=2, detect=0.05)
    assert moved.change == pytest.approx(plain.change)
    assert moved.missed == pytest.approx(plain.missed)


def test_more_looks_and_more_modes_cost_confidence() -> None:
    pairs = pairs_of(1, 2, 3, 4)
    widths = [
        judge(pairs, "graph", looks=looks, modes=modes, detect=0.05).missed
        for looks, modes in ((1, 1), (2, 1), (6, 1), (6, 2))
    ]
    assert widths == sorted(widths)


def test_a_pair_that_lacks_a_mode_does_not_count_for_it() -> None:
    pairs = [*pairs_of(8, 8.5, 7.5, 8), Pair(True, {"xla": 0.0})]
    assert judge(pairs, "graph", looks=2, modes=2, detect=0.05).pairs == 4


def test_pairs_that_agree_exactly_have_an_interval() -> None:
    change = judge(pairs_of(8, 8, 8, 8), "graph", looks=1, modes=1, detect=0.05)
    assert change.verdict is Verdict.SLOWER


def test_the_budget_gives_whole_looks() -> None:
    looks = [looks_within(pairs) for pairs in (-1, 3.9, 4, 11.5, 24, 1000)]
    assert looks == [0, 0, 1, 2, 6, len(LEVELS)]


def test_orders_that_are_not_balanced_are_told_from_the_change() -> None:
    before_first = [True, True, True, False]
    ratios = np.array([[0.05 + (0.02 if first else -0.02) for first in before_first]])
    assert fit(ratios, before_first)[0] == pytest.approx([0.05])


@pytest.mark.parametrize(
    "looks", [*(pytest.param(n, marks=pytest.mark.exhaustive) for n in (1, 3)), len(LEVELS)]
)
def test_equal_sides_differ_in_at_most_five_percent_of_guards(looks: int) -> None:
    source = np.random.default_rng(looks)
    ratios = drawn(source, (400, 2), 0.03)
    ended = [guarded(one, looks=looks, detect=0.001) for one in ratios]
    alarms = [
        any(each.verdict in (Verdict.SLOWER, Verdict.FASTER) for each in changes)
        for changes in ended
    ]
    assert sum(alarms) <= 0.05 * len(alarms) + 2.5 * math.sqrt(0.05 * len(alarms))
    assert all(changes[0].pairs <= LOOK * looks for changes in ended)


@pytest.mark.parametrize(("kind", "most"), [("alike", 0.08), ("slow states", 0.1)])
def test_pairs_that_resemble_their_neighbours_raise_few_false_alarms(
    kind: str, most: float
) -> None:
    """Half of such guards raised one by an earlier rule; 6 % see one slow state but for a pair."""
    source = np.random.default_rng(1)
    ratios = dependent(source, 300, 0.06, kind)
    ended = [guarded(one[None], looks=len(LEVELS), detect=0.03)[0].verdict for one in ratios]
    assert sum(each is not Verdict.AMBIGUOUS for each in ended) <= most * len(ended)


def test_a_change_is_found_in_pairs_that_do_not() -> None:
    source = np.random.default_rng(1)
    ratios = source.normal(math.log(1.03), 0.015, (200, MAX_PAIRS))
    ended = [guarded(one[None], looks=len(LEVELS), detect=0.03)[0].verdict for one in ratios]
    assert ended.count(Verdict.SLOWER) >= 0.95 * len(ended)


def test_a_change_is_named_if_it_explains_pairs_better_than_a_machine_in_two_states() -> None:
    noise = np.resize([1, -0.4, -1.2, 0.8, 0.2, -0.6, 0.3], MAX_PAIRS)
    steady, disturbed = 4 + noise, 4 + noise
    disturbed[10:13] -= 8
    spiked = steady.copy()
    spiked[10] = -10
    clear, open_, far_off = (
        judge(pairs_of(*one, order=0.3), "graph", looks=len(LEVELS), modes=1, detect=0.03)
        for one in (steady, disturbed, spiked)
    )
    assert clear.verdict is Verdict.SLOWER
    assert open_.verdict is Verdict.AMBIGUOUS
    assert open_.low == 0 < open_.change < open_.high
    assert far_off.verdict is Verdict.SLOWER


def test_before_the_last_look_only_a_large_change_is_named() -> None:
    pairs = pairs_of(8, 8.5, 7.5, 8)
    verdicts = [
        judge(pairs, "graph", looks=looks, modes=1, detect=detect).verdict
        for looks, detect in ((1, 0.05), (6, 0.05), (6, 0.02))
    ]
    assert verdicts == [Verdict.SLOWER, Verdict.AMBIGUOUS, Verdict.SLOWER]
