"""Whole trials of models as their owners have them: fresh, frozen, and with odd outputs."""

from __future__ import annotations

from pathlib import Path

import pytest
from other_environments import measured, python_of
from real_trials import SHORT, UNDISTURBED, finished, records

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.measurement import Flag, Status
from xla_sweeps.schema.record import Record

pytestmark = [pytest.mark.tf, pytest.mark.slow]

NETS = """
import keras

def fresh(**more):
    return keras.applications.MobileNetV2(
        weights=None, alpha=0.35, input_shape=(32, 32, 3), **more
    )

def transfer():
    base = fresh(include_top=False)
    base.trainable = False
    inputs = keras.Input((32, 32, 3))
    values = keras.layers.GlobalAveragePooling2D()(base(inputs, training=False))
    return keras.Model(inputs, keras.layers.Dense(5, activation="softmax")(values))

def of_one_layer(function):
    inputs = keras.Input((8,))
    values = keras.layers.Dense(32)(inputs)
    return keras.Model(inputs, keras.layers.Lambda(function)(values))

def half_nan():
    return of_one_layer(lambda values: keras.ops.sqrt(values))

def constant():
    return of_one_layer(lambda values: values * 0 + 3)

build = fresh
"""


def trial_of(folder: Path, model: str) -> tuple[Record, str]:
    """The record of a trial of one of these in graph mode and under XLA, and what it printed."""
    (folder / "nets.py").write_text(NETS)
    own = ("model=local", f"path=nets.py:{model}", "trust_code=true", "batch_size=2")
    more = ("modes=[eager,graph,xla]", "tracker=none", *SHORT)
    _, out, err = finished(*own, *more, cwd=folder, program=UNDISTURBED)
    assert "Traceback" not in err
    [record] = records(folder)
    return record, out


@pytest.mark.parametrize("model", ["fresh", "transfer"])
def test_a_fresh_model_whose_output_is_the_same_for_every_input_gets_an_answer(
    model: str, tmp_path: Path
) -> None:
    record, out = trial_of(tmp_path, model)
    assert {outcome.status for outcome in record.modes.values()} == {Status.OK}
    assert all(outcome.agreement and outcome.agreement.ok for outcome in record.modes.values())
    assert Flag.CALIBRATED in [flagged.flag for flagged in record.flags]
    row = next(row for row in summarize([record]).comparisons if row.candidate.mode == "xla")
    assert row.speedup.value is not None
    assert "its batch normalization was set from one batch" in " ".join(out.split())


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_fresh_model_gets_an_answer_on_other_backends(backend: str, tmp_path: Path) -> None:
    words = (f"backend={backend}", *(["modes=[torch_eager]"] if backend == "torch" else []))
    record = measured(python_of(backend), tmp_path, *words, code=NETS)
    assert {outcome["status"] for outcome in record["modes"].values()} == {"ok"}
    assert [flag["flag"] for flag in record["flags"]].count("calibrated") == 1


def test_nan_in_equal_places_is_no_difference(tmp_path: Path) -> None:
    record, _ = trial_of(tmp_path, "half_nan")
    assert {outcome.status for outcome in record.modes.values()} == {Status.OK}
    assert Flag.CALIBRATED not in [flagged.flag for flagged in record.flags]


def test_an_output_that_shows_nothing_blames_no_mode_and_eager_least(tmp_path: Path) -> None:
    record, out = trial_of(tmp_path, "constant")
    statuses = {label: outcome.status for label, outcome in record.modes.items()}
    assert statuses == {
        "eager": Status.OK,
        "graph": Status.UNVERIFIABLE,
        "xla": Status.UNVERIFIABLE,
    }
    assert "cannot be verified, so no speedup is given: eager's output is constant" in " ".join(
        out.split()
    )
    assert "low and high in input_spec" in " ".join(out.split())
    assert " NO" not in out
    assert Flag.CALIBRATED not in [flagged.flag for flagged in record.flags]
