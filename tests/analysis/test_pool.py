"""Knowledge that trials share: the spread between processes, and the A/A floor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks import coverage, simulated_sweeps, width
from benchmarks.power import power
from xla_sweeps.analysis.interval import FREEDOM, built_in, figure_of
from xla_sweeps.analysis.pool import (
    ACROSS,
    LATEST,
    MIN_AA_PAIRS,
    MIN_FLOOR,
    NOTHING,
    Evidence,
    Pool,
    pool_of,
    prior_of,
)
from xla_sweeps.schema.row import Figure

WITHIN = 0.002
"""Standard error within a process."""

PAIR, TWINS = ("graph", "xla"), ("graph", "graph_2")

DAILY = (("heavy", 1), ("uneven", 3))
"""Kinds of processes, and replicates, whose coverage is simulated with each change."""


def figure(replicates: int, between: float, *, within: float = WITHIN, **more: Any) -> Figure:
    """A figure with these standard deviations between processes and within one."""
    fields: dict[str, Any] = {"name": "speedup", "labels": PAIR, "mean": 0.0, **more}
    return Figure(replicates=replicates, within=within**2, between=between**2, **fields)


def evidence(trial: str, *figures: Figure, host: str = "h", at: int = 0) -> Evidence:
    return Evidence(trial, f"{at:06d}", host, figures)


@pytest.mark.parametrize(
    ("kind", "replicates"),
    [
        pytest.param(kind, count, marks=() if (kind, count) in DAILY else pytest.mark.exhaustive)
        for kind in ("even", "uneven", "heavy")
        for count in simulated_sweeps.REPLICATES
    ],
)
def test_intervals_hold_the_truth_whatever_processes_differ_by(kind: str, replicates: int) -> None:
    for spread in simulated_sweeps.SPREADS:
        shares = coverage.simulate_speedups(kind, replicates, spread, 25)
        assert shares["all"] >= 0.93, (spread, shares)
        assert shares["false"] <= (0.08 if kind == "uneven" else 0.05), (spread, shares)
        if replicates >= 3:
            assert shares["noisiest"] >= 0.85, (spread, shares)


def test_every_other_figure_holds_its_truth_too() -> None:
    shares = coverage.simulate_others("even", 2, 0.01, 0.15, 0.02, 15)
    false = shares.pop("compare, false")
    assert all(share >= 0.93 for share in shares.values()), shares
    assert false <= 0.07


def test_large_gains_are_found_and_none_where_there_is_none() -> None:
    """Three replicates that differ by 0.5 %, floor 1 %."""
    assert power(3, 0.005, 0.05, 0.01, sweeps=10) >= 0.95
    assert power(1, 0.005, 0.10, 0.01, sweeps=10) >= 0.95
    for replicates in (1, 3):
        assert power(replicates, 0.005, 0.0, 0.01, sweeps=10) <= 0.01


def test_the_built_in_spread_counts_like_a_trial_of_two_degrees_of_freedom() -> None:
    own = prior_of([figure(3, 0.03, within=0.0)]).between
    assumed = built_in("speedup").between
    assert own == pytest.approx((2 * 0.03**2 + FREEDOM * assumed) / (2 + FREEDOM), rel=1e-3)
    many = prior_of([figure(5, 0.03) for _ in range(50)])
    assert many.between == pytest.approx(0.03**2 - WITHIN**2, rel=0.02)


def test_a_few_noisy_trials_do_not_widen_the_intervals_of_all_others() -> None:
    alike = prior_of([figure(4, 0.01) for _ in range(20)])
    some = prior_of([figure(4, 0.01 if place % 5 else 0.06) for place in range(20)])
    typical, mean = 0.01**2, (0.8 * 0.01**2 + 0.2 * 0.06**2)
    assert alike.scale == pytest.approx(1, abs=0.25)
    assert typical < some.scale * (some.between + WITHIN**2) < mean


def test_trials_whose_processes_agree_exactly_do_not_make_others_look_quiet() -> None:
    steps = [
        figure(3, 0.04 * (place % 2), within=0.0, name="memory", scatter=0.0) for place in range(20)
    ]
    assert prior_of(steps).scale == 1
    assert prior_of(steps).between == pytest.approx(0.04**2 / 2, rel=0.1)


def test_processes_are_expected_to_differ_more_where_rounds_do_if_they_did() -> None:
    scattered = [
        figure(3, 0.4 * scatter, within=scatter / 4, scatter=scatter**2)
        for scatter in (0.01, 0.02, 0.05, 0.2) * 5
    ]
    alike = [replace(one, between=0.02**2) for one in scattered]
    assert built_in("speedup").share < 0.05 < prior_of(scattered).share < 0.4**2
    assert prior_of(scattered).between < 0.01**2
    assert prior_of(alike).share < built_in("speedup").share
    assert prior_of(alike).between == pytest.approx(0.02**2, rel=0.3)
    assert prior_of(scattered[:1]).share == pytest.approx(built_in("speedup").share, rel=0.1)


def test_a_gpu_learns_from_its_own_assumption() -> None:
    quiet = figure(3, 0.001, within=0.0, scatter=0.003**2)
    assert prior_of([replace(quiet, on_gpu=True)]).between < 0.004**2 < prior_of([quiet]).between
    assert NOTHING.prior(replace(quiet, on_gpu=True)) == built_in("speedup", on_gpu=True)


def test_a_pair_of_modes_learns_from_its_own_where_there_is_enough() -> None:
    pairs = [evidence(f"x{number}", figure(3, 0.02)) for number in range(4)]
    twins = evidence("a", figure(12, 0.005, labels=TWINS))
    pool = pool_of([*pairs, twins])
    assert pool.prior(figure(1, 0)) == prior_of([figure(3, 0.02)] * 4)
    assert pool.prior(figure(1, 0, labels=TWINS)) == prior_of(list(twins.figures))
    everything = prior_of([*(figure(3, 0.02) for _ in range(4)), *twins.figures])
    assert pool.prior(figure(1, 0, labels=("eager", "xla"))) == pytest.approx(everything)
    assert pool_of([twins]).prior(figure(1, 0)) == prior_of(list(twins.figures))
    assert pool.prior(figure(1, 0, name="call")) == built_in("call")
    assert NOTHING.prior(figure(1, 0)) == built_in("speedup")


def test_only_the_latest_trials_count() -> None:
    old = [evidence(f"old{number}", figure(3, 0.5), at=number) for number in range(50)]
    new = [evidence(f"new{number}", figure(3, 0.01), at=1000 + number) for number in range(LATEST)]
    assert pool_of([*new, *old]) == pool_of(new)


def test_contaminated_figures_teach_nothing() -> None:
    busy = figure_of("speedup", PAIR, [0.0, 0.5], contaminated=True)
    assert pool_of([evidence("a", busy)]) == Pool()


def twins(
    count: int, spread: float, *, host: str = "h", seed: int = 0, at: int = 0
) -> list[Evidence]:
    """A/A trials whose copies differ by `spread` beyond what their rounds and processes explain."""
    explained = math.hypot(built_in("speedup").between ** 0.5, WITHIN)
    apart = np.random.default_rng(seed).normal(0, math.hypot(spread, explained), count)
    return [
        evidence(
            f"{host}{number}", figure(1, 0, mean=mean, labels=TWINS), host=host, at=at + number
        )
        for number, mean in enumerate(apart)
    ]


@pytest.mark.parametrize(
    ("count", "spread", "floor"),
    [(MIN_AA_PAIRS - 1, 0.08, 0.01), (100, 0.0, 0.01), (100, 0.08, 0.17)],
)
def test_the_floor_is_what_copies_differ_by_beyond_their_own_intervals(
    count: int, spread: float, floor: float
) -> None:
    assert pool_of(twins(count, spread)).floor("h") == pytest.approx(floor, rel=0.25)


def test_noise_that_the_intervals_hold_already_raises_no_floor() -> None:
    """A quick A/A sweep on a noisy day: copies differ by 5 %, and their intervals say so."""
    source = np.random.default_rng(0)
    noisy = [
        evidence(str(number), figure(1, 0, mean=mean, within=0.04, labels=TWINS))
        for number, mean in enumerate(source.normal(0, 0.04, 60))
    ]
    assert pool_of(noisy).floor("h") == MIN_FLOOR


def test_the_floor_is_that_of_the_host_and_of_its_latest_pairs() -> None:
    loud, quiet = twins(40, 0.1, host="loud"), twins(40, 0.0, host="quiet")
    pool = pool_of([*loud, *quiet])
    assert pool.floor("loud") > 0.1
    assert (pool.floor("quiet"), pool.floor("unknown")) == (MIN_FLOOR, MIN_FLOOR)
    later = [replace(one, host="loud") for one in twins(100, 0.0, host="later", at=5000)]
    assert pool_of([*loud, *later]).floor("loud") == MIN_FLOOR


def test_pairs_that_the_host_holds_up_raise_no_floor_of_a_busy_gpu() -> None:
    """Anchors of 96 px on an H100: copies 10 % apart, rounds that scatter by 20 %."""
    source = np.random.default_rng(1)
    twin: dict[str, Any] = {"labels": TWINS, "on_gpu": True}
    pairs = [
        evidence(str(number), figure(1, 0, mean=mean, within=0.05, scatter=scatter**2, **twin))
        for scatter, spread in ((0.2, 0.3), (0.003, 0.0015))
        for number, mean in enumerate(source.normal(0, spread, 20))
    ]
    pool = pool_of(pairs)
    assert pool.floor("h", noisy=True) > 0.1
    assert pool.floor("h") == MIN_FLOOR


def test_differences_between_processes_have_a_floor_of_their_own() -> None:
    source = np.random.default_rng(8)
    pairs = [
        evidence(str(number), figure(6, 0, mean=mean, within=0.004, labels=TWINS, name=ACROSS))
        for number, mean in enumerate(source.normal(0, 0.03, 60))
    ]
    pool = pool_of(pairs)
    assert pool.floor("h") == MIN_FLOOR
    assert pool.floor_across("h") == pytest.approx(math.expm1(1.96 * 0.03), rel=0.3)
    few = pool_of(pairs[: MIN_AA_PAIRS - 1])
    assert few.floor_across("h") == few.floor("h") == MIN_FLOOR
    assert pool_of(twins(100, 0.08)).floor_across("h") > 0.1, "at least the other floor"


def measured_alike(count: int, *, uneven: bool = False, seed: int = 1) -> list[Figure]:
    """Trials of two replicates whose processes differ by 1 %; or a fifth by six times as much."""
    source = np.random.default_rng(seed)
    figures = []
    for place in range(count):
        factor = 6.0 if uneven and place % 5 == 0 else 1.0
        logs = factor * source.normal(0, 0.01, (2, 1))
        logs = logs + factor * source.normal(0, 0.006, (2, 12))
        error = logs.std(axis=1, ddof=1) / math.sqrt(12)
        figures.append(figure_of("speedup", PAIR, logs.mean(axis=1), error, [12, 12]))
    return figures


def test_trials_that_are_alike_say_more_of_another() -> None:
    even, uneven = (
        np.median([prior_of(measured_alike(25, uneven=each, seed=n)).freedom for n in range(15)])
        for each in (False, True)
    )
    assert even > 4
    assert uneven == FREEDOM
    assert prior_of(measured_alike(5)).freedom > FREEDOM
    assert prior_of(measured_alike(2)).freedom == FREEDOM


def test_steady_trials_say_nothing_of_one_whose_rounds_scatter_far_more() -> None:
    pool = pool_of([evidence(f"x{place}", one) for place, one in enumerate(measured_alike(6))])
    noisy = measured_alike(1, uneven=True)[0]
    steady, unknown = pool.prior(measured_alike(1)[0]), pool.prior(noisy)
    assert steady == prior_of(measured_alike(6))
    assert unknown == NOTHING.prior(noisy)
    assert unknown.variance_of(noisy) > 0.04**2


@pytest.mark.parametrize("spread", simulated_sweeps.SPREADS)
def test_a_noisy_trial_alone_is_held(spread: float) -> None:
    """Rounds of 3.6 %, processes that differ by 0 to 12 %, one replicate."""
    shares = width.simulate("alone", 1, 1, spread, 150)
    assert shares[0] >= 90
    assert shares[3] <= 8
