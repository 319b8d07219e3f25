"""The records, rounds and modes that a summary counts, and what it says of the others."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from factories import (
    CONFIG,
    MODEL,
    failed_outcome,
    make_contaminated,
    make_outcome,
    make_record,
    make_rounds,
)
from headline_rows import TIMES, headline

from xla_sweeps.analysis.interval import LOAD, MOST_TO_SETTLE
from xla_sweeps.analysis.overview import overview
from xla_sweeps.analysis.summary import headline_clear, headline_failed, summarize
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import (
    NOT_REACHED,
    UNFINISHED,
    Failure,
    Flagged,
    ModeOutcome,
    Phase,
    Status,
)
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.record import Record


def test_contaminated_rounds_are_excluded_while_enough_others_remain() -> None:
    slow = {"graph": 0.2, "xla": 0.4}
    rounds = make_rounds({"graph": 0.2, "xla": 0.1}, count=8) + tuple(
        replace(round_, round=round_.round + 8, dirty="busy")
        for round_ in make_rounds(slow, count=8)
    )
    record = make_record({"graph": 0.2, "xla": 0.1}, rounds=rounds, status=Status.CONTAMINATED)
    row = headline([record])
    assert row.speedup.value == pytest.approx(2.0)
    assert row.speedup.rounds == 8
    assert row.status is Status.CONTAMINATED
    assert row.speedup.raw is not None
    assert row.speedup.raw < 1.6
    few = replace(record, rounds=rounds[4:])
    assert headline([few]).speedup.rounds == 12


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(5.0, Verdict.FASTER), (0.2, Verdict.SLOWER), (1.03, Verdict.AMBIGUOUS)],
)
def test_a_machine_that_is_never_quiet_settles_a_factor_of_five_and_not_3_percent(
    factor: float, verdict: Verdict
) -> None:
    records = make_contaminated(factor, 1)
    speedup = headline(records).speedup
    assert speedup.value == pytest.approx(factor, rel=0.05)
    assert speedup.verdict is verdict
    assert headline_clear(records) is verdict.is_clear
    if not verdict.is_clear:
        assert speedup.replicates_to_settle == MOST_TO_SETTLE + 1, "a quieter machine does"


def test_what_load_adds_shrinks_with_neither_rounds_nor_replicates() -> None:
    few, many = (headline(make_contaminated(2.0, count)).speedup for count in (1, 20))
    assert few.high
    assert many.high
    assert few.value
    assert many.value
    assert math.log(few.high / few.value) > math.log(many.high / many.value) > 1.9 * LOAD


def replicates(*, clean: int, contaminated: int) -> list[Record]:
    """Clean ones of speedup 1.25, and contaminated ones in which every figure is off."""
    slow = {"graph": 0.2, "xla": 0.4}
    busy = make_rounds(slow, count=12, noise=0.3, seed=9, dirty=range(12))
    some = make_rounds(slow, count=12, noise=0.3, seed=8, dirty=range(5))
    return [
        *(
            make_record(
                {"graph": 0.2, "xla": 0.16}, replicate=number, noise=0.005, seed=number, count=12
            )
            for number in range(clean)
        ),
        *(
            make_record(
                slow,
                replicate=clean + number,
                rounds=(busy, some)[number % 2],
                status=Status.CONTAMINATED,
                flags=(Flagged("not_converged"),),
                contamination={"foreign_cores": 3.0},
            )
            for number in range(contaminated)
        ),
    ]


@pytest.mark.parametrize("clean", [1, 3])
@pytest.mark.parametrize("contaminated", [1, 2, 3])
def test_contaminated_replicates_change_nothing_beside_clean_ones(
    clean: int, contaminated: int
) -> None:
    alone = summarize(replicates(clean=clean, contaminated=0))
    both = summarize(replicates(clean=clean, contaminated=contaminated))
    (row,), (expected,) = both.comparisons, alone.comparisons
    assert row.speedup.raw is not None
    assert row.speedup.raw < 1.2
    assert replace(row, speedup=replace(row.speedup, raw=None)) == expected
    assert replace(both, comparisons=()) == replace(alone, comparisons=())
    assert (row.status, row.flags, row.speedup.replicates) == (Status.OK, (), clean)


def test_contaminated_rounds_of_a_replicate_cut_short_do_not_stand_beside_clean_replicates() -> (
    None
):
    records = replicates(clean=2, contaminated=0)
    rounds = make_rounds({"graph": 0.2, "xla": 0.4}, count=9, dirty=range(4))
    short = replace(records[0], replicate=7, rounds=rounds)
    speedups = [headline(group).speedup for group in ([*records, short], records)]
    figures = {(one.value, one.low, one.high, one.replicates, one.rounds) for one in speedups}
    assert len(figures) == 1


def test_a_mode_that_only_a_contaminated_replicate_measured_is_shown_as_contaminated() -> None:
    eager = make_record(
        TIMES, replicate=1, status=Status.CONTAMINATED, rounds=make_rounds(TIMES, dirty=range(9))
    )
    rows = summarize([make_record(), eager]).comparisons
    assert {(row.baseline.mode, row.candidate.mode): row.status for row in rows} == {
        ("graph", "xla"): Status.OK,
        ("eager", "graph"): Status.CONTAMINATED,
        ("eager", "xla"): Status.CONTAMINATED,
    }


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (["nondeterministic", "ok", "ok"], Status.OK),
        (["nondeterministic", "run_error"], Status.NONDETERMINISTIC),
        (["ok", "nondeterministic"], Status.NONDETERMINISTIC),
        (["nondeterministic", "ok", "wrong_result"], Status.WRONG_RESULT),
        (["wrong_result", "ok", "ok"], Status.WRONG_RESULT),
    ],
)
def test_the_newest_replicate_tells_whether_a_mode_computes_the_same_twice(
    statuses: list[str], status: Status
) -> None:
    records = [
        make_record(
            replicate=number,
            modes={"graph": make_outcome(0.2), "xla": make_outcome(0.1, status=Status(word))},
        )
        for number, word in enumerate(statuses)
    ]
    row = headline(records)
    assert row.status is status
    assert (row.speedup.verdict is Verdict.FAILED) == (status is not Status.OK)
    assert headline_failed(records[::-1]) is (status is not Status.OK)


def test_rounds_without_a_dropped_mode_count_for_the_others() -> None:
    rounds = make_rounds(TIMES, count=6) + tuple(
        replace(round_, round=round_.round + 6)
        for round_ in make_rounds({"graph": 0.2, "xla": 0.1}, count=10)
    )
    summary = summarize([make_record(TIMES, rounds=rounds)])
    pairs = [(row.baseline.mode, row.candidate.mode) for row in summary.comparisons]
    assert pairs == [("graph", "xla"), ("eager", "graph"), ("eager", "xla")]
    assert [row.speedup.rounds for row in summary.comparisons] == [16, 6, 6]


@pytest.mark.parametrize(
    "status", [Status.WRONG_RESULT, Status.UNVERIFIABLE, Status.RETRACED, Status.NONDETERMINISTIC]
)
def test_a_mode_with_wrong_results_keeps_its_timings_and_loses_its_speedup(status: Status) -> None:
    modes = {"graph": make_outcome(0.2), "xla": make_outcome(0.1, status=status)}
    summary = summarize([make_record({"graph": 0.2, "xla": 0.1}, modes=modes)])
    row = summary.comparisons[0]
    assert (row.speedup.verdict, row.speedup.value, row.status) == (Verdict.FAILED, None, status)
    assert summary.modes[1].columns.throughput_samples_per_s is not None


def test_a_mode_that_failed_leaves_a_row_with_its_reason() -> None:
    modes = {"graph": make_outcome(0.2), "xla": failed_outcome(Status.UNSUPPORTED_OP, "no kernel")}
    row = headline([make_record({"graph": 0.2}, modes=modes)])
    assert (row.speedup.verdict, row.status) == (Verdict.FAILED, Status.UNSUPPORTED_OP)
    assert row.failure.message == "no kernel"
    assert row.candidate.throughput_samples_per_s is None
    assert row.baseline.throughput_samples_per_s == pytest.approx(20.0)


@pytest.mark.parametrize("later", [None, Status.INTERRUPTED, Status.KILLED, Status.INFRA])
def test_of_several_failures_the_newest_is_shown_that_was_tried_to_its_end(
    later: Status | None,
) -> None:
    ends = [(Status.COMPILE_ERROR, "an old compiler"), (Status.UNSUPPORTED_OP, "no kernel")]
    records = [
        make_record(
            {"graph": 0.2},
            modes={"graph": make_outcome(0.2), "xla": failed_outcome(*end)},
            replicate=replicate,
        )
        for replicate, end in enumerate(ends)
    ]
    if later:
        skip = Failure(phase=Phase.BUILD, kind=NOT_REACHED, message="not reached: it ended")
        modes = dict.fromkeys(("graph", "xla"), ModeOutcome(status=later, failure=skip))
        records.append(make_record({}, modes=modes, rounds=(), replicate=2, status=later))
    row = headline(records)
    assert (row.status, row.failure.message) == ends[1]
    assert row.speedup.verdict is Verdict.FAILED


def test_a_trial_with_only_failures_is_summarized_too() -> None:
    modes = {"graph": failed_outcome(Status.SKIPPED), "xla": failed_outcome(Status.SKIPPED)}
    summary = summarize([make_record({}, modes=modes, rounds=(), status=Status.BUILD_ERROR)])
    assert summary.replicates == 0
    assert summary.comparisons[0].speedup.verdict is Verdict.NOT_MEASURED


@pytest.mark.parametrize("status", [Status.OOM_GPU, Status.OOM_HOST, Status.BUILD_ERROR])
def test_a_trial_that_failed_before_any_mode_has_its_own_status_in_its_rows(status: Status) -> None:
    cause = Failure(phase=Phase.BUILD, kind="ResourceExhaustedError", message="2 GiB: no memory")
    told = "not reached: 2 GiB: no memory"
    skip = Failure(phase=Phase.BUILD, kind=NOT_REACHED, message=told)
    unreached = ModeOutcome(status=Status.SKIPPED, failure=skip)
    modes = {"graph": unreached, "xla": unreached}
    record = make_record({}, modes=modes, rounds=(), status=status, failure=cause)
    row = headline([record])
    assert (row.status, row.speedup.verdict) == (status, Verdict.NOT_MEASURED)
    assert row.failure.message == told
    crashed = {"graph": unreached, "xla": failed_outcome(Status.CRASHED)}
    summary = summarize([replace(record, modes=crashed, status=Status.CRASHED)])
    assert [mode.status for mode in summary.modes] == [Status.SKIPPED, Status.CRASHED]


@pytest.mark.parametrize(
    ("graph", "xla", "verdict"),
    [
        (Status.OK, Status.OOM_GPU, Verdict.FAILED),
        (Status.OK, Status.WRONG_RESULT, Verdict.FAILED),
        (Status.OOM_GPU, Status.OK, Verdict.NOT_MEASURED),
        (Status.OOM_GPU, Status.OOM_GPU, Verdict.NOT_MEASURED),
        (Status.OK, Status.INTERRUPTED, Verdict.NOT_MEASURED),
        (Status.OK, Status.INFRA, Verdict.NOT_MEASURED),
        (Status.OK, Status.SKIPPED, Verdict.NOT_MEASURED),
    ],
)
def test_it_fails_only_where_the_candidate_failed_and_the_baseline_ran(
    graph: Status, xla: Status, verdict: Verdict
) -> None:
    outcomes = {
        label: make_outcome(0.1) if status is Status.OK else failed_outcome(status)
        for label, status in {"graph": graph, "xla": xla}.items()
    }
    row = headline([make_record(modes=outcomes)])
    assert row.speedup.verdict is verdict
    assert overview([row]).failed == (verdict is Verdict.FAILED)
    assert overview([row]).not_measured == (
        verdict is Verdict.NOT_MEASURED and row.status not in UNFINISHED
    )


def test_records_of_several_trials_are_refused() -> None:
    with pytest.raises(ValueError, match="exactly one trial"):
        summarize([make_record(), make_record(trial_id="f" * 16)])


def test_replicates_of_another_model_are_left_out_and_the_row_says_so() -> None:
    first, other = (replace(MODEL, params=params, fingerprint="ab") for params in (32_997, 167_301))
    slow = {"graph": 0.4, "xla": 0.1}
    records = [
        make_record(slow, model=first, replicate=0),
        make_record(slow, model=first, replicate=1),
        make_record(model=other, replicate=2),
        make_record(model=other, replicate=3),
    ]
    row = headline(records)
    assert row.speedup.value == pytest.approx(2.0)
    assert (row.speedup.replicates, row.trial.params) == (2, 167_301)
    assert "build_changed" in row.flags
    assert "build_changed" not in headline(records[2:]).flags
    assert headline([*records, make_record(slow, model=first, replicate=4)]).speedup.replicates == 3


def cut(rounds: int, *, status: Status = Status.INTERRUPTED, **changes: Any) -> Record:
    """A replicate of an effort of at least ten rounds that ended after so many."""
    config = {**CONFIG, "effort": {"name": "quick", "rounds_min": 10}}
    failure = Failure(phase=Phase.MEASURE, kind="interrupted", message="interrupted")
    also: dict[str, Any] = {"flags": (Flagged("cut_short"),), **changes}
    return make_record(count=rounds, status=status, failure=failure, config=config, **also)


def test_a_replicate_that_was_cut_short_counts_from_the_least_rounds_of_its_effort_on() -> None:
    whole = [make_record(replicate=number) for number in range(2)]
    slow = {"graph": 0.2, "xla": 0.4}
    short, enough = (cut(rounds, call_s=slow, replicate=2) for rounds in (9, 10))
    fewer, more = headline([*whole, short]), headline([*whole, enough])
    assert fewer.speedup.value == pytest.approx(2)
    assert fewer.speedup.replicates == 2
    assert summarize([*whole, short]).replicates == 2
    assert more.speedup.replicates == 3
    contaminated = replace(enough, rounds=make_rounds(slow, count=12, dirty=range(3)))
    assert headline([*whole, contaminated]).speedup.replicates == 2


def test_a_trial_that_was_only_interrupted_says_so() -> None:
    unreached = {
        label: ModeOutcome(status=Status.OK, first_call_s=1.0) for label in ("graph", "xla")
    }
    for record in (cut(9), cut(9, modes=unreached), cut(0, modes=unreached, flags=())):
        row = headline([record])
        assert (row.status, row.failure.message) == (Status.INTERRUPTED, "interrupted")
        assert row.speedup.value is None
        assert headline_failed([record])


def test_too_few_rounds_are_a_reason() -> None:
    row = headline([make_record(count=5)])
    assert (row.status, row.speedup.verdict) == (Status.SKIPPED, Verdict.NOT_MEASURED)
    assert row.failure.message == "too few rounds were measured"
    assert "effort.mode_cap_s" in row.failure.hint


FAILED = failed_outcome(Status.UNSUPPORTED_OP, "no kernel", "")


def record(**modes: bool) -> Record:
    """A record whose modes work or fail."""
    return make_record(
        dict.fromkeys(modes, 0.1),
        modes={name: make_outcome(0.1) if works else FAILED for name, works in modes.items()},
    )


@pytest.mark.parametrize(
    ("records", "failed"),
    [
        ([record(eager=True, graph=True, xla=True)], False),
        ([record(eager=False, graph=True, xla=True)], False),
        ([record(eager=True, graph=True, xla=False)], True),
        ([record(eager=True, graph=False, xla=True)], True),
        ([record(graph=True, xla=False), record(graph=True, xla=True)], False),
        ([record(graph=True, xla=False), record(graph=False, xla=True)], False),
        ([record(xla=True)], False),
        ([record(xla=False)], True),
        ([], True),
    ],
)
def test_the_headline_failed_if_one_of_its_modes_works_in_no_record(
    records: list[Record], failed: bool
) -> None:
    assert headline_failed(records) is failed


@pytest.mark.parametrize(
    ("library", "modes", "failed"),
    [
        ("local", {"torch_compile": True, "torch_export": False}, False),
        ("local", {"torch_compile": False, "torch_export": True}, False),
        ("local", {"torch_compile": False, "torch_export": False}, True),
        ("local", {"torch_compile": False, "torch_compile_dynamic": True}, True),
        ("keras", {"torch_compile": False, "torch_export": True}, True),
    ],
)
def test_one_verdict_is_enough_in_the_default_modes_of_an_own_model_on_pytorch(
    library: str, modes: dict[str, bool], failed: bool
) -> None:
    made = record(torch_eager=True, **modes)
    model = replace(made.trial.model, library=library)
    trial = replace(made.trial, modes=tuple(made.modes), model=model)
    assert headline_failed([replace(made, trial=trial)]) is failed


@pytest.mark.parametrize(
    ("status", "scenario", "failed"),
    [
        (Status.MODE_NOT_EFFECTIVE, "predict", False),
        (Status.COMPILE_ERROR, "predict", True),
        (Status.MODE_NOT_EFFECTIVE, "call", True),
    ],
)
def test_a_model_of_keras_that_torch_does_not_capture_is_an_answer_in_the_default_modes(
    status: Status, scenario: str, failed: bool
) -> None:
    labels = {"predict": "torch_predict", "call": "torch"}
    eager, compiled = (f"{labels[scenario]}_{word}" for word in ("eager", "compile"))
    made = record(**{eager: True, compiled: False})
    modes = {**made.modes, compiled: replace(made.modes[compiled], status=status)}
    trial = replace(made.trial, scenario=Scenario(scenario), modes=tuple(modes))
    assert headline_failed([replace(made, trial=trial, modes=modes)]) is failed


def test_modes_that_work_without_enough_rounds_have_no_verdict() -> None:
    for modes in ({"graph": 0.2, "xla": 0.1}, {"xla": 0.1}):
        assert headline_failed([make_record(modes, count=5)])
        assert not headline_failed([make_record(modes, count=20)])


def test_replicates_on_other_libraries_are_left_out() -> None:
    old, new = ({"loaded": {"libraries": {"cudnn": version}}} for version in ("90100", "91002"))
    records = [make_record(environment=old), make_record(replicate=1, environment=new)]
    assert headline(records).speedup.replicates == 1
    unknown = make_record(replicate=2, environment={})
    assert headline([records[1], unknown]).speedup.replicates == 2
