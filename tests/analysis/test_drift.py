"""Speedups that change over the rounds are no clear ones."""

from __future__ import annotations

import numpy as np
import pytest

from xla_sweeps.analysis import stats

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
