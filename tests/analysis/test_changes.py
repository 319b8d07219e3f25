"""Two sets of results: matching trials, what counts as a change, and the rate of false ones."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import scipy.stats
from comparisons import side, trial
from factories import CONFIG, MODEL, TRIAL, config_of, failed_outcome, make_outcome, make_record
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_sweeps.analysis import stats
from xla_sweeps.analysis.changes import (
    BROKE,
    FIXED,
    Change,
    Difference,
    as_section,
    counts,
    difference_of,
    failures,
    line_on_ignored,
)
from xla_sweeps.analysis.matching import Side, compared_trial
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.trial import request_id


def compare(a: Sequence[Record], b: Sequence[Record]) -> Difference:
    return difference_of(side(a), side(b, title="B"))


def by_quantity(difference: Difference) -> dict[str, Change]:
    return {change.quantity: change for change in difference.changes}


def test_each_modes_throughput_and_the_headline_speedup_are_compared() -> None:
    difference = compare(
        trial({"eager": 0.4, "graph": 0.2, "xla": 0.10}, seed=10),
        trial({"eager": 0.4, "graph": 0.2, "xla": 0.125}, seed=20),
    )
    changes = by_quantity(difference)
    throughputs = ("eager throughput", "graph throughput", "xla throughput")
    assert set(changes) == {*throughputs, "xla / graph speedup"}
    xla = changes["xla throughput"]
    assert xla.ratio == pytest.approx(0.8, rel=0.01)
    assert xla.low < 0.8 < xla.high
    assert [xla.value_a, xla.value_b] == pytest.approx([40, 32], rel=0.01)
    assert changes["xla / graph speedup"].value_a == pytest.approx(2, rel=0.01)
    verdicts = [changes[name].verdict for name in throughputs]
    assert verdicts == [Verdict.EQUIVALENT, Verdict.EQUIVALENT, Verdict.SLOWER]
    assert changes["xla / graph speedup"].verdict is Verdict.SLOWER
    assert difference.changes[0].verdict is Verdict.SLOWER
    assert (xla.replicates_a, xla.replicates_b, xla.name) == (3, 3, "resnet50 224 px, batch 4")
    assert xla.p_value < xla.q_value < 0.05


@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 2, 3, 4]),
    st.sampled_from([1, 2, 3, 4]),
    st.floats(0.5, 2),
)
@settings(max_examples=10, deadline=None)
def test_swapping_the_sides_inverts_every_ratio(
    seed: int, first: int, second: int, factor: float
) -> None:
    a = trial({"graph": 0.2, "xla": 0.1}, processes=first, seed=seed, noise=0.01)
    b = trial({"graph": 0.2, "xla": 0.1 * factor}, processes=second, seed=seed + 50, noise=0.01)
    there, back = by_quantity(compare(a, b)), by_quantity(compare(b, a))
    turned = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
    assert there.keys() == back.keys()
    for quantity, change in there.items():
        other = back[quantity]
        assert change.ratio == pytest.approx(1 / other.ratio)
        assert [change.low, change.high] == pytest.approx([1 / other.high, 1 / other.low])
        assert change.p_value == pytest.approx(other.p_value, abs=1e-12)
        assert change.q_value == pytest.approx(other.q_value, abs=1e-12)
        assert turned.get(change.verdict, change.verdict) is other.verdict
        assert change.replicates_a == other.replicates_b


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"onednn": False}, "onednn=false"),
        ({"threads": {"intra": 1, "inter": None}}, "threads.intra=1"),
        ({"xla_flags": {"xla_a": True}}, "xla_flags.xla_a=true"),
    ],
)
def test_trials_that_differ_in_flags_alone_are_compared_where_nothing_else_matches(
    config: dict[str, Any], told: str
) -> None:
    plain = trial({"graph": 0.2}, seed=10)
    other = trial({"graph": 0.1}, seed=20, asked="q2", config={**CONFIG, **config})
    (change,) = compare(plain, other).changes
    assert change.ratio == pytest.approx(2, rel=0.01)
    assert change.name == f"resnet50 224 px, batch 4, TensorFlow's defaults → {told}"
    rows = {what: (a, b) for what, a, b in compare(plain, other).environment}
    assert rows["runtime"] == ("TensorFlow's defaults", told)
    difference = difference_of(side(plain, other), side(other, title="B"))
    (change,) = difference.changes
    assert change.name == f"resnet50 224 px, batch 4, {told}"
    assert change.ratio == 1
    assert difference.only_a == ("resnet50 224 px, batch 4 on Some CPU",)
    larger = trial({"graph": 0.1}, seed=20, asked="q2", config={**CONFIG, **config, "seed": 9})
    assert compare(plain, larger).changes == ()


def test_a_side_against_itself_has_no_differences() -> None:
    records = trial({"graph": 0.2, "xla": 0.1})
    assert {change.ratio for change in compare(records, records).changes} == {1.0}
    assert {change.verdict for change in compare(records, records).changes} == {Verdict.EQUIVALENT}


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 3), (3, 2), (3, 3)])
def test_a_large_change_meets_a_condition_with_any_number_of_replicates(
    first: int, second: int
) -> None:
    difference = compare(
        trial({"graph": 0.2}, processes=first), trial({"graph": 0.3}, processes=second, seed=9)
    )
    (change,) = difference.changes
    assert change.verdict is Verdict.SLOWER
    assert failures(difference, ["slower"])


def test_without_an_anchor_in_common_no_throughput_meets_a_condition() -> None:
    """Every trial may look slower where the machine itself was."""
    first, second = trial({"graph": 0.2, "xla": 0.1}), trial({"graph": 0.3, "xla": 0.3}, seed=9)
    bare = difference_of(side(first, anchors=False), side(second, title="B"))
    assert by_quantity(bare)["graph throughput"].verdict is Verdict.SLOWER
    assert failures(bare, ["slower", "ambiguous"]) == []
    assert len(failures(bare, ["smaller-speedup"])) == 1
    assert any("no anchor trial in common" in note for note in bare.notes)
    assert failures(difference_of(side(first), side(second)), ["slower"])


def test_what_the_machine_changed_by_itself_is_no_change_of_the_trials() -> None:
    """Equal trials are not called slower on a day that is 5 % slower."""
    first = side(trial({"graph": 0.2, "xla": 0.1}))
    slower = side(trial({"graph": 0.21, "xla": 0.105}, seed=9))
    day = replace(slower, anchors={"anchor": trial({"graph": 0.0525}, processes=4, noise=0.001)})
    unaware, aware = (difference_of(first, other) for other in (slower, day))
    assert by_quantity(unaware)["graph throughput"].verdict is Verdict.SLOWER
    change = by_quantity(aware)["graph throughput"]
    assert change.verdict is not Verdict.SLOWER
    assert change.ratio == pytest.approx(1, abs=0.003)
    assert any("changed by -4.8 %" in note for note in aware.notes)
    assert not any("owe most of their error to the anchors" in note for note in aware.notes)


def test_anchors_that_limit_a_comparison_are_named() -> None:
    sides = [side(trial({"graph": 0.2, "xla": 0.1}, seed=seed)) for seed in (1, 9)]
    unlike = [
        replace(
            one,
            anchors={"anchor": trial({"graph": level}, processes=2, noise=0.001)},
            pools={name: pool for name, pool in one.pools.items() if name != "anchor"},
        )
        for one, level in zip(sides, (0.05, 0.06), strict=True)
    ]
    notes = difference_of(*unlike).notes
    assert any(note.startswith("2 throughputs owe most of their error to the") for note in notes)


def test_a_contaminated_side_is_ambiguous_unless_it_is_accepted() -> None:
    a = trial({"graph": 0.2, "xla": 0.1})
    b = trial({"graph": 0.2, "xla": 0.2}, seed=9, status=Status.CONTAMINATED)
    for first, second in ((a, b), (b, a)):
        difference = compare(first, second)
        assert {change.verdict for change in difference.changes} == {Verdict.AMBIGUOUS}
        assert all(change.contaminated for change in difference.changes)
        assert failures(difference, ["slower", "smaller-speedup", "ambiguous"]) == []
        assert line_on_ignored(difference, ["slower", "broke"]).startswith(
            "ignored 2 contaminated comparisons, as resnet50 224 px, batch 4, "
        )
        assert line_on_ignored(difference, ["broke", "missing"]) == ""
    accepted = difference_of(side(a), side(b, title="B"), accept_contaminated=True)
    assert by_quantity(accepted)["xla throughput"].verdict is Verdict.SLOWER
    assert len(failures(accepted, ["slower"])) == 1
    assert line_on_ignored(accepted, ["slower"]) == ""
    assert line_on_ignored(compare(a, trial({"graph": 0.2, "xla": 0.2}, seed=9)), ["slower"]) == ""


def test_a_record_that_asked_for_more_replicates_is_compared_with_one_that_did_not() -> None:
    """Requests counted replicates, once."""
    effort = replace(TRIAL.effort, replicates=3)
    earlier = make_record(trial=replace(TRIAL, effort=effort), request_id="e" * 16)
    later = make_record(trial=TRIAL, request_id=request_id(TRIAL))
    asked = {compared_trial([one], summarize([one])).asked for one in (earlier, later)}
    assert asked == {request_id(TRIAL)}


def test_contaminated_changes_do_not_count_among_those_of_clean_sides() -> None:
    clean = [trial({"graph": 0.2}), trial({"graph": 0.2}, seed=10)]
    busy = [
        [
            trial({"graph": 0.2 + late}, asked=f"q{n}", seed=100 * n + 7, status=status)
            for n in range(2, 6)
        ]
        for late, status in ((0.0, Status.OK), (0.1, Status.CONTAMINATED))
    ]
    (alone,) = difference_of(side(clean[0]), side(clean[1])).changes
    difference = difference_of(side(clean[0], *busy[0]), side(clean[1], *busy[1]))
    (same,) = [change for change in difference.changes if not change.contaminated]
    assert len(difference.changes) == 5
    assert same == alone


def test_throughput_has_the_floor_of_differences_between_processes() -> None:
    first = side(trial({"graph": 0.2, "xla": 0.1}))
    second = side(trial({"graph": 0.2, "xla": 0.1}, seed=9), floor_across=0.05)
    changes = by_quantity(difference_of(first, second))
    assert changes["graph throughput"].floor == 0.05
    assert changes["xla / graph speedup"].floor == 0.01


def test_the_floor_is_the_larger_of_both_sides() -> None:
    a, b = trial({"graph": 0.2, "xla": 0.1}), trial({"graph": 0.21, "xla": 0.1}, seed=9)
    change = by_quantity(difference_of(side(a), side(b, floor=0.1)))["graph throughput"]
    assert change.floor == 0.1
    assert change.verdict is not Verdict.SLOWER


def test_q_values_are_those_of_benjamini_and_hochberg() -> None:
    source = random.Random(1)
    for count in (1, 2, 7, 100):
        p_values = [source.random() ** 3 for _ in range(count)]
        assert stats.q_values(p_values) == pytest.approx(
            scipy.stats.false_discovery_control(p_values).tolist()
        )
    assert stats.q_values([]) == []


def test_a_difference_that_is_not_significant_among_many_is_ambiguous() -> None:
    one = compare(
        trial({"graph": 0.2}, seed=3, noise=0.012),
        trial({"graph": 0.2 * 1.0165}, seed=43, noise=0.012),
    )
    (alone,) = one.changes
    assert alone.verdict is Verdict.SLOWER
    assert 0.01 < alone.p_value < 0.05
    others_a = [trial({"graph": 0.2}, seed=100 + 10 * n, asked=f"o{n}") for n in range(20)]
    others_b = [trial({"graph": 0.2}, seed=500 + 10 * n, asked=f"o{n}") for n in range(20)]
    many = difference_of(
        side(trial({"graph": 0.2}, seed=3, noise=0.012), *others_a),
        side(trial({"graph": 0.2 * 1.0165}, seed=43, noise=0.012), *others_b),
    )
    (change,) = [change for change in many.changes if change.trial_a == f"{3:016x}"]
    assert (change.p_value, change.ratio) == (alone.p_value, alone.ratio)
    assert change.q_value > 0.05
    assert change.verdict is Verdict.AMBIGUOUS


def test_each_scenario_is_judged_and_listed_by_itself() -> None:
    """The same that is ambiguous among calls is slower among training steps alone."""
    training = config_of("train_step", "graph")

    def both(seed: int, factor: float) -> list[list[Record]]:
        others = [trial({"graph": 0.2}, seed=seed + 10 * n, asked=f"o{n}") for n in range(20)]
        one = trial({"graph": 0.2 * factor}, seed=seed // 10 + 3, noise=0.012, config=training)
        return [*others, one]

    difference = difference_of(side(*both(100, 1.0)), side(*both(500, 1.018), title="B"))
    *calls, step = difference.changes
    assert {change.scenario for change in calls} == {"call"}
    assert (step.scenario, step.verdict) == ("train_step", Verdict.SLOWER)
    assert step.p_value == step.q_value
    assert "train_step" in step.name
    assert as_section(difference)["rows"][-1]["scenario"] == "train_step"


def test_trials_are_matched_by_their_request_across_machines() -> None:
    a = side(trial({"graph": 0.2}, seed=1, device={"kind": "gpu", "name": "A100"}))
    b = side(trial({"graph": 0.1}, seed=2, device={"kind": "gpu", "name": "H100"}), title="B")
    (change,) = difference_of(a, b).changes
    assert change.device == "A100 → H100"


def test_with_several_devices_on_both_sides_only_the_same_are_compared() -> None:
    def on(*names: str, seed: int) -> Side:
        devices = [{"kind": "gpu", "name": name} for name in names]
        return side(
            *(trial({"graph": 0.2}, seed=seed + n, device=d) for n, d in enumerate(devices))
        )

    def compared(first: Side, second: Side) -> set[str]:
        return {change.device for change in difference_of(first, second).changes}

    difference = difference_of(on("A100", "T4", seed=0), on("A100", "H100", seed=70))
    assert [change.device for change in difference.changes] == ["A100"]
    assert difference.only_a == ("resnet50 224 px, batch 4 on T4",)
    assert difference.only_b == ("resnet50 224 px, batch 4 on H100",)
    assert compared(on("A100", "T4", seed=0), on("T4", seed=70)) == {"T4"}
    here, there = (
        side(
            trial({"graph": 0.2}, seed=seed, device={"kind": "gpu", "name": "A100"}),
            trial(
                {"graph": 0.2}, seed=seed + 5, asked="q2", device={"kind": "gpu", "name": second}
            ),
        )
        for seed, second in ((0, "T4"), (70, "H100"))
    )
    assert compared(here, there) == {"A100"}
    one = compared(on("A100", "T4", seed=0), on("H100", seed=70))
    assert one == {"A100 → H100", "T4 → H100"}


def test_the_latest_of_several_versions_counts_with_a_note() -> None:
    a = side(
        trial({"graph": 0.3}, seed=9, started_at="2026-02-01T00:00:00+00:00"),
        trial({"graph": 0.2}, seed=1, started_at="2026-01-01T00:00:00+00:00"),
    )
    difference = difference_of(a, side(trial({"graph": 0.3}, seed=5), title="B"))
    (change,) = difference.changes
    assert change.ratio == pytest.approx(1, rel=0.01)
    note = "A: 1 trial was measured again with other versions; the latest count"
    assert difference.notes[0] == note


def test_trials_on_one_side_only_are_listed() -> None:
    extra = trial({"graph": 0.2}, seed=7, asked="q2", model=replace(MODEL, name="vgg16"))
    difference = difference_of(side(trial({"graph": 0.2}), extra), side(trial({"graph": 0.2})))
    assert (difference.only_a, difference.only_b) == (("vgg16 224 px, batch 4 on Some CPU",), ())
    modes = compare(trial({"graph": 0.2, "xla": 0.1}), trial({"graph": 0.2}, seed=3))
    assert modes.only_a == ("resnet50 224 px, batch 4, xla",)


def test_trials_of_one_name_are_distinguished_by_what_differs() -> None:
    publish = {**CONFIG, "effort": {"name": "publish"}}
    a = side(trial({"graph": 0.2}), trial({"graph": 0.2}, asked="q2", seed=5, config=publish))
    b = side(trial({"graph": 0.2}), trial({"graph": 0.2}, asked="q2", seed=9, config=publish))
    assert {change.name for change in difference_of(a, b).changes} == {
        "resnet50 224 px, batch 4, quick",
        "resnet50 224 px, batch 4, publish",
    }


def test_a_mode_that_fails_on_one_side_is_broken_or_fixed_and_comes_first() -> None:
    whole = trial({"graph": 0.2, "xla": 0.1})
    modes = {
        "graph": make_outcome(0.2),
        "xla": failed_outcome(Status.UNSUPPORTED_OP, "no kernel for Foo"),
    }
    failing = trial({"graph": 0.2}, seed=5, modes=modes)
    broke, fixed = compare(whole, failing), compare(failing, whole)
    (broken,) = broke.breaks
    assert (broken.what, broken.mode, broken.status) == (BROKE, "xla", Status.UNSUPPORTED_OP)
    told = "resnet50 224 px, batch 4, xla broke (unsupported_op: no kernel for Foo)"
    assert str(broken) == told
    assert [repair.what for repair in fixed.breaks] == [FIXED]
    assert as_section(broke)["only_a"] == [told]
    assert as_section(fixed)["only_b"] == [str(fixed.breaks[0])]
    assert [change.quantity for change in broke.changes] == ["graph throughput"]
    assert compare(failing, failing).failed_both == 1
    unfinished = {"graph": make_outcome(0.2), "xla": failed_outcome(Status.INTERRUPTED)}
    assert compare(whole, trial({"graph": 0.2}, seed=5, modes=unfinished)).only_a == (
        "resnet50 224 px, batch 4, xla",
    )


def test_the_environments_of_both_sides_are_shown_together() -> None:
    def measured(version: str, **facts: Any) -> list[Record]:
        environment = {
            "packages": {"tensorflow": "0", "keras": "3.15"},
            "loaded": {"tensorflow": version},
            "host": "h1",
            "python": "3.11",
            "cpu": {"name": "Some CPU", "cores": 2, "governor": "performance"},
            "xla_sweeps": "0.1",
            "git": "abc",
            **facts,
        }
        return trial({"graph": 0.2}, seed=len(version), environment=environment)

    b = measured(
        "2.21.0rc",
        cpu={"name": "Some CPU", "model": "family 6 model 85", "governor": "powersave"},
        loaded={"tensorflow": "2.21.0rc", "libraries": {"cudnn": "91002"}},
        flags={"XLA_FLAGS": "--x"},
    )
    rows = {
        what: (first, second) for what, first, second in compare(measured("2.20.0"), b).environment
    }
    assert rows["tensorflow"] == ("2.20.0", "2.21.0rc")
    assert rows["governor"] == ("performance", "powersave")
    assert rows["flags"] == ("none", "XLA_FLAGS=--x")
    assert rows["CPU model"] == ("", "family 6 model 85")
    assert rows["loaded cudnn"] == ("", "91002")
    assert rows["keras"] == ("3.15", "3.15")
    assert rows["xla_sweeps"] == ("0.1 abc", "0.1 abc")
    assert "driver" not in rows


def test_too_few_rounds_give_a_note_in_place_of_a_comparison() -> None:
    difference = compare(trial({"graph": 0.2}), trial({"graph": 0.2}, seed=4, count=4))
    assert difference.changes == ()
    assert difference.notes == ("1 quantities have too few rounds to compare",)


def test_each_condition_names_the_changes_that_met_it() -> None:
    whole = trial({"graph": 0.2, "xla": 0.1})
    extra = trial({"graph": 0.2}, seed=7, asked="q2", model=replace(MODEL, name="vgg16"))
    modes = {"graph": make_outcome(0.25), "xla": failed_outcome(Status.OOM_GPU)}
    difference = difference_of(
        side(whole, extra), side(trial({"graph": 0.25}, seed=5, modes=modes), title="B")
    )
    assert failures(difference, ["slower", "broke", "missing", "ambiguous", "smaller-speedup"]) == [
        "slower: resnet50 224 px, batch 4, graph throughput 0.800×",
        "broke: resnet50 224 px, batch 4, xla broke (oom_gpu: it failed)",
        "missing: vgg16 224 px, batch 4 on Some CPU",
    ]
    assert failures(difference, []) == []
    quicker = compare(whole, trial({"graph": 0.1, "xla": 0.1}, seed=5))
    assert failures(quicker, ["slower"]) == []
    assert failures(quicker, ["smaller-speedup"])[0].startswith(
        "smaller-speedup: resnet50 224 px, batch 4, xla / graph"
    )


def test_the_section_for_the_page_has_the_agreed_keys() -> None:
    difference = compare(
        trial({"graph": 0.2, "xla": 0.1}), trial({"graph": 0.2, "xla": 0.2}, seed=5)
    )
    section = as_section(difference)
    assert (section["title_a"], section["title_b"]) == ("A", "B")
    assert {row["verdict"] for row in section["rows"]} == {"slower", "equivalent"}
    assert section["counts"] == counts(difference)
    assert section["notes"] == [*difference.notes] != []
    counted = {name: count for name, count in counts(difference).items() if count}
    assert counted == {"matched": 1, "compared": 3, "slower": 2, "equivalent": 1}
    assert all(set(entry) == {"what", "a", "b"} for entry in section["environment"])
    assert json.loads(json.dumps(section)) == section | {
        "rows": [{**row, "verdict": str(row["verdict"])} for row in section["rows"]]
    }
