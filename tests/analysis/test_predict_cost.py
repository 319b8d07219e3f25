"""Fixed cost and cost of a sample: planted ones are found, and their intervals are honest."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from factories import config_of, failed_outcome, make_outcome, make_record

from xla_sweeps.analysis.predict_cost import (
    Cost,
    Point,
    copies_of,
    cost_of,
    crossing,
    points_of,
    ranking,
    totals_of,
)
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record

SIZES = ((1, 1), (8, 1), (32, 1), (128, 1), (8, 4), (8, 16))


def planted(
    fixed: float, sample: float, further: float, *, noise: float = 0.0, seed: int = 0
) -> list[Point]:
    source = random.Random(seed)
    return [
        Point(
            batch_size=n,
            batches=k,
            seconds=(fixed + further * (k - 1) + sample * n * k) * math.exp(source.gauss(0, noise)),
            error=noise or 1e-4,
        )
        for n, k in SIZES
    ]


def fitted(*costs: float, noise: float = 0.0, seed: int = 0) -> Cost:
    cost = cost_of(planted(*costs, noise=noise, seed=seed))
    assert cost is not None
    return cost


def test_exact_costs_are_found_exactly() -> None:
    cost = fitted(0.041, 0.002, 0.003)
    assert cost.fixed.estimate == pytest.approx(0.041)
    assert cost.sample.estimate == pytest.approx(0.002)
    assert cost.further is not None
    assert cost.further.estimate == pytest.approx(0.003)
    assert cost.misfit < 1e-9


def test_the_intervals_of_noisy_costs_hold_the_truth_about_as_often_as_they_say() -> None:
    held = np.zeros(3)
    for seed in range(300):
        cost = fitted(0.041, 0.002, 0.003, noise=0.02, seed=seed)
        assert cost.further is not None
        truth = ((cost.fixed, 0.041), (cost.sample, 0.002), (cost.further, 0.003))
        held += [interval.low <= value <= interval.high for interval, value in truth]
    assert (held / 300 > 0.92).all()


def test_what_is_no_line_widens_the_intervals() -> None:
    straight = planted(0.041, 0.002, 0.003)
    bent = [replace(straight[0], seconds=1.3 * straight[0].seconds), *straight[1:]]
    cost, exact = cost_of(bent), cost_of(straight)
    assert cost is not None
    assert exact is not None
    assert cost.misfit > 0.1
    assert cost.fixed.high - cost.fixed.low > 100 * (exact.fixed.high - exact.fixed.low)


def test_too_few_sizes_give_no_costs() -> None:
    points = planted(0.041, 0.002, 0.003)
    assert cost_of(points[:2]) is None
    assert cost_of(points[:3]) is not None
    assert cost_of([*points[:1], *points[4:], points[4]]) is None  # one size, several batches


def test_two_ways_cross_where_they_cost_the_same() -> None:
    predict, call = fitted(0.041, 0.001, 0.0, noise=0.01), fitted(0.001, 0.004, 0.0, noise=0.01)
    meets = crossing(predict, call)
    assert meets is not None
    assert meets.low is not None
    assert meets.high is not None
    assert meets.low < 40 / 3 < meets.high
    assert meets.batch_size == pytest.approx(40 / 3, rel=0.1)
    assert meets == crossing(call, predict)


def test_a_way_that_costs_less_throughout_is_never_crossed() -> None:
    assert crossing(fitted(0.041, 0.002, 0.0), fitted(0.001, 0.001, 0.0)) is None


def test_a_crossing_that_noise_hides_has_no_interval() -> None:
    alike = crossing(
        fitted(0.0401, 0.002, 0.0, noise=0.2, seed=3), fitted(0.04, 0.00201, 0.0, noise=0.2, seed=9)
    )
    assert alike is None or alike.low is None


def test_samples_in_all_cost_every_batch_that_they_take() -> None:
    totals = totals_of(fitted(0.041, 0.002, 0.003), 1000)
    assert [(way.batch_size, way.batches, way.last_batch) for way in totals] == [
        (1, 1000, 1),
        (8, 125, 8),
        (32, 32, 8),
        (128, 8, 104),
    ]
    for total in totals:
        wanted = 0.041 + 0.003 * (total.batches - 1) + 2.0
        assert total.seconds.estimate == pytest.approx(wanted)
        assert total.seconds.low < wanted < total.seconds.high


def test_fewer_samples_than_a_batch_are_one_batch() -> None:
    totals = totals_of(fitted(0.041, 0.002, 0.003), 20)
    assert [(total.batch_size, total.batches) for total in totals] == [(1, 20), (8, 3), (20, 1)]
    assert totals[-1].seconds.estimate == pytest.approx(0.041 + 0.04)


def test_without_a_call_of_several_batches_each_batch_is_a_call() -> None:
    cost = cost_of(planted(0.041, 0.002, 0.003)[:4])
    assert cost is not None
    assert cost.further is None
    assert totals_of(cost, 1000)[-1].seconds.estimate == pytest.approx(8 * 0.041 + 2.0)


def test_the_interval_of_samples_in_all_holds_the_truth_about_as_often_as_it_says() -> None:
    held, truth = np.zeros(2), (0.041 + 0.003 * 124 + 2.0, 0.041 + 0.003 * 7 + 2.0)
    for seed in range(300):
        totals = totals_of(fitted(0.041, 0.002, 0.003, noise=0.02, seed=seed), 1000)
        held += [
            totals[place].seconds.low <= value <= totals[place].seconds.high
            for place, value in zip((1, 3), truth, strict=True)
        ]
    assert (held / 300 > 0.92).all()


def test_the_fastest_way_depends_on_how_many_samples_there_are() -> None:
    costs = {
        "predict": fitted(0.041, 0.001, 0.0, noise=0.01, seed=1),
        "call_host": fitted(0.001, 0.004, 0.001, noise=0.01, seed=2),
    }
    few, many = ranking(costs, 5), ranking(costs, 1000)
    assert [way.label for way in few] == ["call_host", "predict"]
    assert [way.label for way in many] == ["predict", "call_host"]
    assert few[0].behind is None
    assert few[0].may_be_fastest
    assert few[1].behind is not None
    assert few[1].behind.low < 0.046 - 0.021 < few[1].behind.high
    assert not few[1].may_be_fastest
    assert many[1].best.batch_size == 128


def test_ways_that_noise_hides_from_each_other_may_both_be_the_fastest() -> None:
    costs = {
        name: fitted(0.04, 0.002, 0.003, noise=0.05, seed=seed)
        for seed, name in enumerate(("predict", "graph_host"))
    }
    assert all(way.may_be_fastest for way in ranking(costs, 100))


def test_many_small_batches_that_seem_to_cost_nothing_by_chance_are_not_the_best() -> None:
    cost = fitted(0.041, 0.002, -0.001, noise=0.3)
    assert cost.further is not None
    assert cost.further.low < 0 < cost.further.high
    (ranked,) = ranking({"predict": cost}, 1000)
    assert ranked.best.batch_size >= 32


def test_a_way_whose_interval_reaches_0_is_no_answer() -> None:
    blurred = replace(fitted(0.0001, 0.00001, 0.0), covariance=((1.0, 0.0), (0.0, 1.0)))
    blurred = replace(blurred, further=None)
    costs = {"predict": blurred, "call_host": fitted(0.041, 0.002, 0.003)}
    ranked = ranking(costs, 100)
    assert [way.label for way in ranked] == ["call_host", "predict"]
    assert ranked[1].best.seconds.low == 0
    assert ranked[1].may_be_fastest


def record(batch_size: int, batches: int, call_s: float, **changes: Any) -> Record:
    config = {**config_of("predict", "predict"), "batch_size": batch_size, "batches": batches}
    return make_record({"predict": call_s}, noise=0.01, config=config, **changes)


def test_points_come_from_the_rounds_of_modes_that_did_not_fail() -> None:
    copies = make_outcome(copies_s={"input": 1e-4, "output": 1e-5})
    replicates = [
        [
            record(8, 1, 0.2, modes={"predict": copies}),
            record(8, 1, 0.21, modes={"predict": copies}, seed=5, replicate=2),
        ],
        [record(1, 1, 0.1)],
        [record(4, 1, 0.1, modes={"predict": failed_outcome(Status.OOM_HOST)})],
        [record(8, 4, 0.5)],
    ]
    trials = [(summarize(records), records) for records in replicates]
    points = points_of(trials, "predict")
    assert [(point.batch_size, point.batches) for point in points] == [(1, 1), (8, 1), (8, 4)]
    assert points[1].seconds == pytest.approx(math.sqrt(0.2 * 0.21), rel=0.01)
    assert points[1].error < points[0].error  # it has two replicates
    assert points_of(trials, "graph_host") == []
    assert copies_of(summary for summary, _ in trials) == {
        8: {"input": pytest.approx(1e-4), "output": pytest.approx(1e-5)}
    }
