"""The end of a trial: the line to write, the command that says why, the one that settles it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from factories import TRIAL, config_of, make_record
from shown import trial_text

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report.advice import answer
from xla_sweeps.report.next_steps import command_of, fastest_way, next_steps
from xla_sweeps.schema.measurement import Flagged
from xla_sweeps.schema.modes import SCENARIOS, Scenario
from xla_sweeps.schema.row import ComparisonRow


def headline(asked: Mapping[str, Any] = {}, /, **call_s: float) -> ComparisonRow:
    summary = summarize([make_record(call_s, noise=0.02, **asked)])
    return next(row for row in summary.comparisons if row.headline)


@pytest.mark.parametrize(("xla", "switch"), [(0.05, "True"), (0.9, "False")])
def test_a_clear_answer_names_the_line_to_write_and_the_command_that_says_why(
    xla: float, switch: str
) -> None:
    assert dict(next_steps(headline(graph=0.2, xla=xla))) == {
        "write": f"tf.function(model, jit_compile={switch}), called instead of model(x)",
        "why": "xla-sweeps explain model=resnet50 source=applications resolution=224",
    }


def test_both_commands_have_the_variables_of_the_site_where_it_was_measured() -> None:
    flags = {"OPENBLAS_CORETYPE": "Haswell", "XLA_FLAGS": "--xla_a=1 --xla_b=2"}
    variables = "OPENBLAS_CORETYPE=Haswell XLA_FLAGS='--xla_a=1 --xla_b=2' "
    asked = {"environment": {"flags": flags}}
    faster, even = (dict(next_steps(headline(asked, graph=0.2, xla=xla))) for xla in (0.05, 0.19))
    explain = "xla-sweeps explain model=resnet50 source=applications resolution=224"
    assert faster["why"] == f"{variables}{explain}"
    again = even["next"]
    assert again.startswith(f"{variables}python -m xla_sweeps model=resnet50 ")
    assert command_of("explain", "PATH=$(evil) rm x; python -m xla_sweeps model=x") == ""


def test_a_step_of_training_is_explained_by_its_forward_pass() -> None:
    row = headline({"config": config_of("train_step")}, graph=0.2, xla=0.1)
    assert dict(next_steps(row))["why"].endswith(" resolution=224  # of the forward pass")


def test_an_open_answer_names_the_command_that_settles_it_and_nothing_to_write() -> None:
    steps = dict(next_steps(headline(graph=0.2, xla=0.19)))
    assert list(steps) == ["next"]
    assert steps["next"].startswith("python -m xla_sweeps model=resnet50 ")
    assert "effort.replicates=" in steps["next"]


@pytest.mark.parametrize("pair", [{"graph": 0.2, "graph_2": 0.1}, {"eager": 0.4, "graph": 0.1}])
def test_what_is_no_choice_of_xla_has_nothing_to_write(pair: dict[str, float]) -> None:
    assert "write" not in dict(next_steps(headline(**pair)))


@pytest.mark.parametrize(("export_s", "steps"), [(0.05, ["write", "why"]), (0.9, ["why"])])
def test_a_faster_mode_of_another_backend_names_its_code(export_s: float, steps: list[str]) -> None:
    named = dict(next_steps(headline(torch_eager=0.2, torch_export=export_s)))
    assert list(named) == steps
    assert "torch.export" in named.get("write", "torch.export")
    assert named["why"].endswith(" resolution=224 backend=torch")


def test_modes_of_two_backends_are_explained_by_neither() -> None:
    assert "why" not in dict(next_steps(headline(graph=0.2, jax_xla=0.1)))


@pytest.mark.parametrize(
    ("host_s", "scenario", "said"),
    [(0.05, "predict", True), (0.3, "predict", False), (0.099, "predict", False)],
)
def test_a_mode_that_clearly_beats_both_is_named(host_s: float, scenario: str, said: bool) -> None:
    call_s = {"graph_host": host_s, "predict_graph": 0.2, "predict_xla": 0.1}
    record = make_record(call_s, noise=0.02, config=config_of(scenario, *call_s))
    summary = summarize([record])
    way = fastest_way(next(row for row in summary.comparisons if row.headline), summary.modes)
    assert bool(way) == said
    if said:
        assert way.startswith("The fastest way to run it here is graph from NumPy to NumPy: ")
        assert way.endswith("× as fast as model.predict without XLA.")


def test_every_scenario_says_what_to_write() -> None:
    for facts in SCENARIOS.values():
        assert "jit_compile={switch}" in facts.write or "@tf.function" in facts.write


def test_only_the_words_of_the_model_are_explained() -> None:
    command = "python -m xla_sweeps model=local 'path=my model.keras' jit=true effort=standard"
    assert command_of("explain", command) == "xla-sweeps explain model=local 'path=my model.keras'"
    assert command_of("explain", "") == ""
    own = "A=1 python -m xla_sweeps --config-dir 'my conf' model=tiny seed=1"
    assert command_of("explain", own) == "A=1 xla-sweeps explain --config-dir 'my conf' model=tiny"


def test_a_trial_has_one_caveat_and_names_the_other_flags() -> None:
    flags = (*map(Flagged, ("calibrated", "no_reference")), Flagged("warmup_not_stationary", "xla"))
    text = trial_text(make_record({"graph": 0.2, "xla": 0.1}, flags=flags))
    (caveat,) = (line for line in text.splitlines() if line.startswith("! "))
    assert caveat.startswith("! warmup_not_stationary: ")


def test_the_end_of_a_trial_has_at_most_15_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    flags = (Flagged("no_reference"),)
    record = make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}, noise=0.01, flags=flags)
    text = trial_text(record, record="results/records/0.json", table="x")
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) <= 15, lines


def test_new_shapes_name_the_command_that_says_from_how_many_calls_a_mode_pays() -> None:
    trial = replace(TRIAL, scenario=Scenario.NEW_SHAPES, shapes=("b32", "96", "b7"))
    row = headline({"trial": trial}, graph=0.2, xla=0.9)
    command = "xla-sweeps shapes model=resnet50 source=applications resolution=224"
    assert dict(next_steps(row)) == {"calls": f"{command} --sizes 96 --batches 32,7"}
    assert "where each shape is called once or twice" in answer(row)
