"""Planted overheads of ways to call a model are found, within intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from factories import config_of, failed_outcome, make_outcome, make_record

from benchmarks.predict_cost_coverage import REPLICATES, SHAPES, World, measure, simulate
from xla_sweeps.analysis.pool import NOTHING
from xla_sweeps.analysis.predict_cost import Cost, Size, costs_of, pairs_of, sizes_of
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record

EXACT = World(noise=0.0)


def planted(world: World = EXACT, *, seed: int = 0, replicates: str = "3") -> list[Size]:
    return measure(np.random.default_rng(seed), world, REPLICATES[replicates])


def of(sizes: list[Size], label: str) -> list[Cost]:
    return [cost for cost in costs_of(sizes) if cost.label == label]


def overhead(cost: Cost) -> Interval:
    assert cost.overhead is not None
    return cost.overhead


def test_an_exact_overhead_is_found_at_every_size() -> None:
    costs = of(planted(), "predict")
    assert [(cost.batch_size, cost.batches) for cost in costs] == list(SHAPES)
    for cost in costs:
        shape = (cost.batch_size, cost.batches)
        seconds, reference = EXACT.seconds("predict", *shape), EXACT.seconds("graph_host", *shape)
        assert cost.reference == "graph_host"
        assert cost.seconds.estimate == pytest.approx(seconds)
        more = overhead(cost)
        assert more.estimate == pytest.approx(seconds - reference)
        assert more.low < seconds - reference < more.high


def test_a_curve_is_no_part_of_an_overhead() -> None:
    bent = World(noise=0.0, bend=5.0)
    for cost in of(planted(bent), "predict"):
        shape = (cost.batch_size, cost.batches)
        truth = bent.seconds("predict", *shape) - bent.seconds("graph_host", *shape)
        assert overhead(cost).estimate == pytest.approx(truth)


def test_the_speed_of_a_process_widens_an_overhead_by_its_share_of_the_difference_alone() -> None:
    costs = of(planted(World(shared=0.05)), "predict")
    largest = next(cost for cost in costs if (cost.batch_size, cost.batches) == (128, 1))
    more, seconds = overhead(largest), largest.seconds
    assert more.high - more.low < seconds.high - seconds.low


@pytest.mark.parametrize("replicates", ["1", pytest.param("3", marks=pytest.mark.exhaustive)])
def test_the_intervals_hold_the_truth_about_as_often_as_they_say(replicates: str) -> None:
    world = World(shared=0.05, own=0.01, bend=0.5)
    shares = simulate(world, REPLICATES[replicates], 40)
    assert all(share >= 0.85 for share in shares.values()), shares
    assert np.mean(list(shares.values())) > 0.93


def test_what_cannot_be_negative_is_not_below_0() -> None:
    sizes = planted(World(own=0.3, noise=5.0), replicates="1")
    costs = [overhead(cost) for cost in of(sizes, "predict")]
    assert all(0 <= cost.low <= cost.estimate <= cost.high for cost in costs)
    assert any(cost.low == 0 for cost in costs)
    assert any(overhead(cost).low < 0 for cost in of(sizes, "call_host"))


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
    assert 0 < overhead(cost).low < overhead(cost).estimate < overhead(cost).high


def test_two_ways_are_compared_round_by_round_at_each_size() -> None:
    ratios = pairs_of(planted(), "predict", "call_host")
    assert list(ratios) == [1, 8, 32, 128]
    assert [ratio.high < 0 for ratio in ratios.values()] == [True, True, False, False]
    assert [ratio.low > 0 for ratio in ratios.values()] == [False, False, True, True]
    assert all(ratio.high < 0 for ratio in pairs_of(planted(), "predict", "graph_host").values())


def record(batch_size: int, batches: int, call_s: float, **changes: Any) -> Record:
    config = {**config_of("predict", "predict"), "batch_size": batch_size, "batches": batches}
    return make_record({"predict": call_s}, noise=0.01, config=config, **changes)


def summarized(replicates: Sequence[Sequence[Record]]) -> list[Any]:
    return [(summarize(records), records, NOTHING) for records in replicates]


def test_sizes_come_from_the_rounds_of_modes_that_did_not_fail() -> None:
    trials = summarized(
        [
            [record(8, 1, 0.2), record(8, 1, 0.21, seed=5, replicate=2)],
            [record(1, 1, 0.1)],
            [record(4, 1, 0.1, modes={"predict": failed_outcome(Status.OOM_HOST)})],
            [record(8, 4, 0.5)],
        ]
    )
    sizes = sizes_of(trials)
    assert [(size.batch_size, size.batches) for size in sizes] == [(1, 1), (8, 1), (8, 4)]
    costs = of(sizes, "predict")
    assert costs[1].seconds.estimate == pytest.approx(math.sqrt(0.2 * 0.21), rel=0.01)
    assert costs[1].overhead is None
    assert of(sizes, "graph_host") == []


def test_ways_that_no_replicate_measured_together_are_not_compared() -> None:
    """The one crashed in the first replicate, the other in the second."""
    both = {"graph_host": 0.1, "predict": 0.2}
    config = {**config_of("predict", *both), "batch_size": 1, "batches": 1}
    lost = failed_outcome(Status.CRASHED)
    records = [
        make_record(
            {label: both[label]},
            noise=0.01,
            config=config,
            replicate=number,
            modes={label: make_outcome(both[label]), other: lost},
        )
        for number, (label, other) in enumerate([tuple(both), tuple(both)[::-1]])
    ]
    sizes = sizes_of(summarized([records]))
    assert {cost.label: cost.overhead for cost in costs_of(sizes)} == dict.fromkeys(both)
    assert pairs_of(sizes, *both) == {}


@pytest.mark.parametrize(("jit_compile", "reference"), [(False, "graph_host"), (True, "xla_host")])
def test_a_way_is_compared_with_the_function_of_the_same_jit_compile(
    jit_compile: bool, reference: str
) -> None:
    references = {"predict": reference, "predict_graph": "graph_host", "predict_xla": "xla_host"}
    labels = ("call_host", "graph_host", "xla_host", *references)
    modes = {label: make_outcome() for label in labels}
    modes["predict"] = make_outcome(effective={"in_force": True, "jit_compile": jit_compile})
    times, config = dict.fromkeys(labels, 0.1), config_of("predict", *labels)
    measured = make_record(times, noise=0.01, config=config, modes=modes)
    (size,) = sizes_of(summarized([[measured]]))
    fixed = {"graph_host": "", "call_host": "graph_host", "xla_host": "graph_host"}
    assert dict(size.references) == {**fixed, **references}
