"""Estimates and intervals against enumeration, scipy, and simulated data."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_sweeps.analysis import stats

finite = st.floats(-100, 100, allow_nan=False).map(lambda value: round(value, 6))


def test_the_estimate_is_the_median_of_the_walsh_averages() -> None:
    interval = stats.signed_rank_interval([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    averages = sorted(
        (a + b) / 2 for a, b in itertools.combinations_with_replacement([1, 2, 4, 8, 16, 32], 2)
    )
    assert interval.estimate == averages[10] == 8.5
    assert (interval.low, interval.high) == (1.0, 32.0)


def test_under_six_differences_there_is_an_estimate_and_no_interval() -> None:
    interval = stats.signed_rank_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert interval.estimate == 3.0
    assert (interval.low, interval.high) == (-math.inf, math.inf)


@pytest.mark.parametrize("bad", [[], [1.0, math.nan], [math.inf] * 8])
def test_differences_must_be_finite_and_not_empty(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        stats.signed_rank_interval(bad)


@settings(max_examples=8, deadline=None)
@given(st.lists(finite, min_size=6, max_size=14, unique=True))
def test_the_interval_is_the_set_of_shifts_that_wilcoxons_test_does_not_reject(
    values: list[float],
) -> None:
    interval = stats.signed_rank_interval(values)
    averages = np.sort([(a + b) / 2 for a, b in itertools.combinations_with_replacement(values, 2)])
    gaps = np.diff(averages)
    for index in np.flatnonzero(gaps > 1e-5):
        shift = float(averages[index] + gaps[index] / 2)
        shifted = np.asarray(values) - shift
        if len(set(np.abs(shifted))) < len(values):
            continue
        accepted = scipy.stats.wilcoxon(shifted, method="exact").pvalue > 0.05
        assert (interval.low < shift < interval.high) == accepted


def test_drawn_pairs_of_many_values_give_nearly_the_interval_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.random.default_rng(1).normal(0.3, 1.0, size=2001)
    drawn = stats.signed_rank_interval(values)
    monkeypatch.setattr(stats, "MAX_PAIRED", 3000)
    every = stats.signed_rank_interval(values)
    width = every.high - every.low
    for name in ("estimate", "low", "high"):
        assert abs(getattr(drawn, name) - getattr(every, name)) < width / 20


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("count", [20, 40, 200])
def test_the_error_of_a_quantile_is_that_of_repeated_samples(share: float, count: int) -> None:
    source = np.random.default_rng(count)
    drawn = [stats.log_quantile(np.exp(source.normal(0, 0.1, count)), share) for _ in range(800)]
    spread = np.std([value for value, _ in drawn])
    typical = np.sqrt(np.mean([error**2 for _, error in drawn]))
    assert 0.8 * spread < typical < 1.5 * spread


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_calls_of_one_round_that_resemble_each_other_widen_the_error_of_a_quantile(
    share: float,
) -> None:
    """12 rounds of 4 calls; a round's own level is twice what its calls scatter by."""
    source = np.random.default_rng(3)
    drawn = [
        np.exp((source.normal(0, 0.2, (12, 1)) + source.normal(0, 0.1, (12, 4))).ravel())
        for _ in range(800)
    ]
    alone, grouped = (
        [stats.log_quantile(calls, share, group=group) for calls in drawn] for group in (1, 4)
    )
    spread = np.std([value for value, _ in alone])
    typical = [np.sqrt(np.mean([error**2 for _, error in kind])) for kind in (alone, grouped)]
    assert typical[0] < 0.8 * spread
    assert 0.85 * spread < typical[1] < 1.5 * spread


