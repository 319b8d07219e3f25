"""The one rule for intervals: Student's t over processes, with what other trials say of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import coverage
from benchmarks.simulated_sweeps import CASES, Case
from xla_sweeps.analysis.interval import (
    BUILT_IN,
    FREEDOM,
    MOST_TO_SETTLE,
    Bounds,
    Prior,
    break_even,
    built_in,
    contrast,
    decide,
    difference_of,
    error_within,
    figure_of,
    interval_of,
    judge,
)
from xla_sweeps.analysis.stats import signed_rank_interval
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.row import Figure

PAIR = ("graph", "xla")


def figure(*values: float, error: float = 0.0) -> Figure:
    return figure_of("speedup", PAIR, values, [error] * len(values))


def half_width(one: Figure, prior: Prior) -> float:
    interval = interval_of(one, prior)
    return (interval.high - interval.low) / 2


def test_a_single_replicate_has_the_interval_of_what_is_assumed_of_processes() -> None:
    reach = half_width(figure(0.3, error=0.01), Prior(0.02**2))
    expected = scipy.stats.t(FREEDOM).ppf(0.975) * math.hypot(0.02, 0.01)
    assert reach == pytest.approx(expected)


def test_own_replicates_outweigh_what_is_assumed() -> None:
    """Both are weighted by their degrees of freedom."""
    values = (0.0, 0.1, 0.2)
    reach = half_width(figure(*values), Prior(0.02**2))
    variance = (2 * 0.02**2 + 2 * 0.1**2) / 4
    assert reach == pytest.approx(scipy.stats.t(4).ppf(0.975) * math.sqrt(variance / 3))


def test_processes_are_expected_to_differ_by_a_share_of_what_one_of_their_rounds_does() -> None:
    """The number of rounds makes their own error smaller, and not what processes differ by."""
    for count in (12, 48):
        one = figure_of("speedup", PAIR, [0.0], [0.2 / math.sqrt(count)], [count])
        variance = 0.004**2 + 0.25 * 0.2**2 + 0.2**2 / count
        assert half_width(one, Prior(0.004**2, 0.25)) == pytest.approx(
            scipy.stats.t(2).ppf(0.975) * math.sqrt(variance)
        )


def test_a_spike_is_not_taken_for_rounds_that_scatter() -> None:
    rounds = [*np.random.default_rng(0).normal(0, 0.003, 11), 0.5]
    within = signed_rank_interval(rounds)
    one = figure_of("speedup", PAIR, [within.estimate], [error_within(within)], [12])
    assert one.scatter < 0.01**2
    assert np.std(rounds) > 0.1


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.processes}")
@pytest.mark.parametrize("replicates", [1, 2, 3])
def test_the_interval_of_a_first_trial_holds_on_a_gpu_too(case: Case, replicates: int) -> None:
    held, reach = coverage.simulate_first(case, replicates, 300)["now"]
    assert held >= 0.9
    if case.name == "GPU, device-bound":
        assert reach < {1: 0.025, 2: 0.0125, 3: 0.0075}[replicates]


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_figure_has_an_interval_from_one_replicate_on(name: str) -> None:
    widths = []
    for on_gpu in (False, True):
        interval = interval_of(figure_of(name, ("graph",), [0.5]), built_in(name, on_gpu=on_gpu))
        assert interval.low < 0.5 < interval.high
        widths.append(interval.high - interval.low)
    assert widths[1] <= widths[0], "never wider on a GPU, as long as rounds say nothing"


def test_contrasts_of_like_sides_have_welchs_interval() -> None:
    """A prior that says what the sides say themselves counts as two more processes, once."""
    first, second = figure(0.0, 0.01, 0.02), figure(0.1, 0.11, 0.12)
    prior = Prior(0.01**2)
    result = contrast((first, prior), (second, prior), floor=0.01)
    error = 0.01 * math.sqrt(2 / 3)
    reach = scipy.stats.t(6).ppf(0.975) * error
    assert [result.interval.low, result.interval.high] == pytest.approx([0.1 - reach, 0.1 + reach])
    assert result.p_value == pytest.approx(
        2 * scipy.stats.t(6).sf((0.1 - math.log(1.01)) / error), rel=1e-6
    )


def test_what_both_sides_differ_by_anyway_is_subtracted_with_its_error() -> None:
    sides = [(figure(level, level + 0.001), Prior(1e-6)) for level in (0.0, 0.1)]
    plain = contrast(*sides, floor=0.01)
    shifted = contrast(*sides, floor=0.01, shift=(0.1, 0.02, 5.0))
    assert plain.interval.estimate == pytest.approx(0.1)
    assert shifted.interval.estimate == pytest.approx(0.0, abs=1e-12)
    assert shifted.error == pytest.approx(math.hypot(plain.error, 0.02))
    assert shifted.freedom == pytest.approx(5, rel=0.1)
    assert shifted.p_value == 1.0


@given(st.floats(-0.2, 0.2), st.floats(0.001, 0.1), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_the_p_value_is_below_5_percent_exactly_where_the_verdict_is_a_difference(
    mean: float, spread: float, replicates: int
) -> None:
    one = figure(*(mean + spread * (place % 2) for place in range(replicates)), error=spread)
    judged = judge([one], [Prior(spread**2)], np.array([0.01]))
    differs = judged["verdict"][0] in (Verdict.FASTER, Verdict.SLOWER)
    assert differs == (judged["p_value"][0] < 0.05)


def test_a_difference_needs_the_whole_interval_past_the_floor_and_equivalence_the_narrower() -> (
    None
):
    def verdict(middle: float, error: float) -> Verdict:
        figures = (np.array([one]) for one in (middle, error, 4.0, 0.01))
        (word,) = decide(*figures)["verdict"]
        return Verdict(word)

    assert verdict(0.1, 0.01) is Verdict.FASTER
    assert verdict(-0.1, 0.01) is Verdict.SLOWER
    assert verdict(0.0, 0.001) is Verdict.EQUIVALENT
    assert verdict(0.0, 0.01) is Verdict.AMBIGUOUS


def bounds(value: float, low: float, high: float) -> Bounds:
    return Bounds(np.array([value]), np.array([low]), np.array([high]))


def test_the_difference_of_two_normal_estimates_has_their_usual_interval() -> None:
    result = difference_of(bounds(1.0, 0.7, 1.3), bounds(5.0, 4.6, 5.4))
    assert [float(part[0]) for part in result] == pytest.approx([4.0, 3.5, 4.5])


def test_break_even_divides_extra_time_by_what_a_call_gains() -> None:
    paid = break_even(bounds(10, 9, 11), bounds(0.1, 0.1, 0.1), bounds(2, 2, 2))
    assert [float(calls[0]) for calls in paid.values()] == pytest.approx([200, 180, 220])
    wider = break_even(bounds(10, 9, 11), bounds(0.1, 0.09, 0.11), bounds(2, 1.8, 2.2))
    low, high = (float(wider[f"break_even_{end}"][0]) for end in ("low", "high"))
    assert low < 180 < 220 < high
    ends = [10 / 0.11 / (1 - 1 / 2.2) * 0.9, 10 / 0.09 / (1 - 1 / 1.8) * 1.1]
    assert ends[0] < low < high < ends[1], "narrower than all ends together"


def test_extra_time_that_may_be_none_pays_back_at_once_at_best() -> None:
    maybe = break_even(bounds(1, -1, 3), bounds(0.1, 0.1, 0.1), bounds(2, 2, 2))
    assert float(maybe["break_even_low"][0]) == 0.0
    assert float(maybe["break_even_high"][0]) == pytest.approx(60)
    less = break_even(bounds(-1, -2, 0.5), bounds(0.1, 0.1, 0.1), bounds(2, 2, 2))
    assert [float(calls[0]) for calls in less.values()] == pytest.approx([0, 0, 10])


@pytest.mark.parametrize(
    ("value", "error", "replicates", "verdict"),
    [
        (0.03, 0.02, 1, Verdict.FASTER),
        (-0.04, 0.02, 3, Verdict.SLOWER),
        (0.002, 0.02, 2, Verdict.EQUIVALENT),
    ],
)
def test_so_many_more_replicates_of_the_same_kind_would_settle_a_verdict(
    value: float, error: float, replicates: int, verdict: Verdict
) -> None:
    def after(count: int) -> dict[str, object]:
        one = Figure(
            name="speedup", labels=PAIR, replicates=count, mean=value, within=0, between=error**2
        )
        return judge([one], [Prior(error**2)], np.array([0.01]))

    judgement = after(replicates)
    assert judgement["verdict"] == [Verdict.AMBIGUOUS]
    more = int(np.asarray(judgement["replicates_to_settle"])[0])
    assert after(replicates + more)["verdict"] == [verdict]
    assert after(replicates + more - 1)["verdict"] == [Verdict.AMBIGUOUS]
    assert np.isnan(np.asarray(after(replicates + more)["replicates_to_settle"])).all()


def test_at_the_edge_of_the_floor_more_than_a_hundred_replicates_are_needed() -> None:
    judgement = judge([figure(math.log(1.01))], [Prior(0.02**2)], np.array([0.01]))
    assert judgement["replicates_to_settle"] == [MOST_TO_SETTLE + 1]


def test_a_difference_beyond_the_farther_end_of_the_90_percent_interval_is_excluded() -> None:
    judgement = judge([figure(0.02), figure(-0.02)], [Prior(0.03**2)] * 2, np.array([0.01, 0.01]))
    assert judgement["excluded_above"][0] == pytest.approx(judgement["high_90"][0] - 1)
    assert judgement["excluded_above"][1] == pytest.approx(1 / judgement["low_90"][1] - 1)
