"""Another process of TensorFlow: its options, its memory, its devices, and fingerprints in it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from factories import TRIAL
from paths import ROOT, SUPPORT
from programs import run_program

from xla_sweeps.backends.tensorflow.modes import ModeExecutable
from xla_sweeps.backends.tensorflow.operations import fingerprint
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.schema.backend import default_backend
from xla_sweeps.schema.modes import MODES
from xla_sweeps.schema.trial import Runtime
from xla_sweeps.trial.workers import worker_environment

pytestmark = pytest.mark.tf

CODE = """
import json, sys
import tensorflow as tf
from xla_sweeps.backends.tensorflow import devices, memory

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
with tf.device("/device:CPU:0"):
    tensor = tf.constant([1, 2], tf.int32)
moved = devices.place_tensor(tensor, "/device:CPU:1")
integers = [moved.backing_device, moved.dtype.name, moved.numpy().tolist()]
integers.append(devices.place_tensor(moved, "/device:CPU:1") is moved)

MIB = tf.random.normal([512, 512])
held, weights = [None], tf.Variable(MIB)

def traced(function, at_most_s=60.0):
    def calls():
        for _ in range(2):
            held[0] = function(MIB)
        held[0] = None
    function(MIB)
    return memory.traced_bytes(calls, at_most_s=at_most_s) / 2**20

def small(x):
    return tf.reduce_sum(tf.exp(x) + tf.sin(x))

def trained(x):
    weights.assign(weights + x)
    return tf.reduce_sum(x)

megabytes = {
    "counted": memory.counted_bytes("/device:CPU:0", "peak"),
    "eager": traced(small),
    "graph": traced(tf.function(small, jit_compile=False)),
    "output": traced(tf.exp),
    "trained": traced(trained),
    "unseen": traced(small, at_most_s=0.0),
    "kept": memory.bytes_of([MIB, weights]) / 2**20,
}

sys.path.insert(0, FOLDER)
from test_other_process import built, found
model = built()
print(json.dumps({
    "environment": devices.loaded_environment(),
    "integers": integers,
    "memory": megabytes,
    "fingerprints": [found(model, mode) for mode in ("autocluster", "xla", "graph")],
}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Findings of a process that has the options of a trial, oneDNN off, and two CPUs."""
    words = ["device=cpu", f"results_dir={tmp_path_factory.mktemp('results')}"]
    asked = settings_of(compose_config(words), environ={})
    runtime = Runtime(
        xla_flags={"xla_cpu_enable_fast_math": "true"},
        intra_threads=5,
        inter_threads=3,
        onednn=False,
    )
    own = worker_environment(replace(TRIAL, runtime=runtime), asked.device, default_backend())
    own |= {"PYTHONHASHSEED": "2", "PYTHONPATH": f"{ROOT}:{SUPPORT}"}
    code = CODE.replace("FOLDER", repr(str(Path(__file__).parent)))
    done = run_program(sys.executable, "-c", code, more=own)
    shown: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return shown


def test_a_trials_options_are_in_force_in_its_process(told: dict[str, Any]) -> None:
    settings = told["environment"]
    assert (settings["intra_op_threads"], settings["inter_op_threads"]) == (5, 3)
    assert settings["onednn"] is False
    assert settings["xla_flags"].split()[-1] == "--xla_cpu_enable_fast_math=true"


def test_what_calls_allocate_is_traced_where_it_is_not_counted(told: dict[str, Any]) -> None:
    megabytes = {**told["memory"]}
    assert megabytes.pop("counted") is None
    assert megabytes.pop("unseen") <= 3.01
    assert megabytes == pytest.approx(
        {
            "eager": 3,  # both operands and their sum
            "graph": 2,  # the sum takes the place of an operand
            "output": 2,  # that of the call before is kept until the next one is done
            "trained": 1,  # the new weights beside the old ones
            "kept": 2,
        },
        abs=0.01,
    )


def test_integers_are_put_into_the_memory_of_the_device(told: dict[str, Any]) -> None:
    where, *rest = told["integers"]
    assert where.endswith("device:CPU:1")
    assert rest == ["int32", [1, 2], True]


class Branching(keras.layers.Layer):
    """Operations whose attributes name functions by how many the process has made."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """One of three branches; each is a function of its own."""
        (python,) = tf.numpy_function(lambda values: [values], [inputs], [tf.float32])
        python.set_shape(inputs.shape)
        branches = (lambda: inputs * 2, lambda: inputs + 1, lambda: python)
        return tf.switch_case(tf.cast(inputs[0, 0] > 0, tf.int32), branches)


def built(activation: str = "relu", units: int = 6) -> keras.Model:
    """A model with a loop, branches, a call of Python, and a convolution that Keras compiles."""
    images = keras.Input((12, 8))
    hidden = keras.layers.Conv1D(8, 3, groups=4, activation=activation)(images)
    hidden = keras.layers.Dropout(0.5)(keras.layers.BatchNormalization()(hidden))
    hidden = keras.layers.Dense(3)(keras.layers.LSTM(units)(hidden))
    return keras.Model(images, Branching()(hidden))


def found(model: keras.Model, mode: str) -> str:
    executable = ModeExecutable.bind(
        lambda batch: model(batch, training=False), MODES[mode], [tf.zeros((2, 12, 8))]
    )
    return fingerprint(executable.concrete)


def test_it_is_equal_in_all_processes_and_modes_in_whatever_order(told: dict[str, Any]) -> None:
    model = built()
    first = [found(model, mode) for mode in ("graph", "xla", "default")]
    second = told["fingerprints"]
    assert len(first) == len(second) == 3
    assert len({*first, *second}) == 1


def test_another_operation_or_shape_gives_another() -> None:
    keras.utils.set_random_seed(1)
    same = found(built(), "graph")
    keras.utils.set_random_seed(2)  # other weights
    assert found(built(), "graph") == same
    assert found(built(activation="gelu"), "graph") != same
    assert found(built(units=7), "graph") != same
