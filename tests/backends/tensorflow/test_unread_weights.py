"""Calls that a function answers which was traced before the weights existed, and healthy ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from desk import prepare_modes, set_up
from factories import TRIAL
from paths import SUPPORT

from xla_sweeps.config import local_model
from xla_sweeps.schema.measurement import ModeOutcome, Status
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import ReplicateJob

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

SIZE = 4

MODES = ("eager", "graph", "xla")

FILE = {"path": "net.keras", "import": "decorated_models"}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(SUPPORT))
    yield
    keras.backend.clear_session()


def outcomes(
    name: str, *, modes: tuple[str, ...] = MODES, scenario: str = "call", **given: Any
) -> dict[str, ModeOutcome]:
    """What a trial of an own model says of its modes."""
    asked = {
        "model": {"name": "local"},
        "path": f"{SUPPORT / 'decorated_models.py'}:{name}",
        "trust_code": True,
        "input_spec": [{"shape": [16], "low": -1, "high": 1}],
    }
    spec = local_model.user_model_spec({**asked, **given})
    trial = replace(TRIAL, model=spec, batch_size=SIZE, modes=modes, scenario=Scenario(scenario))
    job = ReplicateJob(trial=trial, replicate=1, modes=modes, order_seed=0)
    prepared = prepare_modes(job, set_up(job))
    return {label: ready.outcome for label, ready in prepared.items()}


def kinds(outcomes: dict[str, ModeOutcome]) -> dict[str, str]:
    """Of each mode why it does not count, or its status."""
    return {
        label: outcome.failure.kind if outcome.failure else outcome.status.value
        for label, outcome in outcomes.items()
    }


INNER = ["inner/kernel", "inner/bias"]


@pytest.mark.parametrize(
    ("name", "unread"),
    [
        ("Decorated", [*INNER, "outer/kernel", "outer/bias"]),
        ("Compiled", [*INNER, "outer/kernel", "outer/bias"]),
        ("OneOfTwo", INNER),
        ("InALayer", INNER),
        ("in_a_functional", INNER),
        ("in_a_sequential", INNER),
        ("Baked", ["Variable:0"]),
    ],
)
def test_weights_that_a_call_does_not_read_are_named_in_every_mode(
    name: str, unread: list[str]
) -> None:
    found = outcomes(name)
    assert kinds(found) == dict.fromkeys(MODES, "weights_not_read")
    for outcome in found.values():
        assert outcome.status is Status.WRONG_RESULT
        assert outcome.agreement is not None
        assert not outcome.agreement.ok
        assert outcome.failure is not None
        names = outcome.failure.message.removeprefix("the call never reads ").partition(": ")[0]
        assert ["/".join(each.split("/")[-2:]) for each in names.split(", ")] == unread
        assert "remove the decorator" in outcome.failure.hint


@pytest.mark.parametrize("name", ["Decorated", "Compiled", "in_a_functional"])
def test_predict_of_such_a_model_is_named_too(name: str) -> None:
    modes = ("call_host", "graph_host", "xla_host", "predict", "predict_xla")
    found = outcomes(name, modes=modes, scenario="predict")
    assert kinds(found) == dict.fromkeys(modes, "weights_not_read")


def test_a_file_whose_class_has_such_a_call_is_named() -> None:
    import decorated_models

    inputs = keras.Input((16,))
    keras.Model(inputs, keras.layers.Dense(8)(decorated_models.Block()(inputs))).save("net.keras")
    found = outcomes("", input_spec=None, **FILE)
    assert kinds(found) == dict.fromkeys(MODES, "weights_not_read")


@pytest.mark.parametrize(
    "name",
    ["Plain", "BuiltBefore", "Lazy", "Unread", "Constant", "function", "of_keras_2"],
)
def test_a_call_that_reads_its_weights_agrees(name: str) -> None:
    found = outcomes(name)
    assert kinds(found) == dict.fromkeys(MODES, "ok")


def test_weights_that_were_changed_for_the_check_are_as_they_were() -> None:
    import decorated_models

    model = decorated_models.Plain()
    model(np.zeros((SIZE, 16), "float32"))
    model.save("net.keras")
    decorated_models.kept = model.get_weights()
    Path("own.py").write_text(
        "import keras, decorated_models\n"
        "model = keras.models.load_model('net.keras', custom_objects=vars(decorated_models))\n"
        "def build():\n    return model\n"
    )
    outcomes("", path="own.py:build")
    import sys

    for before, after in zip(
        model.get_weights(), sys.modules["own"].model.get_weights(), strict=True
    ):
        assert np.array_equal(before, after)
