"""Training as a user's model brings it: its optimizer, its metrics, and its own `train_step`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import built_models
import keras
import numpy as np
import pytest
from desk import Heard, prepare_modes, set_up
from factories import TRIAL
from paths import SUPPORT

from xla_sweeps.backends.keras import own_training
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.measurement import Flag, ModeOutcome, Status
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import COMPILED, ReplicateJob, Training
from xla_sweeps.trial import protocol
from xla_sweeps.worker.learning import FirstSteps

pytestmark = built_models.QUIET

STEPS = ("eager", "graph", "xla", "train_on_batch_xla")

FITS = ("graph", "xla", "fit_graph", "fit_xla")

NAMES = {
    **dict.fromkeys(("Named", "Recalled"), ("user", "item")),
    "Arguments": ("item", "user"),
    "in_order": ("second", "first"),
}
"""Inputs of models that have several, in the order of `input_spec`."""


def job_of(function: str, scenario: str = "train_step", modes: Any = STEPS) -> ReplicateJob:
    inputs = [
        {"shape": [6], "low": (low := 2 if name == "second" else -1), "high": low + 2, "name": name}
        for name in NAMES.get(function, ("",))
    ]
    path = f"{SUPPORT / 'own_training_models.py'}:{function}"
    spec = built_models.own(path, input_spec=inputs)
    training = Training(optimizer=COMPILED)
    trial = replace(
        TRIAL, model=spec, batch_size=4, modes=modes, scenario=Scenario(scenario), training=training
    )
    return ReplicateJob(trial=trial, replicate=1, modes=modes, order_seed=0)


def measure(function: str, **given: Any) -> tuple[dict[str, Any], list[str]]:
    """The outcomes of a trial once its modes are ready, and its caveats."""
    job, heard = job_of(function, **given), Heard()
    prepare_modes(job, set_up(job, heard), heard)
    caveats = [one.flagged.flag for one in heard.events if isinstance(one, protocol.Caveat)]
    return heard.outcomes, caveats


def statuses(outcomes: dict[str, ModeOutcome]) -> dict[str, str]:
    return {label: str(one.status) for label, one in outcomes.items()}


RANDOM = ("gan", "VAE", "seeded_vae")
"""Models that draw random numbers in a step."""


@pytest.mark.parametrize(
    "function",
    [
        *("pairs", "gan", "Named", "Recalled", "Arguments", "in_order", "own_loss"),
        *("gathering", "added", "summing"),
        *(pytest.param(each, marks=pytest.mark.exhaustive) for each in RANDOM[1:]),
    ],
)
def test_every_mode_trains_by_the_models_own_step(function: str) -> None:
    outcomes, caveats = measure(function)
    assert statuses(outcomes) == dict.fromkeys(STEPS, "ok")
    assert caveats == [Flag.RANDOM_LAYERS] * (function in RANDOM)


def test_a_step_may_return_the_loss_itself() -> None:
    outcomes, _ = measure("bare", modes=("eager", "graph", "xla"))
    assert statuses(outcomes) == dict.fromkeys(("eager", "graph", "xla"), "ok")


@pytest.mark.parametrize(
    ("function", "modes"),
    [
        *(("VAE", FITS), ("Named", FITS), ("own_loss", FITS), ("added", FITS)),
        pytest.param("masked", ("graph", "fit_graph"), id="outputs that are masked"),
        *(pytest.param(each, FITS, marks=pytest.mark.exhaustive) for each in ("pairs", "gan")),
    ],
)
def test_fit_trains_by_the_models_own_step(function: str, modes: tuple[str, ...]) -> None:
    outcomes, _ = measure(function, scenario="fit", modes=modes)
    assert statuses(outcomes) == dict.fromkeys(modes, "ok")


def test_an_own_step_that_computes_something_else_in_a_graph_is_told() -> None:
    for function in ("wrong", "wrong_loss", "WrongVAE"):
        outcomes, _ = measure(function, modes=("graph",))
        assert outcomes["graph"].status is Status.WRONG_RESULT
    assert "draws of random numbers, eager's" in outcomes["graph"].failure.message


def test_a_loss_that_is_not_finite_is_no_random_number() -> None:
    outcomes, _ = measure("counting", modes=("eager", "graph"))
    assert outcomes["eager"].status is Status.OK
    assert outcomes["graph"].status is Status.UNVERIFIABLE
    said = outcomes["graph"].failure.message
    assert said == "eager's own loss or gradients are not finite"


def test_the_optimizer_and_the_metrics_are_those_that_it_is_compiled_with() -> None:
    bench: Any = set_up(job_of("autoencoder"))
    optimizer, own = bench.trainer.optimizer, bench.trainer.model.optimizer
    assert optimizer is not own
    assert type(optimizer) is type(own) is keras.optimizers.Adam
    assert optimizer.beta_1 == 0.5
    assert float(optimizer.learning_rate) == pytest.approx(0.02)  # the first of its schedule
    losses = bench.bind("train_on_batch_xla").run(bench.trainer.batches[0])
    assert len(losses) == 2  # the loss, and the metric


@pytest.mark.parametrize("function", ["own_loss", "pairs"])
def test_a_loss_of_ones_own_is_trained_with_the_optimizer_that_is_asked_for(function: str) -> None:
    job = job_of(function)
    asked = replace(job.trial, training=Training(optimizer="adam", learning_rate=0.25))
    bench: Any = set_up(replace(job, trial=asked))
    used = bench.trainer.optimizer
    assert used is bench.trainer.model.optimizer
    kind_and_rate = type(used), float(used.learning_rate)
    own = keras.optimizers.RMSprop, pytest.approx(0.001)  # which a train_step of its own keeps
    assert kind_and_rate == ((keras.optimizers.Adam, 0.25) if function == "own_loss" else own)
    bench.trainer.run_eagerly()
    executable = bench.bind("graph")
    steps = bench.trainer.first_steps(executable, lambda: executable)
    assert bench.trainer.compare(steps).ok


def test_a_step_of_class_scores_gets_class_labels_though_layers_add_a_penalty() -> None:
    loaded = built_models.build(job_of("regularized").trial.model).loaded
    inputs = [np.ones((4, 6), "float32")] * 2
    taken = own_training.batches_for(loaded, job_of("regularized").trial, inputs, [], run=_unpack)
    assert [(str(labels.dtype), tuple(labels.shape)) for _, labels in taken] == [
        ("<dtype: 'int32'>", (4,))
    ] * 2


def _unpack(batch: Any) -> None:
    _, labels = batch
    assert labels.shape == (4,)


def test_a_step_that_takes_no_data_is_said_with_its_reason() -> None:
    with pytest.raises(Exception, match="inputs alone: ValueError: no data fits"):
        set_up(job_of("broken"))


def test_a_step_that_returns_nothing_is_refused_with_what_it_returns_elsewhere() -> None:
    with pytest.raises(XlaSweepsError, match=r"returns no loss; return it, as in {'loss': loss}"):
        set_up(job_of("silent"))


def test_weights_of_a_strategy_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"tf.distribute strategy, and training is measured on"):
        set_up(job_of("mirrored"))


def test_steps_with_other_random_numbers_change_the_weights_alike() -> None:
    def steps(size: float) -> Any:
        return FirstSteps(loss=1.0, updates=(np.full(4, size),))

    assert own_training.unlike(steps(1.5), steps(1.0)) == ""
    assert "changes the weights by 6, eager's by 2" in own_training.unlike(steps(3), steps(1))
    assert "not finite" in own_training.unlike(steps(np.nan), steps(1))
