"""Modes, their labels and pairs, and the scenarios."""

from __future__ import annotations

import pytest

from xla_sweeps.schema.comparisons import (
    baseline_of,
    comparison_pairs,
    headline_candidates,
    headline_of,
    implied_modes,
    is_aa_pair,
    is_told_by,
    label_modes,
)
from xla_sweeps.schema.modes import (
    DEFAULT_BACKEND,
    JIT_CANDIDATES,
    MODES,
    SCENARIOS,
    Entry,
    Execution,
    Mode,
    Scenario,
    is_mode,
    label_of,
    mode_of,
    parse,
)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_label_is_read_as_the_mode_and_the_copy_that_it_names(mode: Mode) -> None:
    assert MODES[str(mode)] is mode
    assert parse(str(mode)) == (mode, 1)
    for copy in (1, 2, 12):
        assert parse(label_of(mode, copy)) == (mode, copy)


@pytest.mark.parametrize("label", ["", "_2", "2", "graph_", "graph_x", "xla_graph", "graph_2_2"])
def test_a_label_of_no_mode_is_refused(label: str) -> None:
    assert not is_mode(label)
    with pytest.raises(ValueError, match="no mode is named"):
        parse(label)


def test_entry_execution_and_steps_tell_modes_apart() -> None:
    assert len({(mode.backend, mode.role) for mode in Mode}) == len(Mode)


def test_every_mode_of_xla_has_a_partner_without_it() -> None:
    pairs = {mode: mode.without_xla for mode in Mode if mode.execution is Execution.XLA}
    assert pairs[Mode.XLA_HOST] is Mode.GRAPH_HOST
    assert pairs[Mode.PREDICT_XLA_STEPS] is Mode.PREDICT_GRAPH_STEPS
    assert Mode.GRAPH.without_xla is None
    for mode, partner in pairs.items():
        if mode.backend != DEFAULT_BACKEND:
            continue
        assert partner is not None
        assert (partner.entry, partner.execution) == (mode.entry, Execution.GRAPH)


def test_every_mode_has_a_name_of_its_own_and_a_switch() -> None:
    assert len({mode.called for mode in Mode}) == len(Mode)
    assert all(mode.switch for mode in Mode)
    assert Mode.PREDICT_XLA_STEPS.switch == "compile(jit_compile=True, steps_per_execution=N)"


def test_fit_on_arrays_is_told_from_fit_on_a_dataset() -> None:
    assert Mode.FIT_NUMPY_XLA.called == "model.fit on NumPy arrays with XLA"
    assert Mode.FIT_XLA.called == "model.fit with XLA"
    assert Mode.FIT_NUMPY_XLA.without_xla is Mode.FIT_NUMPY_GRAPH
    assert is_told_by("fit", "fit_numpy_xla")
    modes = ("fit_graph", "fit_xla", "fit_numpy_graph", "fit_numpy_xla")
    assert baseline_of(modes) == "fit_graph"
    assert headline_candidates(modes) == ("fit_xla",)
    assert ("fit_numpy_graph", "fit_numpy_xla") in comparison_pairs(modes)


def test_a_mode_of_keras_names_its_scenario() -> None:
    assert is_told_by("predict", "predict_on_batch_xla")
    assert is_told_by("fit", "fit_xla_2")
    assert is_told_by("call", "xla")
    assert not is_told_by("predict", "xla_host")
    assert not is_told_by("train_step", "train_on_batch_xla")
    assert Entry.FIT.is_method


def test_a_mode_given_twice_gets_labels_of_its_own() -> None:
    labels = label_modes([Mode.GRAPH, Mode.XLA, Mode.GRAPH, Mode.GRAPH])
    assert labels == ("graph", "xla", "graph_2", "graph_3")
    assert [mode_of(label) for label in labels] == ["graph", "xla", "graph", "graph"]
    assert is_aa_pair("graph", "graph_2")
    assert not is_aa_pair("graph", "xla")
    assert not is_aa_pair("graph", "graph")
    assert label_modes([Mode.PREDICT_XLA] * 2) == ("predict_xla", "predict_xla_2")
    assert is_aa_pair("predict_xla", "predict_xla_2")
    assert not is_aa_pair("predict_xla", "predict_graph")


@pytest.mark.parametrize(
    ("modes", "baseline", "candidates"),
    [
        (("eager", "graph", "xla"), "graph", ("xla",)),
        (("eager", "graph"), "eager", ("graph",)),
        (("graph", "eager"), "eager", ("graph",)),
        (("graph", "graph_2"), "graph", ("graph_2",)),
        (("eager", "xla"), "eager", ("xla",)),
        (("xla", "eager"), "eager", ("xla",)),
        (("xla", "default"), "default", ("xla",)),
        (
            ("call_host", "xla_host", "predict", "predict_graph", "predict_xla"),
            "predict_graph",
            ("predict_xla", "predict"),
        ),
        (("input", "graph", "xla", "fit_graph", "fit_xla"), "fit_graph", ("fit_xla",)),
        (("graph", "train_on_batch_graph", "xla"), "graph", ("xla",)),
        (
            ("eager", "default", "graph", "xla", "autocluster"),
            "graph",
            ("xla", "default", "autocluster"),
        ),
    ],
)
def test_the_headline_baseline_is_graph_mode_where_it_is_measured(
    modes: tuple[str, ...], baseline: str, candidates: tuple[str, ...]
) -> None:
    assert baseline_of(modes) == baseline
    assert headline_candidates(modes) == candidates


@pytest.mark.parametrize("scenario", list(Scenario))
def test_a_scenario_measures_what_its_headline_compares(scenario: Scenario) -> None:
    baseline, candidate = headline_of(scenario)
    modes = label_modes(implied_modes(scenario, "true"))
    assert {baseline, candidate} <= set(modes) <= set(map(str, SCENARIOS[scenario].modes))
    assert (baseline_of(modes), headline_candidates(modes)[0]) == (baseline, candidate)
    assert comparison_pairs(modes)[0] == (baseline, candidate)
    for jit in JIT_CANDIDATES:
        assert set(implied_modes(scenario, jit)) <= set(SCENARIOS[scenario].modes)


def test_torch_compile_is_measured_unless_the_model_is_one_of_a_catalog() -> None:
    own, keras = (implied_modes(Scenario.CALL, "true", "torch", own=own) for own in (True, False))
    assert own == (Mode.TORCH_EAGER, Mode.TORCH_COMPILE, Mode.TORCH_EXPORT)
    assert keras == (Mode.TORCH_EAGER, Mode.TORCH_EXPORT)
    assert headline_candidates(own)[0] == "torch_compile"
    assert implied_modes(Scenario.PREDICT, "true", "torch", own=False)[1:] == (
        Mode.TORCH_PREDICT_COMPILE,
    )
