"""A model's fingerprint is its own: in every process and mode, and no other model's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest
import tensorflow as tf

from xla_sweeps.backends.tensorflow.modes import ModeExecutable
from xla_sweeps.backends.tensorflow.operations import fingerprint
from xla_sweeps.schema.modes import MODES

pytestmark = pytest.mark.tf

SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from test_fingerprint import built, found
model = built()
print(*(found(model, mode) for mode in sys.argv[1:]))
"""


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


def in_a_process(*modes: str) -> list[str]:
    script = SCRIPT.format(folder=str(Path(__file__).parent))
    environment = {**os.environ, "PYTHONHASHSEED": "2", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", script, *modes],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_it_is_equal_in_all_processes_and_modes_in_whatever_order() -> None:
    model = built()
    first = [found(model, mode) for mode in ("graph", "xla", "default")]
    second = in_a_process("autocluster", "xla", "graph")
    assert len(first) == len(second) == 3
    assert len({*first, *second}) == 1


def test_another_operation_or_shape_gives_another() -> None:
    keras.utils.set_random_seed(1)
    same = found(built(), "graph")
    keras.utils.set_random_seed(2)  # other weights
    assert found(built(), "graph") == same
    assert found(built(activation="gelu"), "graph") != same
    assert found(built(units=7), "graph") != same