@given(st.lists(finite, min_size=2, max_size=30))
def test_the_trend_is_scipys_theil_sen_slope(values: list[float]) -> None:
    slope = float(np.median(stats._slopes(values)))
    assert slope == pytest.approx(scipy.stats.theilslopes(values)[0], abs=1e-9)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0] * 10, [1.0] * 10, True),
        ([1.0] * 10, [1.004] * 10, True),
        ([1.02] * 10, [1.0] * 10, False),
        (
            [1.0 + 0.002 * index for index in range(10)],
            [1.02 + 0.002 * index for index in range(10)],
            False,
        ),
        ([1.0] * 9 + [5.0], [1.0] * 10, True),
        ([0.0] * 10, [0.0] * 10, False),
    ],
)
def test_windows_are_stationary_when_neither_median_nor_trend_moves(
    first: list[float], second: list[float], expected: bool
) -> None:
    assert stats.stationary(first, second) is expected


@pytest.mark.parametrize("count", [20, 50, 51, 200])
def test_the_interval_of_a_trend_is_that_of_scipy_where_its_normal_approximation_is_good(
    count: int,
) -> None:
    values = np.exp(np.random.default_rng(1).normal(0, 0.05, count)) + 0.01 * np.arange(count)
    expected = scipy.stats.theilslopes(values, alpha=0.95)
    interval = stats.trend_interval(list(values))
    scale = count / np.median(values)
    assert (interval.estimate, interval.low, interval.high) == pytest.approx(
        (scale * expected.slope, scale * expected.low_slope, scale * expected.high_slope), rel=0.05
    )


def test_the_interval_of_a_trend_is_exact_for_few_values() -> None:
    assert stats.trend_interval([1.0, 2.0, 3.0, 4.0]).low == -math.inf
    few = stats.trend_interval([1.0, 1.1, 1.3, 1.2, 1.4])
    assert (few.low, few.high) == pytest.approx((5 / 1.2 * -0.1, 5 / 1.2 * 0.2))


RNG = np.random.default_rng(0)


def noisy(log_ratios: np.ndarray) -> np.ndarray:
    return np.asarray(log_ratios + RNG.normal(scale=0.02, size=log_ratios.shape))


@pytest.mark.parametrize("rounds", [12, 20, 60, 3000])
def test_a_ratio_that_changes_from_one_to_many_says_nothing_clear(rounds: int) -> None:
    slowing = noisy(-np.linspace(0, np.log(32), rounds))
    assert stats.drifts(slowing)
    interval = stats.ratio_interval(slowing)
    assert interval.low < np.log(1 / 8)
    assert interval.high > np.log(1 / 4)
    assert stats.ratio_interval(-slowing).low < np.log(4)


def test_a_step_from_slow_to_equal_includes_both() -> None:
    interval = stats.ratio_interval(noisy(np.repeat([-3.0, 0.0], [7, 5])))
    assert interval.low < -2.9
    assert interval.high > -0.05


def test_steady_ratios_have_the_usual_interval_however_noisy() -> None:
    changing = 0
    for _ in range(2000):
        steady = RNG.normal(scale=0.2, size=12)
        changing += stats.drifts(steady)
        assert stats.drifts(steady) or stats.ratio_interval(steady) == stats.signed_rank_interval(
            steady
        )
    assert changing < 20, "below 1 %"


def test_a_small_change_is_no_drift() -> None:
    assert not stats.drifts(noisy(np.linspace(0, 0.08, 40)))
    assert not stats.drifts(np.array([0.0, -3.0]))
    assert not stats.drifts([])


def test_a_sudden_change_is_found_and_noise_is_none() -> None:
    source = np.random.default_rng(1)
    noise = np.exp(source.normal(0, 0.3, (300, 12)))
    shifted = [stats.shifts(one, by=0.1, chance=0.0075) for one in noise]
    assert sum(shifted) <= 0.02 * len(shifted)
    noise[:, 7:] /= 4
    shifted = [stats.shifts(one, by=0.1, chance=0.0075) for one in noise]
    assert sum(shifted) >= 0.9 * len(shifted)
    assert not stats.shifts([1.0, 2.0, 1.0, 2.0], by=0.1, chance=0.02)
