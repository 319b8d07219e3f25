"""Refused and trapped models: each finding, its layer and its line, in the model itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from explained_models import explaining
from paths import ROOT
from trapped_models import CASES, COMPILING, IMAGE, Case, Custom

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.tensorflow.explain import refusals, traps
from xla_sweeps.backends.tensorflow.explain.graph import named_in, traced_ops
from xla_sweeps.backends.tensorflow.modes import ModeExecutable
from xla_sweeps.schema.explanation import Explanation, State, Trap, TrapName
from xla_sweeps.schema.modes import Mode

pytestmark = pytest.mark.tf

BATCHES = [
    tf.random.stateless_uniform(IMAGE, seed=(index, 0), minval=1.0, maxval=200.0)
    for index in range(2)
]


class Net(keras.Model):
    """Calls its layer, whatever it returns."""

    def __init__(self, layer: keras.layers.Layer) -> None:
        super().__init__(name="net")
        self.before = keras.layers.Activation("linear", name="before")
        self.culprit = layer

    def call(self, image: tf.Tensor) -> tf.Tensor:
        return self.culprit(self.before(image))


def explained(model: keras.Model, **more: Any) -> Explanation:
    return explaining(
        lambda batch: model(batch, training=False), BATCHES, model=model, **more
    ).explain()


def states(explanation: Explanation) -> dict[TrapName, State]:
    return {trap.name: trap.state for trap in explanation.traps}


def trap(explanation: Explanation, name: TrapName) -> Trap:
    return next(candidate for candidate in explanation.traps if candidate.name is name)


def convolutions(*layers: keras.layers.Layer, size: int | None = 16) -> keras.Model:
    inputs = keras.Input((size, size, 4))
    result = inputs
    for layer in (
        keras.layers.Conv2D(8, 3, activation="relu"),
        *layers,
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(3),
    ):
        result = layer(result)
    return keras.Model(inputs, result)


@pytest.mark.parametrize("name", CASES)
def test_what_a_model_is_refused_for_or_trapped_by_is_found(name: str) -> None:
    case: Case = CASES[name]
    explanation = explained(Net(Custom(case.function, name="culprit")))
    assert explanation.refusals is not None
    by_op = {refusal.op: refusal for refusal in explanation.refusals}
    assert set(case.refused) <= set(by_op), by_op
    for op in case.refused:
        assert [place.layer for place in by_op[op].places] == ["culprit (Custom)"]
        assert "trapped_models.py:" in by_op[op].places[0].line
        assert by_op[op].advice
    if not case.refused:
        assert not by_op
    assert explanation.compiler is not None
    assert explanation.compiler.compiles == case.compiles, explanation.compiler
    assert set(states(explanation)) == set(TrapName)
    for expected, state in case.traps.items():
        assert trap(explanation, expected).state is state, trap(explanation, expected)
        assert trap(explanation, expected).fix
    if case.named:
        assert "culprit (Custom)" in {place.layer for place in trap(explanation, case.named).places}
    seen = {trap_name for trap_name, state in states(explanation).items() if state is State.FOUND}
    assert seen <= {*case.traps, TrapName.LITTLE_CLUSTERED}


def test_graph_mode_that_failed_once_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    step, outputs = ModeExecutable.step, ModeExecutable.outputs

    def fail(executable: ModeExecutable) -> None:
        ran.append(executable.mode)
        if executable.mode == Mode.GRAPH:
            raise RuntimeError("once")
        step(executable)

    def noted(executable: ModeExecutable) -> list[np.ndarray]:
        ran.append(executable.mode)
        return outputs(executable)

    monkeypatch.setattr(ModeExecutable, "step", fail)
    monkeypatch.setattr(ModeExecutable, "outputs", noted)
    explanation = explained(convolutions())
    assert explanation.missing["graph_operations"] == "once"
    assert explanation.missing["time"] == "graph mode failed: once"
    assert explanation.program is not None
    assert ran.count(Mode.GRAPH) == 1


@pytest.mark.parametrize("name", COMPILING)
def test_what_the_list_of_2018_lacks_compiles(name: str) -> None:
    explanation = explained(Net(Custom(COMPILING[name], name="culprit")))
    assert explanation.refusals == ()
    assert explanation.compiler is not None
    assert explanation.compiler.compiles


def test_a_plain_model_is_refused_for_nothing_and_has_no_trap() -> None:
    explanation = explained(convolutions())
    assert explanation.refusals == ()
    assert explanation.compiler is not None
    assert explanation.compiler.compiles
    open_sizes = {TrapName.RECOMPILES_PER_SHAPE: State.POSSIBLE}
    assert states(explanation) == {name: open_sizes.get(name, State.NONE) for name in TrapName}
    assert explanation.clustering is not None
    assert explanation.clustering.share > 0.9


def test_the_batch_size_of_a_model_that_takes_only_one_is_no_trap() -> None:
    explanation = explained(convolutions(), batch=2)
    assert states(explanation)[TrapName.RECOMPILES_PER_SHAPE] is State.NONE


def test_a_model_that_takes_any_size_compiles_for_each() -> None:
    recompiling = trap(explained(convolutions(size=None)), TrapName.RECOMPILES_PER_SHAPE)
    assert recompiling.state is State.FOUND
    assert "[None, None, None, 4]" in recompiling.what


def test_a_layer_without_jit_makes_keras_ignore_jit_compile() -> None:
    layer = Custom(lambda image: image * 2, name="without")
    layer.supports_jit = False
    ignored = trap(explained(convolutions(layer)), TrapName.JIT_COMPILE_IGNORED)
    assert ignored.state is State.FOUND
    assert [place.layer for place in ignored.places] == ["without (Custom)"]


def test_functions_that_run_eagerly_are_not_compiled() -> None:
    tf.config.run_functions_eagerly(True)
    try:
        ignored = traps.find_no_jit_compile(explaining(tf.abs, BATCHES))
    finally:
        tf.config.run_functions_eagerly(False)
    assert ignored.state is State.FOUND
    assert traps.find_no_jit_compile(explaining(tf.abs, BATCHES)).state is State.NONE


def test_grouped_convolutions_of_keras_3_bring_xla_into_every_mode() -> None:
    grouped = keras.layers.Conv2D(8, 3, groups=4, name="grouped")
    xla_anywhere = trap(explained(convolutions(grouped)), TrapName.XLA_IN_EVERY_MODE)
    assert xla_anywhere.state is State.FOUND
    assert [place.layer for place in xla_anywhere.places] == ["grouped (Conv2D)"]


def test_variables_that_each_call_makes_are_refused_before_anything_is_known() -> None:
    made = Custom(lambda image: image * tf.Variable(tf.ones(4)), name="culprit")
    explanation = explained(Net(made))
    assert explanation.compiler is not None
    assert not explanation.compiler.compiles
    assert explanation.refusals is None
    assert explanation.operations is None
    assert explanation.clustering is None
    assert set(explanation.missing) == {
        *("refusals", "operations", "clustering", "roofline"),
        *("graph_operations", "hlo_operations", "program", "time"),
    }
    assert set(states(explanation).values()) == {State.UNKNOWN}


def test_an_operation_in_a_saved_model_is_found_where_no_line_is_known(tmp_path: Path) -> None:
    module = tf.Module()
    signature = [tf.TensorSpec(IMAGE)]
    pool = CASES["argmax_pool"].function
    module.forward = tf.function(pool, input_signature=signature)
    tf.saved_model.save(module, str(tmp_path))
    restored = tf.saved_model.load(str(tmp_path))
    explanation = explaining(restored.forward, BATCHES).explain()
    assert explanation.refusals is not None
    (refusal,) = explanation.refusals
    assert refusal.op == "MaxPoolWithArgmax"
    assert refusal.devices == ("XLA_CPU_JIT", "XLA_GPU_JIT")
    assert refusal.places[0].node.endswith("/MaxPoolWithArgmax")


@pytest.mark.parametrize("library", [keras, tf_keras])
def test_layers_are_as_they_were_after_they_were_noted(library: Any) -> None:
    inputs = library.Input((16, 16, 4))
    features = library.layers.Conv2D(4, 3, padding="same")(inputs)
    model = library.Model(inputs, features + inputs if library is tf_keras else features)
    calls = [vars(layer).get("call") for layer in building.all_layers(model)]
    before = model(BATCHES[0], training=False)
    explained(model)
    assert [vars(layer).get("call") for layer in building.all_layers(model)] == calls
    assert bool(tf.reduce_all(model(BATCHES[0], training=False) == before))


@pytest.mark.parametrize(
    "text",
    [
        "no kernel: {{node net/crop/CropAndResize}} at model.py:3",
        "XLA does not know `net/crop/CropAndResize`, sorry",
        "failed: op=CropAndResize name=net/crop/CropAndResize",
        "Input 1 to node 'net/crop/CropAndResize' must be constant",
    ],
)
def test_the_operations_that_a_text_names_are_found_whatever_its_words(text: str) -> None:
    @tf.function
    def cropped(image: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("net/crop/"):
            boxes, index = tf.zeros((2, 4)), tf.constant([0, 1])
            return tf.image.crop_and_resize(image, boxes, index, (4, 4), name="CropAndResize")

    ops = traced_ops(cropped.get_concrete_function(BATCHES[0]), {})
    (place,) = named_in(text, ops)
    assert (place.op, place.node) == ("CropAndResize", "net/crop/CropAndResize")
    assert "test_explaining.py:" in place.line
    assert named_in("nothing is named here", ops) == ()


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (lambda value: tf.debugging.check_numerics(value, "finite"), tf.constant([float("nan")])),
        (lambda value: tf.gather(tf.range(3.0), tf.cast(value, tf.int32)), tf.constant([100.0])),
    ],
)
def test_errors_whose_loss_the_operations_alone_tell_vanish_in_this_tensorflow(
    function: Any, value: tf.Tensor
) -> None:
    with tf.device("/device:CPU:0"):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.function(function, jit_compile=False)(value)
        tf.function(function, jit_compile=True)(value)


def test_random_numbers_differ_under_xla_in_this_tensorflow() -> None:
    drawn = []
    for jit_compile in (False, True):
        tf.random.set_seed(1)
        drawn.append(tf.function(lambda: tf.random.normal((4,)), jit_compile=jit_compile)())
    assert bool(tf.reduce_any(drawn[0] != drawn[1]))


def test_a_cpu_process_lists_the_kernels_of_both_devices() -> None:
    assert refusals.registered() == ("XLA_CPU_JIT", "XLA_GPU_JIT")


def test_the_share_of_clustered_operations_is_counted() -> None:
    pool = Custom(lambda image: tf.nn.max_pool_with_argmax(image, 2, 2, "SAME")[0], name="pool")
    clustering = explained(convolutions(pool)).clustering
    assert clustering is not None
    assert clustering.clusters == 2
    assert [place.layer for place in clustering.places] == ["pool (Custom)"]
    assert clustering.outside == 1
    assert clustering.share == 1 - 1 / clustering.operations


def test_values_of_a_model_that_amplifies_rounding_are_not_compared() -> None:
    def amplified(image: tf.Tensor) -> tf.Tensor:
        return tf.sin(tf.nn.conv2d(image, tf.fill((3, 3, 4, 4), 0.1), 1, "SAME") * 1e7)

    other_values = trap(explained(Net(Custom(amplified, name="culprit"))), TrapName.OTHER_VALUES)
    assert other_values.state is State.UNKNOWN
    assert "amplifies rounding" in other_values.what


def test_a_layer_of_a_library_has_no_line_of_the_interpreter() -> None:
    program = (
        "import keras, tensorflow as tf\n"
        "from xla_sweeps.backends.tensorflow.explain.graph import traced_ops\n"
        "layer = keras.layers.Conv2D(4, 3)\n"
        "call = tf.function(lambda image: layer(image), autograph=False)\n"
        "ops = traced_ops(call.get_concrete_function(tf.TensorSpec((1, 8, 8, 3))), {})\n"
        "print('LINES', sorted({operation.place.line for operation in ops}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert "LINES ['']" in done.stdout
