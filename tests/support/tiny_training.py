"""Benches of tiny models that train, in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import keras
import tensorflow as tf
from desk import Heard, Ready, prepare_modes, set_up
from factories import TRIAL

from xla_sweeps.backends.keras import sources
from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.tensorflow.scenarios.train import TrainBench
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import InputSpec, ReplicateJob, Training, Trial

TRAIN = replace(
    TRIAL,
    model=replace(TRIAL.model, name="tiny", inputs=(InputSpec(shape=(6,), low=-1, high=1),)),
    scenario=Scenario.TRAIN_STEP,
    training=Training(),
)
"""A trial of `network`."""

Measured = tuple[TrainBench, dict[str, Ready]]
"""A bench, and its modes that are ready."""


def network(*layers: Any, classes: int = 3) -> keras.Model:
    inputs = value = keras.Input((6,))
    for layer in (keras.layers.Dense(8, activation="tanh"), *layers, keras.layers.Dense(classes)):
        value = layer(value)
    return keras.Model(inputs, value)


def loaded(model: Any, trial: Trial) -> LoadedModel:
    return LoadedModel(
        forward=lambda batch, training=False: model(batch, training=training),
        inputs=trial.model.inputs,
        variables=model.variables,
        keras_model=model,
    )


def bench_of(make: Callable[[], Any], trial: Trial, heard: Heard | None = None) -> TrainBench:
    """A bench of the model that `make` builds; it is built again for a reference in float64."""
    job = ReplicateJob(trial=trial, replicate=0, modes=trial.modes, order_seed=1)
    with (
        mock.patch.object(sources, "load", side_effect=lambda spec, **_: loaded(make(), trial)),
        tf.device("/device:CPU:0"),
    ):
        bench = set_up(job, heard)
    assert isinstance(bench, TrainBench)
    return bench


def prepared(bench: TrainBench, *modes: str) -> dict[str, Ready]:
    """Those of a trial's modes, or of some, that are ready to be measured."""
    trial = bench.trial
    job = ReplicateJob(trial=trial, replicate=0, modes=modes or trial.modes, order_seed=1)
    with tf.device("/device:CPU:0"):
        return prepare_modes(job, bench)
