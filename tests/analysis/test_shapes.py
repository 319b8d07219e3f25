"""The price of shapes, from planted seconds of first and later calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from factories import TRIAL, change_blocks, failed_outcome, make_record

from xla_sweeps.analysis.shapes import PADDED, Price, Way, pays_from, price_of, steps_of
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report.terminal.shapes import answer, shapes_text
from xla_sweeps.schema.measurement import Flag, Flagged, Status
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import LATER

FIRST = {"graph": 1.0, "graph_dynamic": 1.0, "xla": 4.0}
"""Seconds of the first call of a shape; `graph_dynamic` has later ones from the second on."""

LATER_S = {"graph": 0.004, "graph_dynamic": 0.005, "xla": 0.002}
"""Seconds of a later call of a sample."""


def planted(
    shapes: tuple[str, ...] = ("b32", "b8"), *, noise: float = 0.01, seed: int = 0, **more: Any
) -> Any:
    """A record whose modes take the planted times in each of ten rounds."""
    rng = np.random.default_rng(seed)
    trial = replace(TRIAL, scenario=Scenario.NEW_SHAPES, shapes=shapes, modes=tuple(FIRST))
    record = make_record(dict.fromkeys(FIRST, 1.0), count=10, trial=trial, **more)
    rounds = change_blocks(
        record.rounds,
        lambda block: replace(block, parts_ns=parts_of(block.mode, shapes, rng, noise)),
    )
    return replace(record, rounds=rounds)


def parts_of(
    label: str, shapes: tuple[str, ...], rng: np.random.Generator, noise: float
) -> Mapping[str, int]:
    parts, met = dict[str, float](), False
    for name in dict.fromkeys(shapes):
        later = LATER_S[label] * int(name.removeprefix("b"))
        new = later if met and label == "graph_dynamic" else FIRST[label]
        parts |= {name: new, f"{name}{LATER}": later}
        met = True
    return {name: round(1e9 * s * np.exp(noise * rng.normal())) for name, s in parts.items()}


def priced(record: Any) -> Price:
    return price_of(summarize([record]), [record])


def way(price: Price, name: str) -> Way:
    return next(one for one in price.ways if one.name == name)


def test_the_cost_of_the_shapes_is_what_was_planted() -> None:
    price = priced(planted())
    wanted = {
        "graph": (2 * 1.0 - 0.004 * 40, 0.004 * 40),
        "graph_dynamic": (1.0 - 0.005 * 32, 0.005 * 40),
        "xla": (2 * 4.0 - 0.002 * 40, 0.002 * 40),
        "xla padded to b32": (4.0 - 0.002 * 32, 2 * 0.002 * 32),
    }
    assert [one.name for one in price.ways] == list(wanted)
    for name, (once, each) in wanted.items():
        one = way(price, name)
        assert one.once_s.estimate == pytest.approx(once, rel=0.03)
        assert one.once_s.low < once < one.once_s.high
        assert one.each_s.estimate == pytest.approx(each, rel=0.02)
        assert one.each_s.low < each < one.each_s.high


def test_the_calls_from_which_xla_pays_are_what_was_planted() -> None:
    price = priced(planted())
    paid = pays_from(way(price, "graph"), way(price, "xla"))
    truth = (7.92 - 1.84) / (0.16 - 0.08)
    assert paid.estimate == pytest.approx(truth, rel=0.1)
    assert paid.low < truth < paid.high < 2 * truth


def test_the_interval_holds_in_repetitions_of_one_process() -> None:
    truth, held = (7.92 - 1.84) / (0.16 - 0.08), 0
    for seed in range(40):
        price = priced(planted(noise=0.05, seed=seed))
        paid = pays_from(way(price, "graph"), way(price, "xla"))
        held += paid.low < truth < paid.high
    assert held >= 36


def test_a_way_that_takes_longer_each_time_never_pays() -> None:
    price = priced(planted())
    never = pays_from(way(price, "xla"), way(price, "graph"))
    assert (never.estimate, never.low) == (np.inf, np.inf)


def test_the_steps_are_those_of_the_totals() -> None:
    price = priced(planted(noise=0.001))

    def best(calls: float) -> str:
        totals = {one.name: one.once_s.estimate + calls * one.each_s.estimate for one in price.ways}
        return min(totals, key=lambda name: totals[name])

    names = [step.name for step in price.steps]
    assert names == ["graph_dynamic", "graph", "xla padded to b32", "xla"]
    ends = [*(step.calls.estimate for step in price.steps[1:]), np.inf]
    for step, end in zip(price.steps, ends, strict=True):
        assert best(step.calls.estimate * 1.01) == step.name
        assert best(min(end * 0.99, 1e6)) == step.name


def test_a_shape_that_is_given_twice_is_met_once_and_called_twice() -> None:
    once, twice = priced(planted(("b32", "b8"))), priced(planted(("b32", "b32", "b8")))
    for name in ("graph", "xla"):
        assert way(once, name).once_s == way(twice, name).once_s
    assert way(twice, "xla").each_s.estimate == pytest.approx(0.002 * 72, rel=0.02)
    assert len(twice.shapes) == len(once.shapes) == 6


def test_batches_are_padded_to_the_next_of_the_buckets_that_take_the_least() -> None:
    """Of seven shapes six are small: two programs, of b8 and b64, serve them for long."""
    small = ("b3", "b4", "b5", "b6", "b7", "b8")
    price = priced(planted((*small, *["b64"] * 4), noise=0.001))
    steps = {step.name: step.calls for step in price.steps}
    assert list(steps) == [
        "graph_dynamic",
        "xla padded to b8, b64",
        "xla padded to b5, b8, b64",
        "xla",
    ]
    dynamic, two = way(price, "graph_dynamic"), way(price, "xla padded to b8, b64")
    assert two.once_s.estimate == pytest.approx(2 * 4.0 - 0.002 * 72, rel=0.01)
    assert two.each_s.estimate == pytest.approx(0.002 * (6 * 8 + 4 * 64), rel=0.01)
    truth = (2 * 4.0 - 0.002 * 72 - (1.0 - 0.005 * 3)) / (0.005 * 289 - 0.002 * 304)
    assert pays_from(dynamic, two).estimate == pytest.approx(truth, rel=0.02)
    assert {one.name for one in price.ways if PADDED in one.name} == {
        "xla padded to b64",
        "xla padded to b8, b64",
        "xla padded to b5, b8, b64",
    }
    lines = list(answer(price, small))
    way_to_write = "pad each batch to the next of b8, b64, then jit_compile=True"
    assert f"xla padded to b8, b64: {way_to_write}" in lines


def test_sizes_beside_batch_sizes_are_not_padded() -> None:
    price = priced(planted(("b32", "48")))
    assert [one.name for one in price.ways] == ["graph", "graph_dynamic", "xla"]


def test_a_mode_that_compiles_for_each_value_is_told_apart() -> None:
    price = priced(planted(flags=(Flagged(Flag.RECOMPILES, "xla"),)))
    assert price.recompiling == ["xla"]
    assert {one.name for one in price.ways} == {"graph", "graph_dynamic"}
    assert {one.mode for one in price.shapes} == {"graph", "graph_dynamic", "xla"}


def test_a_mode_that_compiles_in_each_call_costs_what_its_calls_take() -> None:
    note = "the second call compiled 1 program"
    price = priced(planted(flags=(Flagged(Flag.RECOMPILES, "graph", note),)))
    assert price.recompiling == []
    assert {"graph", "graph_dynamic", "xla"} <= {one.name for one in price.ways}


def test_contaminated_rounds_do_not_count() -> None:
    record = planted()
    (slow,) = change_blocks(
        record.rounds[:1],
        lambda one: replace(one, parts_ns={name: 100 * ns for name, ns in one.parts_ns.items()}),
    )
    rounds = (replace(slow, dirty="other load"), *record.rounds[1:])
    clean, spoilt = priced(record), priced(replace(record, rounds=rounds))
    assert way(spoilt, "xla").once_s.estimate == pytest.approx(
        way(clean, "xla").once_s.estimate, rel=0.02
    )


def test_a_process_in_which_a_mode_broke_does_not_count() -> None:
    whole, broken = planted(), planted(seed=1)
    rounds = [
        replace(one, blocks=tuple(each for each in one.blocks if each.mode != "xla"))
        for one in broken.rounds
    ]
    records = [whole, replace(broken, replicate=1, rounds=tuple(rounds))]
    price = price_of(summarize(records), records)
    assert way(price, "xla").once_s == way(priced(whole), "xla").once_s
    assert len(way(price, "graph").each) == 1


def test_the_programs_are_told_though_the_last_process_was_cut_short() -> None:
    whole = planted()
    modes = {
        label: replace(outcome, effective={"programs": {"b32": 1, "b8": 1}})
        for label, outcome in whole.modes.items()
    }
    whole = replace(whole, modes=modes)
    cut = replace(planted(seed=1), replicate=1, rounds=())
    price = price_of(summarize([whole, cut]), [whole, cut])
    assert {one.programs for one in price.shapes} == {1}


def test_a_short_process_does_not_widen_what_a_long_one_knows() -> None:
    whole, short = planted(), planted(seed=1)
    records = [whole, replace(short, replicate=1, rounds=short.rounds[:4])]
    price = price_of(summarize(records), records)
    assert way(price, "xla").once_s == way(priced(whole), "xla").once_s


def test_all_rounds_count_where_too_few_are_clean() -> None:
    record = planted()
    dirty = [replace(one, dirty="other load") for one in record.rounds[:7]]
    price = priced(replace(record, rounds=(*dirty, *record.rounds[7:])))
    assert len(way(price, "xla").once[0]) == 10
    assert np.isfinite(way(price, "xla").once_s.high)


def test_a_mode_that_failed_is_named_with_its_reason() -> None:
    record = planted()
    lost = failed_outcome(Status.UNSUPPORTED_OP, "XLA has no kernel for Unique")
    price = priced(replace(record, modes={**record.modes, "xla": lost}))
    assert [(label, status) for label, status, _ in price.failed] == [("xla", "unsupported_op")]
    text = shapes_text(price, ("b32", "b8"), title="")
    assert "✕ xla: unsupported_op: XLA has no kernel for Unique" in text
    assert "Least time on these 2 batches: graph_dynamic" in text


def ways_of(**seconds: tuple[float, float]) -> Price:
    rng = np.random.default_rng(0)
    ways = [
        Way(
            name=name,
            once=[once * np.exp(0.001 * rng.normal(size=12))],
            each=[each * np.exp(0.001 * rng.normal(size=12))],
        )
        for name, (once, each) in seconds.items()
    ]
    return Price(shapes=[], ways=ways, steps=steps_of(ways), recompiling=[])


@pytest.mark.parametrize(
    ("xla", "said"),
    [
        ((3.0, 0.5), "xla up to 44 calls of each ("),  # fewer seconds once, more each
        ((3.0, 0.1), "xla from the first call on"),
        ((26.0, 0.1), "xla from 100 calls of each ("),
        ((26.0, 0.4), "xla never"),
    ],
)
def test_from_when_or_until_when_xla_pays(xla: tuple[float, float], said: str) -> None:
    price = ways_of(graph=(16.0, 0.2), xla=xla)
    (line,) = [one for one in answer(price, ("b4", "b3")) if one.startswith("Less than graph")]
    assert said in line
    assert "nan" not in line


def test_a_gain_within_its_interval_is_no_number_that_is_not_one() -> None:
    (graph, xla) = ways_of(graph=(1.0, 0.2), xla=(1.0, 0.1999)).ways
    for one, other in ((graph, xla), (xla, graph)):
        paid = pays_from(one, other)
        assert not np.isnan([paid.estimate, paid.low, paid.high]).any()
