"""Calls that a function answers which was traced before the weights existed, and healthy ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import built_models
import keras
import numpy as np
import pytest
import tensorflow as tf
from desk import prepare_modes, set_up
from factories import TRIAL
from paths import SUPPORT

from xla_sweeps.api import shipping
from xla_sweeps.backends.tensorflow.explain.explainer import TensorFlowExplainer
from xla_sweeps.backends.tensorflow.sources import shipped
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.explanation import State, TrapName
from xla_sweeps.schema.measurement import ModeOutcome, Status
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import ModelSpec, ReplicateJob, Training

pytestmark = built_models.QUIET

SIZE = 4

MODES = ("eager", "graph", "xla")

FILE: dict[str, Any] = {"path": "net.keras", "import": "decorated_models"}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(SUPPORT))


def own(name: str, **given: Any) -> ModelSpec:
    path = f"{SUPPORT / 'decorated_models.py'}:{name}"
    asked: dict[str, Any] = {"path": path, "input_spec": [{"shape": [16], "low": -1, "high": 1}]}
    return built_models.own(**{**asked, **given})


def job_of(
    name: str, *, modes: tuple[str, ...] = MODES, scenario: str = "call", **given: Any
) -> ReplicateJob:
    """A trial of an own model."""
    training = Training() if scenario == "train_step" else None
    trial = replace(TRIAL, model=own(name, **given), batch_size=SIZE, modes=modes)
    trial = replace(trial, scenario=Scenario(scenario), training=training)
    return ReplicateJob(trial=trial, replicate=1, modes=modes, order_seed=0)


def outcomes(name: str, **asked: Any) -> dict[str, Any]:
    """The outcomes of a trial of an own model, by mode."""
    job = job_of(name, **asked)
    return {label: ready.outcome for label, ready in prepare_modes(job, set_up(job)).items()}


def kinds(outcomes: dict[str, ModeOutcome]) -> dict[str, str]:
    """Of each mode why it does not count, or its status."""
    return {
        label: outcome.failure.kind if outcome.failure else outcome.status.value
        for label, outcome in outcomes.items()
    }


def nightly(*values: Any) -> Any:
    """A case that a smaller daily one covers too."""
    return pytest.param(*values, marks=pytest.mark.exhaustive)


NIGHTLY = ("Compiled", "OneOfTwo", "InALayer", "in_a_functional", "in_a_sequential")


@pytest.mark.parametrize("name", ["Decorated", "Baked", *map(nightly, NIGHTLY)])
def test_weights_that_a_call_does_not_read_are_named_in_every_mode(name: str) -> None:
    unread = ["Variable:0"] if name == "Baked" else ["inner/kernel", "inner/bias"]
    by_mode = outcomes(name)
    assert kinds(by_mode) == dict.fromkeys(MODES, "weights_not_read")
    for outcome in by_mode.values():
        assert outcome.status is Status.WRONG_RESULT
        assert not outcome.agreement.ok
        names = outcome.failure.message.removeprefix("the call never reads ").partition(": ")[0]
        listed = names.partition(" and ")[0].split(", ")
        assert ["/".join(each.split("/")[-2:]) for each in listed] == unread
        assert names.endswith("and 2 more") == (name in ("Decorated", "Compiled"))
        assert "remove the decorator" in outcome.failure.hint


def test_random_numbers_hide_no_weights_that_a_call_does_not_read() -> None:
    by_mode = outcomes("Drawing", modes=("eager", "graph"))
    assert kinds(by_mode) == dict.fromkeys(by_mode, "weights_not_read")


@pytest.mark.parametrize("name", ["Decorated", nightly("Compiled"), nightly("in_a_functional")])
def test_predict_of_such_a_model_is_named_too(name: str) -> None:
    modes = ("graph_host", "predict")
    by_mode = outcomes(name, modes=modes, scenario="predict")
    assert kinds(by_mode) == dict.fromkeys(modes, "weights_not_read")


def test_training_of_such_a_model_is_named_too() -> None:
    modes = ("eager", "train_on_batch_graph")
    by_mode = outcomes("OneOfTwo", modes=modes, scenario="train_step")
    assert kinds(by_mode) == dict.fromkeys(modes, "weights_not_read")
    healthy = outcomes("Unread", modes=modes[:1], scenario="train_step")
    assert "weights_not_read" not in kinds(healthy).values()


def test_a_file_whose_class_has_such_a_call_is_named() -> None:
    import decorated_models

    inputs = keras.Input((16,))
    keras.Model(inputs, keras.layers.Dense(8)(decorated_models.Block()(inputs))).save("net.keras")
    assert kinds(outcomes("", input_spec=None, **FILE)) == dict.fromkeys(MODES, "weights_not_read")


@pytest.mark.parametrize(
    "name", ["Lazy", "function", *map(nightly, ("Plain", "BuiltBefore", "Constant", "of_keras_2"))]
)
def test_a_call_that_reads_its_weights_agrees(name: str) -> None:
    assert kinds(outcomes(name)) == dict.fromkeys(MODES, "ok")


@pytest.mark.parametrize("name", ["closing_over_a_model", "Holding"])
def test_a_callable_has_the_variables_of_the_models_that_it_holds(name: str) -> None:
    built = built_models.build(own(name))
    assert built.params == 16 * 24 + 24 + 24 * 8 + 8
    assert kinds(outcomes(name)) == dict.fromkeys(MODES, "ok")


@pytest.mark.exhaustive
def test_a_file_whose_class_builds_its_layers_before_reads_its_weights() -> None:
    import decorated_models

    model = decorated_models.BuiltBefore()
    model(np.ones((SIZE, 16), "float32"))
    model.save("net.keras")
    assert kinds(outcomes("", **FILE)) == dict.fromkeys(MODES, "ok")


def test_weights_that_were_changed_for_the_check_are_as_they_were() -> None:
    job = job_of("Unread")
    bench = set_up(job)
    before = [np.array(variable) for variable in bench.built.loaded.variables]
    ready = prepare_modes(job, bench)
    assert kinds({label: one.outcome for label, one in ready.items()}) == dict.fromkeys(MODES, "ok")
    for variable, values in zip(bench.built.loaded.variables, before, strict=True):
        assert np.array_equal(variable, values)
    assert not tf.config.functions_run_eagerly()


@pytest.mark.parametrize(
    ("name", "state"), [("Decorated", State.FOUND), nightly("Unread", State.NONE)]
)
def test_explain_names_weights_that_are_not_read(name: str, state: State) -> None:
    explainer = TensorFlowExplainer(set_up(job_of(name)), lambda event: None)
    traps = {trap.name: trap for trap in explainer.explain(trace=False).traps}
    trap = traps[TrapName.WEIGHTS_NOT_READ]
    assert trap.state is state
    assert ("remove the decorator" in trap.fix) == (state is State.FOUND)


def test_a_shipped_model_that_ignores_its_weights_is_refused_for_it(tmp_path: Path) -> None:
    import decorated_models

    model, batch = decorated_models.Decorated(), np.ones((SIZE, 16), "float32")
    model(batch)
    words = shipping.options_for(model, batch, None, results_dir=tmp_path)
    with pytest.raises(XlaSweepsError, match=r"Decorated\.call is a function that was traced"):
        shipped.load(Path(words["path"]).parent)
