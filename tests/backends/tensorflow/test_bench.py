"""Work of a replicate before it measures: the float64 reference and the counts, if needed."""

from __future__ import annotations

import gc
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from desk import Heard, prepare_modes, set_up
from factories import TRIAL

from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.trial import InputSpec, ReplicateJob, Trial

pytestmark = pytest.mark.tf

SMALL = replace(
    TRIAL,
    model=replace(
        TRIAL.model,
        name="mobilenet_v1",
        recipe={"constructor": "MobileNet", "arguments": {"alpha": 0.25}},
        inputs=(InputSpec(shape=(32, 32, 3)),),
        resolution_px=32,
    ),
    batch_size=2,
)

PUBLISH = replace(SMALL, effort=replace(SMALL.effort, always_reference=True))


def job(trial: Trial, replicate: int = 0) -> ReplicateJob:
    modes = ("graph",)
    return ReplicateJob(trial=trial, replicate=replicate, modes=modes, order_seed=1)


@pytest.fixture(scope="module")
def bench() -> Bench:
    with tf.device("/device:CPU:0"):
        return set_up(job(SMALL), Heard())


def test_the_reference_is_computed_once_a_mode_is_not_close_to_eager(bench: Bench) -> None:
    prepared = prepare_modes(job(SMALL), bench, Heard())
    assert prepared["graph"].outcome.status is Status.OK
    assert bench.reference is None
    assert "reference" not in bench.seconds
    noise = np.random.default_rng(1).normal(size=bench.eager[0].shape)
    scale = np.abs(bench.eager[0]).max()
    inexact = replace(bench, seconds={}, eager=[bench.eager[0] + 1e-3 * scale * noise])
    outcome = prepare_modes(job(SMALL), inexact, Heard())["graph"].outcome
    assert inexact.reference is not None
    assert outcome.status is Status.OK  # eager is further from float64 than graph is
    assert outcome.agreement is not None
    assert outcome.agreement.rmse_ref_rel is not None


def test_publish_computes_the_reference_in_the_first_replicate() -> None:
    assert set_up(job(PUBLISH, 0), Heard()).reference is not None
    assert set_up(job(PUBLISH, 1), Heard()).reference is None


def test_the_float64_model_is_gone_before_the_next_mode(bench: Bench) -> None:
    gc.collect()
    gc.disable()
    try:
        replace(bench, seconds={}).add_reference(Heard().send)
        wide = [variable for variable in gc.get_objects() if isinstance(variable, keras.Variable)]
    finally:
        gc.enable()
    dtypes = {variable.dtype for variable in wide}
    assert "float32" in dtypes
    assert "float64" not in dtypes
