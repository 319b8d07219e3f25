"""`fit` on pictures: an epoch of real batches, and its last, smaller one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from factories import TRIAL
from made_pictures import data_of, make_pictures
from tiny_training import Measured, bench_of, prepared

from xla_sweeps.backends.tensorflow.scenarios.fit import dataset_of
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import InputSpec, Training, Trial

pytestmark = pytest.mark.tf

MODES = ("input", "xla", "fit_xla")
"""Modes that take data, differ, and compile for the last batch."""

PICTURES, CLASSES, BATCH, SIDE = 10, 3, 4, 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("pictures")
    make_pictures(folder, images=PICTURES, classes=CLASSES)
    return str(folder)


def trial_of(folder: str, *, drop_remainder: bool = False, **changes: Any) -> Trial:
    inputs = (InputSpec(shape=(SIDE, SIDE, 3), low=-1, high=1),)
    trial = replace(
        TRIAL,
        model=replace(TRIAL.model, name="tiny", inputs=inputs),
        scenario=Scenario.FIT,
        training=Training(data=data_of(folder, drop_remainder=drop_remainder)),
        batch_size=BATCH,
        batches=PICTURES // BATCH if drop_remainder else -(-PICTURES // BATCH),
        modes=MODES,
    )
    return replace(trial, **changes)


def classifier(classes: int = CLASSES) -> Callable[[], keras.Model]:
    def made() -> keras.Model:
        inputs = keras.Input((SIDE, SIDE, 3))
        value = keras.layers.Conv2D(4, 3, strides=2, activation="tanh")(inputs)
        value = keras.layers.Flatten()(value)
        return keras.Model(inputs, keras.layers.Dense(classes)(value))

    return made


@pytest.fixture(scope="module")
def measured(folder: str) -> Measured:
    """Modes of a tiny model on pictures, the last batch of two."""
    bench = bench_of(classifier(), trial_of(folder))
    return bench, prepared(bench)


def test_every_mode_trains_on_pictures_as_eager_does(measured: Measured) -> None:
    by_mode = {label: entry.outcome for label, entry in measured[1].items()}
    statuses = {label: outcome.status for label, outcome in by_mode.items()}
    assert statuses == dict.fromkeys(MODES, Status.OK)
    assert by_mode["fit_xla"].effective["jit_compile"] is True


def test_an_epoch_of_every_mode_has_all_batches_the_last_one_smaller(measured: Measured) -> None:
    bench, ready = measured
    trainer = bench.trainer
    assert bench.trial.samples == PICTURES
    sizes = [len(labels) for _, labels in dataset_of(trainer, bench.trial.batches)]
    assert sizes == [4, 4, 2]
    for label, entry in ready.items():
        for _ in range(2):
            entry.executable.prepare()
            entry.executable.step()
            steps = 0 if label == "input" else len(sizes)
            assert int(trainer.optimizer.iterations) == steps, label


def test_compiling_for_the_last_batch_is_told_apart(measured: Measured) -> None:
    epochs = {label: entry.executable for label, entry in measured[1].items()}
    compile_s = {label: each.extras().get("last_batch_compile_s") for label, each in epochs.items()}
    assert compile_s["input"] is None
    for label in ("xla", "fit_xla"):
        most_s = 0.5 * epochs[label].last_batch_s
        assert compile_s[label] > most_s, "most of the first step is compilation"


def test_without_the_last_batch_all_are_of_one_size(folder: str) -> None:
    bench = bench_of(classifier(), trial_of(folder, drop_remainder=True))
    ready, trainer = prepared(bench, "graph", "fit_graph"), bench.trainer
    assert bench.trial.samples == 8
    assert [len(labels) for _, labels in dataset_of(trainer, bench.trial.batches)] == [4, 4]
    for entry in ready.values():
        assert entry.outcome.status is Status.OK
        assert entry.executable.extras() == {}
        entry.executable.prepare()
        entry.executable.step()
        assert int(trainer.optimizer.iterations) == 2


def test_part_of_an_epoch_has_full_batches(folder: str) -> None:
    bench = bench_of(classifier(), trial_of(folder, batches=2))
    assert bench.trial.samples == 8
    assert [len(labels) for _, labels in dataset_of(bench.trainer, 2)] == [4, 4]


def test_pictures_are_scaled_as_the_model_takes_and_keep_their_classes(measured: Measured) -> None:
    batches = zip(*measured[0].trainer.batches, strict=True)
    images, labels = (np.concatenate([np.asarray(part) for part in parts]) for parts in batches)
    assert images.shape[1:] == (SIDE, SIDE, 3)
    assert -1 <= images.min() < -0.2 < 0.2 < images.max() <= 1
    for label in set(labels.tolist()):
        mean = images[labels == label].mean(axis=(0, 1, 2))
        hue = np.cos(2 * np.pi * (label / CLASSES + np.arange(3) / 3))
        assert np.argmax(mean) == np.argmax(hue), "the colour of its class"


def test_a_picture_that_a_later_call_cannot_decode_is_named(tmp_path: Path) -> None:
    make_pictures(tmp_path, images=PICTURES, classes=CLASSES, form="folder")
    ready = prepared(bench_of(classifier(), trial_of(str(tmp_path))), "input", "fit_graph")
    bad = next(tmp_path.rglob("*.jpg"))
    bad.write_bytes(bad.read_bytes()[:100])
    for entry in ready.values():
        entry.executable.prepare()
        with pytest.raises(XlaSweepsError, match=f"{bad} cannot be decoded"):
            entry.executable.step()


@pytest.mark.parametrize(
    ("make", "changes", "complaint"),
    [
        (classifier(2), {}, "has labels from 0 to 2, but the model's head has 2 outputs"),
        (
            classifier(),
            {"model": replace(TRIAL.model, name="flat", inputs=(InputSpec(shape=(6,)),))},
            r"flat does not take pictures: expected one input \[side, side, 3\], found \[6\]",
        ),
    ],
)
def test_what_does_not_fit_the_pictures_is_refused(
    folder: str, make: Callable[[], keras.Model], changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        bench_of(make, trial_of(folder, **changes))


def test_pictures_that_changed_since_they_were_counted_are_refused(tmp_path: Path) -> None:
    make_pictures(tmp_path, images=4, classes=10)
    data = replace(data_of(str(tmp_path)), fingerprint="0" * 16)
    with pytest.raises(ConfigError, match="changed since the trial was asked for"):
        bench_of(classifier(10), trial_of(str(tmp_path), training=Training(data=data)))
