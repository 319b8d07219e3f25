"""Planted overheads, totals and crossings of ways to call a model are found, within intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from factories import config_of, failed_outcome, make_outcome, make_record

from benchmarks.predict_cost_coverage import (
    REPLICATES,
    SHAPES,
    World,
    measure,
    meeting,
    simulate,
)
from xla_sweeps.analysis.pool import NOTHING
from xla_sweeps.analysis.predict_cost import (
    Cost,
    Size,
    copies_of,
    costs_of,
    crossing,
    pairs_of,
    ranking,
    sizes_of,
    totals_of,
)
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record

EXACT = World(noise=0.0)


def planted(world: World = EXACT, *, seed: int = 0, replicates: str = "3") -> list[Size]:
    return measure(np.random.default_rng(seed), world, REPLICATES[replicates])


def of(sizes: list[Size], label: str) -> list[Cost]:
    return [cost for cost in costs_of(sizes) if cost.label == label]


def test_an_exact_overhead_is_found_at_every_size() -> None:
    costs = of(planted(), "predict")
    assert [(cost.batch_size, cost.batches) for cost in costs] == list(SHAPES)
    for cost in costs:
        shape = (cost.batch_size, cost.batches)
        seconds, reference = EXACT.seconds("predict", *shape), EXACT.seconds("graph_host", *shape)
        assert cost.reference == "graph_host"
        assert cost.seconds.estimate == pytest.approx(seconds)
        assert cost.overhead is not None
        assert cost.overhead.estimate == pytest.approx(seconds - reference)
        assert cost.overhead.low < seconds - reference < cost.overhead.high


def test_a_curve_is_no_part_of_an_overhead() -> None:
    bent = World(noise=0.0, bend=5.0)
    for cost in of(planted(bent), "predict"):
        shape = (cost.batch_size, cost.batches)
        truth = bent.seconds("predict", *shape) - bent.seconds("graph_host", *shape)
        assert cost.overhead is not None
        assert cost.overhead.estimate == pytest.approx(truth)


def test_the_speed_of_a_process_widens_an_overhead_by_its_share_of_the_difference_alone() -> None:
    costs = of(planted(World(shared=0.05)), "predict")
    largest = next(cost for cost in costs if (cost.batch_size, cost.batches) == (128, 1))
    assert largest.overhead is not None
    reach = (largest.overhead.high - largest.overhead.low) / 2
    assert reach < (largest.seconds.high - largest.seconds.low) / 2


@pytest.mark.parametrize("replicates", ["1", "3"])
@pytest.mark.parametrize("bend", [0.0, 0.5])
def test_the_intervals_hold_the_truth_about_as_often_as_they_say(
    replicates: str, bend: float
) -> None:
    world = World(shared=0.05, own=0.01, bend=bend)
    shares = simulate(world, REPLICATES[replicates], 40)
    assert all(share >= 0.85 for share in shares.values()), shares
    assert np.mean(list(shares.values())) > 0.93


def test_what_cannot_be_negative_is_not_below_0() -> None:
    sizes = planted(World(own=0.3, noise=5.0), replicates="1")
    costs = [cost.overhead for cost in of(sizes, "predict")]
    assert all(cost is not None and 0 <= cost.low <= cost.estimate <= cost.high for cost in costs)
    assert any(cost is not None and cost.low == 0 for cost in costs)
    lows = [cost.overhead for cost in of(sizes, "call_host")]
    assert any(cost is not None and cost.low < 0 for cost in lows)


class Vague:
    """A size whose level is hardly known, and where the ratio of two ways is clear."""

    batch_size, batches = 1, 1
    references: ClassVar = {"predict": "graph_host", "graph_host": ""}

    def level(self, label: str) -> Interval:
        return Interval(estimate=-3.0, low=-6.0, high=0.0)

    def pair(self, one: str, other: str) -> tuple[Interval, Interval]:
        return self.level(one), Interval(estimate=1.5, low=0.3, high=2.7)


def test_a_difference_is_told_where_its_ratio_is_however_little_of_the_level_is_known() -> None:
    sizes: Any = [Vague()]
    (cost, _) = costs_of(sizes)
    assert cost.overhead is not None
    assert 0 < cost.overhead.low < cost.overhead.estimate < cost.overhead.high


def test_two_ways_cross_where_they_cost_the_same() -> None:
    sizes = planted()
    meets = crossing(sizes, "predict", "call_host")
    assert meets is not None
    assert meets.low is not None
    assert meets.high is not None
    assert meets.low <= meeting(EXACT) + 1e-6 < meets.high
    assert meets.batch_size == pytest.approx(meeting(EXACT), rel=0.1)
    assert meets == crossing(sizes, "call_host", "predict")


def test_a_way_that_costs_less_throughout_is_never_crossed() -> None:
    sizes = planted()
    assert crossing(sizes, "predict", "graph_host") is None
    assert all(ratio.high < 0 for _, ratio in pairs_of(sizes, "predict", "graph_host").values())


def test_a_bound_of_a_crossing_outside_the_measured_sizes_is_none() -> None:
    sizes = planted(World(noise=10.0), replicates="1")
    inner = [size for size in sizes if size.shape in ((8, 1), (128, 1))]
    meets = crossing(inner, "predict", "call_host")
    assert meets is not None
    assert meets.low is None
    assert meets.high is not None
    assert 8 < meets.batch_size < meets.high < 128


def test_samples_in_all_cost_every_batch_that_they_take() -> None:
    totals = totals_of(planted(), "predict", 1000)
    assert [(total.batch_size, total.batches, total.last_batch) for total in totals] == [
        (1, 1000, 1),
        (8, 125, 8),
        (32, 32, 8),
        (128, 8, 104),
    ]
    for total in totals:
        truth = 0.041 + 0.003 * (total.batches - 1) + 1.0
        assert total.seconds.estimate == pytest.approx(truth, rel=0.01)
        assert total.seconds.low < truth < total.seconds.high
    assert [total.outside for total in totals] == [True, True, True, False]


def test_other_ways_are_called_for_each_batch() -> None:
    for total in totals_of(planted(), "call_host", 1024):
        truth = total.batches * (0.01 + 0.003 * total.batch_size)
        assert total.seconds.estimate == pytest.approx(truth)
        assert not total.outside


def test_a_size_between_two_is_interpolated_on_log_scales() -> None:
    few = totals_of(planted(), "call_host", 20)
    assert [(total.batch_size, total.batches) for total in few] == [(1, 20), (8, 3), (20, 1)]
    share = math.log(20 / 8) / math.log(4)
    wanted = 0.034 * (0.106 / 0.034) ** share
    assert few[-1].seconds.estimate == pytest.approx(wanted)
    assert not any(total.outside for total in few)


def test_a_batch_below_the_smallest_measured_counts_as_that_and_is_said() -> None:
    sizes = [size for size in planted() if size.batch_size > 1]
    (total,) = totals_of(sizes, "call_host", 5)
    assert (total.batch_size, total.batches, total.outside) == (5, 1, True)
    assert total.seconds.estimate == pytest.approx(0.034)


def test_without_a_call_of_several_batches_each_batch_is_a_call() -> None:
    single = [size for size in planted() if size.batches == 1]
    total = totals_of(single, "predict", 1024)[-1]
    assert total.seconds.estimate == pytest.approx(8 * (0.041 + 0.128))
    assert not total.outside


def test_many_samples_in_measured_shapes_are_what_was_measured() -> None:
    sizes = planted(World(noise=3.0))
    cost = next(cost for cost in of(sizes, "predict") if cost.batches == 16)
    total = next(total for total in totals_of(sizes, "predict", 128) if total.batch_size == 8)
    assert total.seconds.estimate == pytest.approx(cost.seconds.estimate)
    assert total.seconds.low == pytest.approx(cost.seconds.low, rel=0.02)


def test_the_fastest_way_depends_on_how_many_samples_there_are() -> None:
    ways = ("predict", "call_host")
    few, many = ranking(planted(), ways, 5), ranking(planted(), ways, 1000)
    assert [way.label for way in few] == ["call_host", "predict"]
    assert [way.label for way in many] == ["predict", "call_host"]
    assert few[0].behind is None
    assert few[0].may_be_fastest
    assert few[1].behind is not None
    assert few[1].behind.low < 0.046 - 0.025 < few[1].behind.high
    assert not few[1].may_be_fastest
    assert many[1].best.batch_size == 128


def test_ways_that_noise_hides_from_each_other_may_both_be_the_fastest() -> None:
    blurred = planted(World(noise=100.0), replicates="1")
    assert all(way.may_be_fastest for way in ranking(blurred, ("graph_host", "predict"), 100))


def test_the_difference_of_two_ways_is_known_better_than_either() -> None:
    """Both are measured in the same rounds."""
    ranked = ranking(planted(World(shared=0.1), seed=3), ("graph_host", "predict"), 1024)
    assert ranked[1].behind is not None
    best = ranked[1].best.seconds
    assert ranked[1].behind.high - ranked[1].behind.low < best.high - best.low


def record(batch_size: int, batches: int, call_s: float, **changes: Any) -> Record:
    config = {**config_of("predict", "predict"), "batch_size": batch_size, "batches": batches}
    return make_record({"predict": call_s}, noise=0.01, config=config, **changes)


def summarized(replicates: Sequence[Sequence[Record]]) -> list[Any]:
    return [(summarize(records), records, NOTHING) for records in replicates]


def test_sizes_come_from_the_rounds_of_modes_that_did_not_fail() -> None:
    copies = make_outcome(copies_s={"input": 1e-4, "output": 1e-5})
    trials = summarized(
        [
            [
                record(8, 1, 0.2, modes={"predict": copies}),
                record(8, 1, 0.21, modes={"predict": copies}, seed=5, replicate=2),
            ],
            [record(1, 1, 0.1)],
            [record(4, 1, 0.1, modes={"predict": failed_outcome(Status.OOM_HOST)})],
            [record(8, 4, 0.5)],
        ]
    )
    sizes = sizes_of(trials)
    assert [size.shape for size in sizes] == [(1, 1), (8, 1), (8, 4)]
    costs = of(sizes, "predict")
    assert costs[1].seconds.estimate == pytest.approx(math.sqrt(0.2 * 0.21), rel=0.01)
    assert costs[1].overhead is None
    assert of(sizes, "graph_host") == []
    assert copies_of(summary for summary, _, _ in trials) == {
        8: {"input": pytest.approx(1e-4), "output": pytest.approx(1e-5)}
    }


@pytest.mark.parametrize(
    ("jit_compile", "references"),
    [
        (
            False,
            {"predict": "graph_host", "predict_graph": "graph_host", "predict_xla": "xla_host"},
        ),
        (True, {"predict": "xla_host", "predict_graph": "graph_host", "predict_xla": "xla_host"}),
    ],
)
def test_a_way_is_compared_with_the_function_of_the_same_jit_compile(
    jit_compile: bool, references: dict[str, str]
) -> None:
    labels = ("call_host", "graph_host", "xla_host", *references)
    made: Callable[[str], Any] = lambda label: make_outcome(  # noqa: E731
        effective={"in_force": True, **({"jit_compile": jit_compile} if label == "predict" else {})}
    )
    measured = make_record(
        dict.fromkeys(labels, 0.1),
        noise=0.01,
        config=config_of("predict", *labels),
        modes={label: made(label) for label in labels},
    )
    (size,) = sizes_of(summarized([[measured]]))
    fixed = {"graph_host": "", "call_host": "graph_host", "xla_host": "graph_host"}
    assert dict(size.references) == {**fixed, **references}
