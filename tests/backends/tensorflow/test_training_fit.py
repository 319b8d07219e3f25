"""`fit`, its input pipeline alone, and its step alone: an epoch each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tf_keras
from tiny_training import TRAIN, Measured, bench_of, network, prepared

from xla_sweeps.backends.tensorflow.scenarios.fit import dataset_of
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import SCENARIOS, Entry, Mode, Scenario, mode_of

pytestmark = pytest.mark.tf

MODES = tuple(map(str, SCENARIOS[Scenario.FIT].modes))

FIT = replace(TRAIN, scenario=Scenario.FIT, batches=4, modes=MODES)


@pytest.fixture(scope="module")
def measured() -> Measured:
    """All modes of a tiny model."""
    bench = bench_of(network, FIT)
    return bench, prepared(bench)


def test_every_mode_of_fit_is_proved_and_trains_as_eager_does(measured: Measured) -> None:
    by_mode: dict[str, Any] = {label: entry.outcome for label, entry in measured[1].items()}
    statuses = {label: outcome.status for label, outcome in by_mode.items()}
    assert statuses == dict.fromkeys(MODES, Status.OK)
    proofs = {label: by_mode[label].effective.get("jit_compile") for label in MODES}
    assert proofs["fit_xla"] is proofs["xla"] is True
    assert proofs["fit_graph"] is proofs["fit_auto"] is proofs["graph"] is False
    assert by_mode["fit_eager"].effective["executing_eagerly"]
    for label, outcome in by_mode.items():
        assert (outcome.agreement.rmse_rel is None) is (label == "input")


def test_an_epoch_of_every_mode_trains_on_the_same_batches(measured: Measured) -> None:
    bench, ready = measured
    trainer = bench.trainer
    expected = None
    for label, entry in ready.items():
        if label == "input" or mode_of(label).entry is Entry.FIT_NUMPY:
            continue
        for _ in range(2):
            entry.executable.prepare()
            entry.executable.step()
            assert int(trainer.optimizer.iterations) == FIT.batches
            weights = trainer.values(None)[0]
            expected = weights if expected is None else expected
            assert np.allclose(weights, expected, rtol=1e-5, atol=1e-6), label
        assert entry.executable.traces() <= 1


@pytest.mark.parametrize("label", ["fit_numpy", "fit_numpy_graph", "fit_numpy_xla"])
def test_fit_on_arrays_trains_on_all_samples_of_an_epoch_which_keras_shuffles(
    measured: Measured, label: str
) -> None:
    bench, ready = measured
    trainer, executable = bench.trainer, ready[label].executable
    _, images, labels = executable.fit_all.args
    assert isinstance(images, np.ndarray)
    assert isinstance(labels, np.ndarray)
    made = list(dataset_of(trainer, FIT.batches))
    assert np.array_equal(images, np.concatenate([batch for batch, _ in made]))
    assert np.array_equal(labels, np.concatenate([batch for _, batch in made]))
    weights = []
    for each in (executable, ready["fit_graph"].executable):
        each.prepare()
        each.step()
        assert int(trainer.optimizer.iterations) == FIT.batches
        weights.append(trainer.values(None)[0])
    shuffled, in_order = weights
    assert not np.allclose(shuffled, in_order, rtol=1e-5, atol=1e-6)
    assert executable.traces() == 1


@pytest.mark.exhaustive
def test_fit_executes_several_steps_at_once_where_that_is_asked() -> None:
    modes = tuple(str(mode) for mode in SCENARIOS[Scenario.FIT].modes if mode is not Mode.INPUT)
    trial = replace(FIT, steps_per_execution=3, modes=modes)
    bench = bench_of(network, trial)
    ready = prepared(bench)
    outcomes = {label: entry.outcome.status for label, entry in ready.items()}
    assert outcomes == dict.fromkeys(modes, Status.OK)
    for label, entry in ready.items():
        asked = getattr(getattr(entry.executable, "model", None), "steps_per_execution", None)
        assert asked == (3 if mode_of(label).entry.fits else None)
        entry.executable.prepare()
        entry.executable.step()
        assert int(bench.trainer.optimizer.iterations) == FIT.batches
        assert entry.executable.traces() <= 1


def test_the_input_pipeline_yields_the_batches_that_the_step_trains_on(measured: Measured) -> None:
    trainer = measured[0].trainer
    made = list(dataset_of(trainer, FIT.batches))
    assert len(made) == FIT.batches
    for (images, labels), (images_given, labels_given) in zip(made, trainer.batches, strict=False):
        assert np.array_equal(images, images_given)
        assert np.array_equal(labels, labels_given)


def test_fit_of_tf_keras_too() -> None:
    inputs = tf_keras.Input((6,))
    model = tf_keras.Model(inputs, tf_keras.layers.Dense(3)(inputs))
    bench = bench_of(lambda: model, replace(FIT, batches=2))
    assert prepared(bench, "fit_graph")["fit_graph"].outcome.status is Status.OK
    assert not isinstance(bench.built.loaded.keras_model, keras.Model)
