"""Whole trials of models as their owners have them: fresh, frozen, and with odd outputs."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import command
from other_environments import measured, python_of
from real_trials import SHORT, finished, records

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.measurement import Flag, Status

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

def faint():
    inputs = values = keras.Input((8,))
    for _ in range(6):
        small = keras.initializers.RandomNormal(stddev=0.01)
        values = keras.layers.Dense(16, kernel_initializer=small)(values)
        values = keras.layers.BatchNormalization()(values)
    return keras.Model(inputs, keras.layers.Dense(5, activation="softmax")(values))

def half_nan():
    return of_one_layer(lambda values: keras.ops.sqrt(values))

def constant():
    return of_one_layer(lambda values: values * 0 + 3)

build = fresh
"""

CALIBRATED = "calibrated"

CONSTANT = "cannot be verified, so no speedup is given: eager's output is constant"


@pytest.mark.parametrize(
    ("model", "status", "says"),
    [
        ("faint", Status.OK, CALIBRATED),
        ("fresh", Status.OK, CALIBRATED),
        ("transfer", Status.OK, CALIBRATED),
        ("half_nan", Status.OK, ""),
        ("constant", Status.UNVERIFIABLE, CONSTANT),
    ],
)
@pytest.mark.exhaustive
def test_an_odd_output_is_calibrated_verified_or_said_to_show_nothing(
    model: str, status: Status, says: str, tmp_path: Path
) -> None:
    (tmp_path / "nets.py").write_text(NETS)
    own = ("model=local", f"path=nets.py:{model}", "trust_code=true", "batch_size=2")
    more = ("modes=[eager,graph,xla]", "tracker=none", *SHORT)
    _, out, err = finished(*own, *more, cwd=tmp_path, program="undisturbed")
    assert "Traceback" not in err
    [record] = records(tmp_path)
    statuses = {label: outcome.status for label, outcome in record.modes.items()}
    assert statuses == {"eager": Status.OK, "graph": status, "xla": status}
    calibrated = Flag.CALIBRATED in [flagged.flag for flagged in record.flags]
    assert calibrated is (says == CALIBRATED)
    assert says in " ".join(out.split())
    rows = [row for row in summarize([record]).comparisons if row.candidate.mode == "xla"]
    assert any(row.speedup.value for row in rows) is (says != CONSTANT)
    assert ("low and high in input_spec" in " ".join(out.split())) is (says == CONSTANT)
    assert " NO" not in out


@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_fresh_model_gets_an_answer_on_other_backends(backend: str, tmp_path: Path) -> None:
    words = (f"backend={backend}", *(["modes=[torch_eager]"] if backend == "torch" else []))
    record = measured(python_of(backend), tmp_path, *words, code=NETS)
    assert {outcome["status"] for outcome in record["modes"].values()} == {"ok"}
    assert [flag["flag"] for flag in record["flags"]].count("calibrated") == 1


MISTAKEN = """
import keras

def free():
    return keras.Sequential([keras.layers.Dense(3)])

def nothing():
    pass

def fixed():
    return keras.Sequential([keras.Input((8,), batch_size=2), keras.layers.Dense(3)])

def broken():
    raise ValueError("no such file")

def imports():
    import nothing_here

def late():
    import tensorflow
    tensorflow.config.threading.set_intra_op_parallelism_threads(1)

def old():
    import tensorflow
    tensorflow.compat.v1.disable_eager_execution()

def large():
    raise MemoryError("for the weights")
"""

SWEEP = """
method: grid
parameters:
  batch_size: {values: [3]}
"""


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("path=mistaken.py:fixed batch_size=3", "for batches of 2; use batch_size=2"),
        *(
            pytest.param(f"path=mistaken.py:{name}", says, marks=pytest.mark.exhaustive)
            for name, says in {
                "broken": "failed: ValueError: no such file (mistaken.py:14)",
                "free": "path=mistaken.py:free: unknown inputs; give resolution=",
                "nothing": "path=mistaken.py:nothing returned a NoneType, which cannot",
                "imports": "No module named 'nothing_here' (mistaken.py:17)",
                "late": "after initialization; TensorFlow has started by then: use the options",
                "old": "the model's code switches eager execution off",
            }.items()
        ),
    ],
)
def test_a_request_that_the_model_refuses_leaves_no_record_and_no_run(
    asked: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "mistaken.py").write_text(MISTAKEN)
    own = ("model=local", "trust_code=true", *asked.split(), "modes=[graph,xla]")
    code, out, err = finished(*own, *SHORT, cwd=tmp_path)
    assert (code, out) == (2, ""), err
    assert err.splitlines()[-1].startswith("xla-sweeps: ")
    assert says in err.splitlines()[-1]
    assert not list(tmp_path.rglob("records/*/*"))
    assert not list(tmp_path.rglob("*run-*"))


@pytest.mark.exhaustive
def test_a_model_without_memory_is_a_row_and_a_run(tmp_path: Path) -> None:
    (tmp_path / "mistaken.py").write_text(MISTAKEN)
    own = ("model=local", "trust_code=true", "modes=[graph,xla]", *SHORT)
    tracked = ("path=mistaken.py:large", "tracker=wandb_offline")
    code, out, _ = finished(*own, *tracked, cwd=tmp_path)
    assert (code, "MemoryError: for the weights" in out) == (1, True)
    assert [record.status for record in records(tmp_path)] == [Status.OOM_HOST]
    assert len(list(tmp_path.rglob("offline-run-*"))) == 1


def test_a_model_that_refuses_what_a_sweep_asks_for_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "mistaken.py").write_text(MISTAKEN)
    (tmp_path / "s.yaml").write_text(SWEEP)
    own = ("model=local", "trust_code=true", "path=mistaken.py:fixed", "modes=[graph,xla]", *SHORT)
    words = (*own, "tracker=none", "effort.duplicates=0")
    done = command("sweep", "s.yaml", *words, cwd=tmp_path)
    assert "for batches of 2; use batch_size=2" in done.stdout, done.stderr
    assert [record.status for record in records(tmp_path)] == [Status.BUILD_ERROR]
