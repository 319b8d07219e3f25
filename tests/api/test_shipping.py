"""Models in memory, shipped to a fresh process: loaded there, or refused in one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from paths import ROOT
from programs import run_program

LOAD = """
import json, os, pickle, sys
import keras
import tensorflow as tf
from pathlib import Path
loads, ships = map(os.fdopen, os.pipe(), "rw")
if not os.fork():  # a process that knows none of what follows
    ships.close()
    from xla_sweeps.backends.tensorflow.sources import shipped
    outcome = {}
    folders = json.load(loads)
    for name, path in folders.items():
        try:
            model = shipped.load(Path(path).parent)
            is_compiled = getattr(model, "compiled", getattr(model, "_is_compiled", False))
            compiled = " compiled" * is_compiled
            outcome[name] = type(model).__name__ + compiled
        except Exception as error:
            outcome[name] = f"failed: {error!r}"[:300]
    folder = Path(folders["sequential"]).parent
    code = pickle.loads((folder / "code.pickle").read_bytes())
    code["outputs"] = [each + 1 for each in code["outputs"]]
    (folder / "code.pickle").write_bytes(pickle.dumps(code))
    try:
        shipped.load(folder)
    except Exception as error:
        outcome["other outputs"] = str(error)
    print(json.dumps({"folders": folders, "outcome": outcome}), flush=True)
    os._exit(0)
loads.close()
"""

CELLS = """
import json, sys, time
from unittest import mock
import numpy as np
import keras
import tensorflow as tf
import tf_keras
from keras import layers
from xla_sweeps.api import shipping
from xla_sweeps.config import own_inputs
from xla_sweeps.errors import ConfigError
from pathlib import Path

FACTOR = 3.0
class Scale(layers.Layer):
    def __init__(self, by=1.0, **more):
        super().__init__(**more)
        self.by = by
    def call(self, x):
        return x * self.by * FACTOR
    def get_config(self):
        return {**super().get_config(), "by": self.by}
@keras.saving.register_keras_serializable()
class Shift(Scale):
    pass
@keras.saving.register_keras_serializable("mine", name="twice")
def double(x):
    return x * 2
class Ones(keras.initializers.Initializer):
    def __call__(self, shape, dtype=None):
        return keras.ops.ones(shape, dtype)
@keras.saving.register_keras_serializable()
class Small(keras.constraints.Constraint):
    def __call__(self, weights):
        return weights * 0.1
class Far(keras.losses.Loss):
    def call(self, wanted, given):
        return keras.ops.mean(wanted - given)
class Near(keras.metrics.Mean):
    def update_state(self, wanted, given, sample_weight=None):
        return super().update_state(keras.ops.mean(wanted - given))
def apart(wanted, given):
    return keras.ops.mean(wanted - given)
