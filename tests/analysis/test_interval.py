"""Differences between replicates of two sides: coverage, power, false discoveries."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.estimates import Seconds
from xla_sweeps.analysis.interval import contrast
from xla_sweeps.schema.columns import Verdict

NOISE, BETWEEN = 0.004, 0.005
"""Standard deviations of the log time of a block, and of what a process adds to all its blocks."""

TRIALS = 1500


def test_three_processes_give_welchs_interval() -> None:
    first, second = [[0.0, 0.01, 0.02], [0.1, 0.11, 0.15, 0.12]]
    result = contrast(
        [np.full(8, value) for value in first], [np.full(8, value) for value in second], floor=0.01
    )
    assert result is not None
    expected = scipy.stats.ttest_ind(second, first, equal_var=False).confidence_interval()
    assert [result.interval.low, result.interval.high] == pytest.approx(
        [expected.low, expected.high]
    )


def processes(source: np.random.Generator, count: int, change: float = 0.0) -> list[Seconds]:
    """Log estimates of replicates, each with a random offset of its own."""
    return [change + source.normal(0, BETWEEN) + source.normal(0, NOISE, 20) for _ in range(count)]


def verdicts(count: int, change: float) -> tuple[dict[Verdict, float], float]:
    """The share of each verdict and the coverage at this true change of log throughput."""
    source = np.random.default_rng(5)
    given_: dict[Verdict, int] = dict.fromkeys(Verdict, 0)
    covered = 0
    for _ in range(TRIALS):
        result = contrast(processes(source, count), processes(source, count, change), floor=0.01)
        assert result is not None
        given_[result.verdict] += 1
        covered += result.interval.low <= change <= result.interval.high
    return {verdict: number / TRIALS for verdict, number in given_.items()}, covered / TRIALS


def test_three_processes_keep_their_error_rate_and_detect_five_percent() -> None:
    same, covered = verdicts(3, 0.0)
    assert same[Verdict.FASTER] + same[Verdict.SLOWER] <= 0.005
    assert covered >= 0.935
    at_floor, _ = verdicts(3, math.log1p(0.01))
    assert at_floor[Verdict.FASTER] <= 0.035
    assert at_floor[Verdict.EQUIVALENT] <= 0.06
    slower, _ = verdicts(3, math.log(0.95))
    assert slower[Verdict.SLOWER] >= 0.95
    assert slower[Verdict.EQUIVALENT] == 0


def test_one_replicate_a_side_says_nothing_of_how_replicates_differ() -> None:
    same, covered = verdicts(1, 0.0)
    assert covered < 0.8
    assert 0.02 < same[Verdict.FASTER] + same[Verdict.SLOWER] < 0.15
    slower, _ = verdicts(1, math.log(0.95))
    assert slower[Verdict.SLOWER] >= 0.9


def test_among_a_hundred_unchanged_trials_false_discoveries_are_rare() -> None:
    source = np.random.default_rng(11)
    discoveries = 0
    for _ in range(40):
        results = [
            contrast(processes(source, 3), processes(source, 3), floor=0.01) for _ in range(100)
        ]
        q_values = stats.q_values([result.p_value for result in results if result])
        discoveries += min(q_values) < 0.05
    assert discoveries / 40 <= 0.05
