"""Many rows as one answer: counts, means, ranks, against a second computation."""

from __future__ import annotations

import math
import statistics

import pytest
from changed_rows import with_columns
from headline_rows import row

from xla_sweeps.analysis.overview import answers, geometric_mean, overview
from xla_sweeps.report.overall import overall_answer as answer
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.comparisons import by_scenario
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import ComparisonRow


def test_counts_and_means_are_those_of_the_rows() -> None:
    speedups = [2.0, 1.5, 1.0, 0.5, 1.2]
    figures = overview(
        [row(value, model=f"net{value}") for value in speedups if value != 1.0]
        + [row(1.0, model="net1.0", verdict=Verdict.EQUIVALENT)]
        + [row(None), row(3.0, origin="imported"), row(3.0, baseline="eager")]
    )
    assert (figures.pairs, figures.compared, figures.models, figures.failed) == (6, 5, 5, 1)
    assert (figures.faster, figures.slower, figures.equivalent, figures.ambiguous) == (3, 1, 1, 0)
    logs = [math.log(value) for value in speedups]
    assert figures.geomean == pytest.approx(math.exp(statistics.fmean(logs)), rel=1e-3)


def test_a_model_counts_once_however_many_sizes_and_batches_of_it_were_measured() -> None:
    def sizes(model: str, *speedups: float) -> list[ComparisonRow]:
        return [row(value, family=model[0], model=model) for value in speedups]

    figures = overview(
        [*sizes("Aa", 2.0, 2.0, 2.0, 2.0), *sizes("Ab", 0.5), *sizes("Ba", 0.9, 1.1), row(None)]
    )
    assert (figures.pairs, figures.compared, figures.models) == (8, 7, 3)
    logs = [math.log(2), -math.log(2), math.log(0.99) / 2]
    assert figures.geomean == pytest.approx(math.exp(statistics.fmean(logs)), rel=1e-2)
    assert " typically 0.999× as fast as graph (geometric mean over 3 models). " in answer(figures)
    assert geometric_mean([2.0] * 40, ["one"] * 40) == pytest.approx((2.0, 1))


def test_a_figure_is_of_one_scenario() -> None:
    calls = [row(2.0, model=f"net{number}") for number in range(3)]
    steps = [row(0.5, model=f"net{number}", scenario="train_step") for number in range(2)]
    pair = {"baseline": "predict_graph", "candidate": "predict_xla"}
    predicts = [row(1.5, scenario="predict", **pair)]
    rows = [*steps, *predicts, *calls]
    groups = by_scenario(rows, key=lambda row: row.trial.scenario)
    counts = [(name, len(mine)) for name, mine in groups.items()]
    assert counts == [("call", 3), ("train_step", 2), ("predict", 1)]
    figures = overview(rows)
    assert (figures.scenario, figures.pairs) == ("call", 3)
    assert figures.geomean == pytest.approx(2.0, rel=0.01)
    figures = overview(steps)
    assert (figures.pairs, figures.slower) == (2, 2)
    assert figures.geomean == pytest.approx(0.5, rel=0.01)
    figures = overview(predicts)
    assert (figures.candidate, figures.pairs) == ("predict_xla", 1)
    assert overview([*steps, *[row(3.0, origin="imported")] * 9]).scenario == "train_step"
    assert answer(figures).startswith(
        "Yes. model.predict with XLA is faster than model.predict without XLA in 1 of 1 "
    )
    paying = answer(overview([with_columns(step, break_even_calls=9.0) for step in steps]))
    assert (
        "faster than graph in 0 of 2 configurations, slower in 2, in scenario train_step." in paying
    )
    assert "; half pay it back within 9 steps." in paying
    alone = answer(overview([with_columns(steps[0], break_even_calls=9.0)]))
    assert "; it pays back after 9 steps." in alone
    never = answer(overview([with_columns(steps[0], break_even_calls=float("inf"))]))
    assert "; it never pays back." in never


def test_a_question_counts_once_with_the_most_replicates_then_the_newest() -> None:
    first = row(2.0, replicates=3, measured_at="2026-01-01")
    longer = row(1.5, replicates=6, measured_at="2026-01-01")
    again = row(1.2, replicates=6, measured_at="2026-01-02")
    stopped = row(None, replicates=8, measured_at="2026-01-03", status=Status.INTERRUPTED)
    others = [row(3.0, batch_size=99), row(3.0, device="another"), row(3.0, baseline="eager")]
    others += [row(3.0, batches=8), row(3.0, keras="2"), row(3.0, optimizer="adam")]
    asked = [first, *others, again, stopped, longer]
    assert answers(asked) == [*others, again]
    assert answers([*asked, row(4.0, origin="imported")])[-1].provenance.origin == "imported"
    assert overview(answers(asked)).pairs == 6
    assert answers([]) == []


def test_a_pair_that_never_breaks_even_counts_as_infinite_in_the_median() -> None:
    paying = [row(2.0, break_even_calls=calls, compile_s_extra=1.0) for calls in (10.0, 20.0)]
    never = row(0.5, break_even_calls=None, compile_s_extra=3.0)
    figures = overview([*paying, never])
    assert (figures.median_break_even_calls, figures.never) == (20.0, 1)
    assert figures.median_extra_compile_s == 1.0
    assert overview([paying[0], never, never]).median_break_even_calls is None
    unsure = row(1.1, compile_s_extra=1.0, break_even_calls=None, verdict="ambiguous")
    figures = overview([*paying, never, unsure, unsure])
    assert (figures.priced, figures.never, figures.median_break_even_calls) == (3, 1, 20.0)
    unknown = overview([row(2.0, compile_s_extra=None, break_even_calls=None)])
    assert unknown.median_break_even_calls is unknown.median_extra_compile_s is None
    assert unknown.never == 0