class Plain(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(3)
    def call(self, x, training=False):
        return self.dense(x)
class OfName(Plain):
    def call(self, inputs, training=False):
        return self.dense(inputs["inputs"])
class OfNameBefore(tf_keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf_keras.layers.Dense(3)
    def call(self, inputs):
        return self.dense(inputs["inputs"])
class Sized(keras.Model):
    def __init__(self, size):
        super().__init__()
        self.dense = layers.Dense(size)
        self.activation = lambda x: x
    def call(self, x):
        return self.dense(x)
class Counter(Plain):
    def __init__(self):
        super().__init__()
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)
    def call(self, x, training=False):
        self.calls.assign_add(1.0)
        return super().call(x) * self.calls, None
class Counting(Plain):
    def __init__(self):
        super().__init__()
        self.calls = tf.Variable(0.0)
    def call(self, x, training=False):
        self.calls.assign_add(1.0)
        return super().call(x) * self.calls
class Module(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(tf.ones((4, 2)))
    def __call__(self, x):
        return x @ self.weights
class Trained(keras.Model):
    def train_step(self, data):
        return {"loss": 0.0}
def functional(middle):
    given = keras.Input((4,))
    return keras.Model(given, middle(given))
def tied():
    given = keras.Input((4,))
    shared = layers.Dense(4)
    return keras.Model(given, shared(shared(given)))
def named():
    one, two = keras.Input((4,), name="one"), keras.Input((4,), name="two")
    return keras.Model({"one": one, "two": two}, layers.Dense(2)(layers.Add()([one, two])))
def mixed():
    return keras.Sequential([keras.Input((4,)), layers.Dense(3, dtype="mixed_bfloat16")])
def own_parts():
    dense = layers.Dense(3, double, kernel_initializer=Ones(), kernel_constraint=Small())
    return functional(lambda x: Shift(2.0)(dense(x)))
def own_compiled():
    model = functional(layers.Dense(3))
    model.compile("adam", Far(), metrics=[Near(), apart])
    return model
def own_compiled_with(library):
    class Away(library.losses.Loss):
        def call(self, wanted, given):
            return tf.reduce_mean(wanted - given)
    class Close(library.metrics.Mean):
        def __init__(self):
            super().__init__()
        def update_state(self, wanted, given, sample_weight=None):
            return super().update_state(tf.reduce_mean(wanted - given))
    class Step(library.optimizers.SGD):
        pass
    class Slow(library.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.1
        def get_config(self):
            return {}
    given = library.Input((4,))
    model = library.Model(given, library.layers.Dense(3)(given))
    model.compile(Step(Slow()), Away(), metrics=[Close()])
    return model
def trained():
    given = keras.Input((4,))
    return Trained(given, layers.Dense(2)(given))
def with_arguments(library):
    given = library.Input((4,))
    middle = library.layers.Lambda(
        lambda x, by, how: x * by[0] if how == "times" else x * FACTOR,
        output_shape=lambda shape: shape,
        mask=lambda x, mask: None,
        arguments={"by": [2.0], "how": "times"},
    )
    return library.Model(given, middle(given))
batch = np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)
CASES = {
    "functional": (functional(layers.Dense(3)), None),
    "sequential": (keras.Sequential([keras.Input((4,)), layers.Dense(3)]), None),
    "custom layer": (functional(lambda x: Scale(2.0)(layers.Dense(2)(x))), None),
    "lambda with a global": (functional(layers.Lambda(lambda x: x * FACTOR)), None),
    "lambda with arguments": (with_arguments(keras), None),
    "lambda with arguments of tf_keras": (with_arguments(tf_keras), None),
    "subclassed": (Plain(), batch),
    "argument of one name": (Plain(), {"x": batch}),
    "dictionary of one name": (OfName(), {"inputs": batch}),
    "dictionary of one name in tf_keras": (OfNameBefore(), {"inputs": batch}),
    "tied": (tied(), None),
    "dict": (named(), {"one": batch, "two": batch}),
    "mixed": (mixed(), None),
    "train_step": (trained(), None),
    "own parts": (own_parts(), None),
    "own loss and metrics": (own_compiled(), None),
    "own optimizer and schedule": (own_compiled_with(keras), None),
    "own optimizer and schedule of tf_keras": (own_compiled_with(tf_keras), None),
    "builder": (lambda: functional(layers.Dense(3)), None),
    "counter": (Counter(), batch),
    "module": (Module(), batch),
    "layer": (layers.Dense(3), batch),
    "call": (lambda x: x * FACTOR, batch),
}
"""

SHIP = (
    LOAD
    + CELLS
    + """
LATER = time.gmtime(2e9)
folders = {}
given = pictures = keras.Input((None, None, 3))
for _ in range(4):  # too small at 16 pixels
    pictures = layers.MaxPooling2D(2)(layers.Conv2D(2, 3)(pictures))
large = shipping.options_for(
    keras.Model(given, pictures), None, None, results_dir=Path("results"), resolution=64
)
folders["at a resolution"] = large["path"]
for name, (model, inputs) in CASES.items():
    words = shipping.options_for(model, inputs, None, results_dir=Path("results"))
    # A file in zip has the time, by two seconds.
    with mock.patch("time.time", lambda: 2e9), mock.patch("time.localtime", lambda *_: LATER):
        again = shipping.options_for(model, inputs, None, results_dir=Path("results"))
    assert again == words, name
    folders[name] = words["path"]
twin = functional(layers.Dense(3))
twin.set_weights(CASES["functional"][0].get_weights())
same = shipping.options_for(twin, None, None, results_dir=Path("results"))["path"]
assert same == folders["functional"], "another name of the session"
def held(value):
    return lambda: value
def stacked(function, activation, weight):
    given = keras.Input((4,))
    scaled = layers.Lambda(function)(given)
    dense = layers.Dense(2, activation=activation, kernel_initializer=kernel(weight))(scaled)
    last = layers.Dense(2, activation=lambda x: x, kernel_initializer="ones")
    return keras.Model(given, last(dense))
def compiled(*given, **named):
    model = stacked(times(2), times(2), 2.0)
    model.compile(*given, **named)
    return model
kernel = keras.initializers.Constant
times = lambda factor: lambda x: x * factor
PAIRS = {
    "function of a Lambda": lambda n: stacked(times(n), times(2), 2.0),
    "function of another layer": lambda n: stacked(times(2), times(n), 2.0),
    "weights": lambda n: stacked(times(2), times(2), float(n)),
    "compiled or not": lambda n: compiled() if n == 2 else stacked(times(2), times(2), 2.0),
    "optimizer": lambda n: compiled(keras.optimizers.Adam(n / 10), "mse"),
    "loss": lambda n: compiled("adam", lambda wanted, given: n * keras.ops.mean(wanted - given)),
    "metric": lambda n: compiled("adam", "mse", metrics=[keras.metrics.TopKCategoricalAccuracy(n)]),
    "held initializer": lambda n: held(kernel(n)),
    "held loss": lambda n: held(keras.losses.Huber(delta=n)),
    "held layer": lambda n: held(layers.Dense(n)),
    "held layer of its own": lambda n: held(Scale(n)),
    "held model": lambda n: held(keras.Sequential([keras.Input((2,)), layers.LeakyReLU(n)])),
    "held variable": lambda n: held(keras.Variable([n])),
    "held optimizer": lambda n: held(keras.optimizers.Adam(n / 10)),
    "held tensor": lambda n: held(keras.ops.convert_to_tensor([n])),
}
for name, maker in PAIRS.items():
    two, three, again = (
        shipping.options_for(maker(n), None, None, results_dir=Path("results"))["path"]
        for n in (2, 3, 2)
    )
    assert two != three, name
    assert two == again, name
counting = Counting()
counting(batch)
with own_inputs.kept_state(counting):
    counting(batch)
assert float(counting.calls) == 1, "a variable that Keras does not list"
assert float(CASES["counter"][0].calls) == 1, "only the call that creates the variables"
from tensorflow.python.eager import context
from xla_sweeps.api.kernel import require_free_gpus
assert context.context_safe()._initialized
require_free_gpus(None)
for model, inputs in (
    (Sized(2), batch),
    (Sized, batch),
    (twin, batch[:, :3]),
    (twin.predict, batch),
    (tf.function(twin, jit_compile=True), batch),
    (tf.function(twin.call), batch),
    (twin, tf.data.Dataset.from_tensors(batch)),
    (twin, tf.ragged.constant([[1.0], [2.0, 3.0]])),
    (twin, tf.sparse.from_dense(batch)),
    (twin, tf.constant(["a text", "another"])),
    (twin, np.array(["a text"])),
):
    try:
        shipping.options_for(model, inputs, None, results_dir=Path("results"))
    except ConfigError as error:
        print(error, file=sys.stderr)
ships.write(json.dumps(folders))
ships.close()
os.wait()
"""
)


def test_models_of_all_kinds_compute_the_same_in_a_fresh_process(tmp_path: Path) -> None:
    file = tmp_path / "cells.py"
    file.write_text(SHIP)
    shipped = run_program(sys.executable, file, cwd=tmp_path, limit_s=500)
    assert "give a function that builds it" in shipped.stderr
    assert "model Sized: it takes arguments; give a function" in shipped.stderr
    assert "cannot be called on these inputs" in shipped.stderr
    for said in (
        "not its predict",
        "not its compiled function",
        "not its call",
        "next(iter(dataset))",
        "give a dense one: .to_tensor()",
        "tf.sparse.to_dense",
    ):
        assert said in shipped.stderr
    assert shipped.stderr.count("inputs: text, which XLA does not take; measure what follows") == 2
    told = json.loads(shipped.stdout.splitlines()[-1])
    outcome = told["outcome"]
    assert "computes something else" in outcome.pop("other outputs")
    assert {name: each for name, each in outcome.items() if each.startswith("failed")} == {}
    assert outcome["subclassed"] == "Plain"
    assert outcome["train_step"] == "Trained"
    assert outcome["module"] == "Module"
    for name in (
        "loss and metrics",
        "optimizer and schedule",
        "optimizer and schedule of tf_keras",
    ):
        assert outcome[f"own {name}"] == "Functional compiled"
    assert outcome["layer"] == "Dense"
    assert outcome["call"] == "function"
    assert str(ROOT) not in json.dumps(told["folders"])
