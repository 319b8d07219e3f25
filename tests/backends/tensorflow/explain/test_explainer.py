"""Refused and trapped models: each finding, its layer and its line, in the model itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from explained_models import explaining
from trapped_models import CASES, IMAGE, Case, Custom, pooled

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.explain import program
from xla_sweeps.backends.tensorflow.explain import refusals, traps
from xla_sweeps.backends.tensorflow.explain.graph import named_in, traced_ops
from xla_sweeps.backends.tensorflow.modes import ModeExecutable
from xla_sweeps.schema.explanation import Explanation, Kind, State, Trap, TrapName
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.trial import Precision

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


def explained(model: keras.Model, *, trace: bool = False, **more: Any) -> Any:
    explainer = explaining(lambda batch: model(batch, training=False), BATCHES, model=model, **more)
    return explainer.explain(trace=trace)


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
    by_op = {refusal.op: refusal for refusal in explanation.refusals}
    assert set(case.refused) <= set(by_op), by_op
    for op in case.refused:
        assert [place.layer for place in by_op[op].places] == ["culprit (Custom)"]
        assert "trapped_models.py:" in by_op[op].places[0].line
        assert by_op[op].advice
    assert case.refused or not by_op
    assert explanation.compiler.compiles == case.compiles, explanation.compiler
    assert set(states(explanation)) == set(TrapName)
    for expected, state in case.traps.items():
        seen = trap(explanation, expected)
        assert seen.state is state, seen
        assert bool(seen.fix) == (state is not State.UNKNOWN)
        if seen.fix and not case.refused:
            assert "culprit (Custom)" in {place.layer for place in seen.places}
    found = {name for name, state in states(explanation).items() if state is State.FOUND}
    assert found <= set(case.traps)


def test_a_plain_model_is_refused_for_nothing_has_no_trap_and_its_time_is_known_by_kind() -> None:
    deep = keras.layers.DepthwiseConv2D(5, name="deep")
    model = convolutions(deep)
    explanation = explained(model, trace=True)
    assert explanation.refusals == ()
    assert explanation.compiler.compiles
    open_sizes = {TrapName.RECOMPILES_PER_SHAPE: State.POSSIBLE}
    assert states(explanation) == {name: open_sizes.get(name, State.NONE) for name in TrapName}
    time = explanation.time
    assert [mode.mode for mode in time.modes] == ["graph", "xla"]
    for mode in time.modes:
        assert {Kind.CONVOLUTION, Kind.DEPTHWISE, Kind.PRODUCT} <= set(mode.by_kind)
        parts = sum(mode.by_kind.values()) + mode.gaps_s + mode.host_s
        assert parts == pytest.approx(mode.call_s)
    names = {f"{layer.name} ({type(layer).__name__})" for layer in model.layers}
    assert {loss.layer for loss in time.lost} <= names


@pytest.mark.parametrize(("error", "state"), [(0.0, State.NONE), (0.008, State.FOUND)])
def test_an_error_that_half_precision_would_hide_is_found_by_float64(
    error: float, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = ModeExecutable.outputs

    def planted(executable: ModeExecutable, position: int = 0) -> list[np.ndarray]:
        is_wrong = executable.mode == Mode.XLA
        return [head * (1 + error * is_wrong) for head in outputs(executable, position)]

    monkeypatch.setattr(ModeExecutable, "outputs", planted)
    policy = keras.DTypePolicy("mixed_float16")
    layer = keras.layers.Dense(8, dtype=policy)
    model = keras.Sequential([keras.Input(IMAGE[1:]), keras.layers.Rescaling(1 / 200), layer])
    seen = trap(explained(model, precision=Precision.MIXED_FLOAT16), TrapName.OTHER_VALUES)
    assert seen.state is state, seen
    assert not error or "error against float64" in seen.what


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
    explanation = explained(convolutions(), trace=True)
    assert explanation.missing["graph_operations"] == "once"
    assert explanation.missing["time"] == "graph mode failed: once"
    assert explanation.program is not None
    assert ran.count(Mode.GRAPH) == 1


def test_a_program_that_is_not_counted_still_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "program_of", mock.Mock(side_effect=ValueError("unheard of")))
    explanation = explaining(lambda batch: batch * 2.0, [tf.ones((2, 4))] * 2).explain()
    assert explanation.program is None
    assert explanation.missing["program"] == "unheard of"
    assert explanation.time
    assert "time" not in explanation.missing


@pytest.mark.parametrize(
    ("size", "batch", "state", "what"),
    [(16, 2, State.NONE, "always 2"), (None, None, State.FOUND, "[None, None, None, 4]")],
)
def test_xla_compiles_for_each_size_that_a_model_takes(
    size: int | None, batch: int | None, state: State, what: str
) -> None:
    explanation = explained(convolutions(size=size), batch=batch)
    recompiling = trap(explanation, TrapName.RECOMPILES_PER_SHAPE)
    assert recompiling.state is state
    assert what in recompiling.what


def test_a_layer_without_jit_makes_keras_ignore_jit_compile() -> None:
    layer = Custom(lambda image: image * 2, name="without")
    layer.supports_jit = False
    ignored = trap(explained(convolutions(layer)), TrapName.JIT_COMPILE_IGNORED)
    assert ignored.state is State.FOUND
    assert [place.layer for place in ignored.places] == ["without (Custom)"]


def test_functions_that_run_eagerly_are_not_compiled() -> None:
    explainer = explaining(tf.abs, BATCHES)
    tf.config.run_functions_eagerly(True)
    try:
        ignored = traps.find_no_jit_compile(explainer)
    finally:
        tf.config.run_functions_eagerly(False)
    assert ignored.state is State.FOUND
    assert traps.find_no_jit_compile(explainer).state is State.NONE


def test_variables_that_each_call_makes_are_refused_before_anything_is_known() -> None:
    made = Custom(lambda image: image * tf.Variable(tf.ones(4)), name="culprit")
    explanation = explained(Net(made))
    assert not explanation.compiler.compiles
    assert set(explanation.missing) == {
        *("refusals", "operations", "roofline"),
        *("graph_operations", "hlo_operations", "program", "time"),
    }
    assert set(states(explanation).values()) == {State.UNKNOWN}


def test_an_operation_in_a_saved_model_is_found_where_no_line_is_known(tmp_path: Path) -> None:
    module = tf.Module()
    module.forward = tf.function(pooled, input_signature=[tf.TensorSpec(IMAGE)])
    tf.saved_model.save(module, str(tmp_path))
    restored = tf.saved_model.load(str(tmp_path))
    explanation: Any = explaining(restored.forward, BATCHES).explain()
    (refusal,) = explanation.refusals
    assert refusal.op == "MaxPoolWithArgmax"
    assert refusal.devices == refusals.registered_devices() == ("XLA_CPU_JIT", "XLA_GPU_JIT")
    assert refusal.places[0].node.endswith("/MaxPoolWithArgmax")
    assert explanation.graph_operations is not None
    assert {"hlo_operations", "program", "time"} <= set(explanation.missing)


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
    layer = keras.layers.Conv2D(4, 3)

    @tf.function(autograph=False)
    def cropped(image: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("net/crop/"):
            boxes, index = tf.zeros((2, 4)), tf.constant([0, 1])
            image = tf.image.crop_and_resize(image, boxes, index, (4, 4), name="CropAndResize")
        return layer(image)

    ops = traced_ops(cropped.get_concrete_function(BATCHES[0]), {})
    (place,) = named_in(text, ops)
    assert (place.op, place.node) == ("CropAndResize", "net/crop/CropAndResize")
    assert "test_explainer.py:" in place.line
    assert named_in("nothing is named here", ops) == ()
