"""Check an engine in its own environment, and print what each check showed, a JSON line each.

python engine_checks.py BACKEND [CHECK...] [-CHECK...]: at a worker's desk in this process, these
checks, or all but those.
"""

from __future__ import annotations

import functools
import json
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import keras
import numpy as np
from engine_desk import ENGINE, FRAMEWORK, MODES, PLANTED, SHAPE, Desk, network
from engine_own_checks import jax_loops, jax_macs, jax_own_step, jax_weights, torch_proofs
from engine_planted_checks import normalized, planted_errors
from engine_tracing_checks import changed_by_tracing
from factories import TRIAL

from xla_sweeps.backends.keras.building import call_of
from xla_sweeps.backends.keras.new_shapes import ShapesBench
from xla_sweeps.backends.keras.sources import OWN
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import Precision
from xla_sweeps.trial import protocol


def refusal_of(call: Callable[..., Any], *given: Any, **named: Any) -> str:
    """The line that a call is refused with; "" where it is not."""
    try:
        call(*given, **named)
    except XlaSweepsError as error:
        return str(error)
    return ""


def measured_call() -> Any:
    """A forward pass in every mode; the outputs are compared between engines."""
    desk = Desk(normalized)
    outputs = desk.bench.eager[0].tolist()  # of drawn inputs, before those that no call has seen
    return {**desk.measured(), "outputs": outputs}


class Counting(keras.layers.Layer):  # type: ignore[misc]
    """Multiplies by the number of its calls."""

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, values: Any) -> Any:
        self.calls.assign(self.calls + 1.0)
        return values * self.calls


def measured_with_a_state() -> Any:
    """A forward pass of an own model whose outputs depend on the calls before."""
    return Desk(lambda: network(Counting), library=OWN).measured()


SHAPES = ("b2", "b5", "12", "b7")


def new_shapes() -> Any:
    """Each shape in each mode: its programs, and the parts of a stream of calls."""
    desk = Desk(normalized, "new_shapes", shapes=SHAPES)
    shown = {}
    for mode in desk.trial.modes:
        desk.answer(protocol.Prepare(mode=mode))
        warmed = desk.answer(protocol.WarmUp(mode=mode))
        again, _ = desk.bench.check_stream(mode)
        block = desk.answer(protocol.TimeBlock(mode=mode, calls=1, settle=False)).block
        shown[mode] = {
            "status": warmed.outcome.status,
            "programs": warmed.outcome.effective["programs"],
            "again": again,
            "parts": block.parts_ns,
            "whole": block.elapsed_ns,
        }
    spoilt = desk.answer(protocol.Finish(calls=dict.fromkeys(desk.trial.modes, 1))).spoilt
    return {"modes": shown, "spoilt": list(spoilt)}


def wrong_at_a_shape() -> Any:
    """The failure of a mode that is 1 % off on batches of 5, in float32 and in bfloat16."""
    return [wrong_on_five(Precision.FLOAT32), wrong_on_five(Precision.MIXED_BFLOAT16)]


def wrong_on_five(precision: Precision) -> Any:
    mode, bench = MODES["new_shapes"][1], FRAMEWORK.benches[Scenario.NEW_SHAPES]
    usual, factors = bench.new_function, {5: 1 + 10 * PLANTED}

    def new_function(self: Any, mode: Any) -> Any:
        executable = usual(self, mode)
        run = executable.run
        executable.run = lambda batch: run(batch) * factors.get(batch.shape[0], 1)
        return executable

    with mock.patch.object(bench, "new_function", new_function):
        shapes = SHAPES[:2]
        desk = Desk(normalized, "new_shapes", modes=(mode,), shapes=shapes, precision=precision)
        desk.answer(protocol.Prepare(mode=mode))
        outcome = desk.answer(protocol.WarmUp(mode=mode)).outcome
    return [outcome.status, outcome.failure and outcome.failure.message]


def size_that_is_fixed() -> Any:
    """The error of a model whose weights fix the size of its images."""
    make = functools.partial(network, keras.layers.Flatten, Unflatten)
    return refusal_of(Desk, make, "new_shapes", shapes=SHAPES)


def call_that_fails() -> Any:
    """The kind of error where a call fails at the model's own size, and at another."""
    failing = mock.patch.object(ShapesBench, "eager_of_shape", side_effect=ValueError("index 216"))
    kinds = []
    for size in (str(SHAPE[0]), "12"):
        try:
            with failing:
                Desk(normalized, "new_shapes", shapes=(size, "b5"))
        except Exception as error:
            kinds.append(type(error).__name__)
    return kinds


class Unflatten(keras.layers.Layer):  # type: ignore[misc]
    """Makes a row of as many values as there were when it was built into a picture."""

    def build(self, shape: Any) -> None:
        self.kept = self.add_weight(shape=shape[1:])

    def call(self, values: Any) -> Any:
        return (values * self.kept)[:, None, None, :]


class Chaotic(keras.layers.Layer):  # type: ignore[misc]
    """Multiplies a difference by about two in each of many steps."""

    def call(self, values: Any) -> Any:
        state = keras.ops.sigmoid(keras.ops.mean(values, axis=-1, keepdims=True))
        for _ in range(16):
            state = 3.8 * state * (1 - state)
        return state


def chaotic() -> Any:
    keras.utils.set_random_seed(1)
    inputs = keras.Input(SHAPE)
    values = keras.layers.Dense(64, activation="tanh")(keras.layers.Flatten()(inputs))
    return keras.Model(inputs, keras.layers.Dense(10)(Chaotic()(values)))


def amplified_rounding() -> Any:
    """The modes' statuses, of a healthy model that amplifies rounding."""
    desks = (Desk(chaotic, library=OWN, batch_size=1, seed=seed) for seed in range(3))
    return [desk.statuses() for desk in desks]


def measured_training() -> Any:
    """Batch normalization in training is no single graph for PyTorch."""
    return Desk(network if ENGINE == "torch" else normalized, "train_step").measured()


def training_that_changes() -> Any:
    """The modes that count as wrong where the second one trains on another batch by the end."""
    desk = Desk(network, "train_step", modes=MODES["train_step"][:2])
    desk.outcomes()
    executable: Any = desk.replicate._prepared[desk.trial.modes[1]].executable
    run, other = executable.run, executable.inputs[2]
    executable.run = lambda *given: run(*given[:-1], other)
    return list(desk.answer(protocol.Finish(calls=dict.fromkeys(desk.trial.modes, 2))).spoilt)


def training_with_its_own_loss() -> Any:
    """An autoencoder, trained with what it was compiled with."""

    def make() -> Any:
        given = keras.Input(SHAPE)
        values = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(given)
        model = keras.Model(given, keras.layers.Conv2D(3, 3, padding="same")(values))
        model.compile(loss="mse")
        return model

    return Desk(make, "train_step", library=OWN, modes=MODES["train_step"][:3]).measured()


def measured_predict() -> Any:
    """The last mode is eager: what Keras made of the others is not what the model says then."""
    return Desk(network, "predict", batches=2, modes=MODES["predict"][::-1]).measured()


def training_with_dropout() -> Any:
    make = functools.partial(network, lambda: keras.layers.Dropout(0.5))
    return Desk(make, "train_step", modes=MODES["train_step"][:2]).measured()


def training_in_half() -> Any:
    """A line where the engine does not scale the loss."""
    return refusal_of(Desk, network, "train_step", precision=Precision.MIXED_FLOAT16)


def new_inputs_are_like_the_old_ones() -> Any:
    """In place, type and shape; each value is of one of two batches."""
    desk = Desk(network)
    executable = desk.bench.bind(MODES["call"][1])
    old = [keras.ops.convert_to_numpy(each) for each in executable.inputs]
    dtypes = [str(each.dtype) for each in executable.inputs]
    assert executable.renew()
    new = [keras.ops.convert_to_numpy(each) for each in executable.inputs]
    assert [str(each.dtype) for each in executable.inputs] == dtypes
    for before, after, now in zip(old, [*old[1:], old[0]], new, strict=True):
        assert ((now == before) | (now == after)).all()
        assert not np.array_equal(now, before)
    return "like the old ones"


def inputs_rotate() -> Any:
    desk = Desk(network)
    executable = desk.bench.bind(MODES["call"][1])
    executable.first_call_s()
    for position in (1, 2, 0, 1):
        assert executable.position == position
        executable.step()
        np.testing.assert_allclose(
            executable.last_outputs()[0],
            desk.bench.eager_outputs([desk.bench.inputs[position]])[0],
            rtol=1e-4,
            atol=1e-5,
        )
    return "in turn"


def what_is_no_tensor() -> Any:
    """What a model is told that returns something else than tensors, by what it returns."""
    engine = FRAMEWORK.benches[Scenario.CALL].engine
    values = {"nothing": None, "text": "text", "number": 3.5, "array": np.ones(2)}
    return {
        name: refusal_of(lambda value: engine.executables.read(engine.narrow(value)), value)
        for name, value in values.items()
    }


class Own(OrderedDict[str, Any]):
    """A dictionary of a model's own, such as Hugging Face's outputs."""


@dataclass
class Held:
    """A data class that a model returns."""

    logits: Any
    attention: Any = None


def outputs_of_own_classes() -> Any:
    """The heads that are read of a data class, and of a dictionary of a class of its own."""
    engine, ones = FRAMEWORK.benches[Scenario.CALL].engine, keras.ops.ones(2)
    is_torch = keras.backend.backend() == "torch"  # where compiled code may compute numbers
    beside: dict[str, Any] = {} if is_torch else {"steps": 3, "name": "a"}
    heads = []
    for held in (Held(ones), Own(logits=ones, more=[Held(2 * ones), None], **beside)):
        forward = functools.partial(lambda held, batch: held, held)
        call = call_of(forward, engine.narrow)
        heads.append([head.tolist() for head in engine.executables.read(call(None))])
    return heads


def complex_outputs() -> Any:
    """Values that are read of complex outputs, a list for each head."""
    engine = FRAMEWORK.benches[Scenario.CALL].engine
    given = [np.array(values, "complex64") for values in ([[1 + 2j], [3 - 4j]], 5j)]
    heads = engine.narrow(list(map(keras.ops.convert_to_tensor, given)))
    return [head.tolist() for head in engine.executables.read(heads)]


class Decides(keras.layers.Layer):  # type: ignore[misc]
    """Its call depends on values."""

    def compute_output_spec(self, values: Any) -> Any:
        return keras.KerasTensor(values.shape, values.dtype)

    def call(self, values: Any) -> Any:
        return values * 2 if float(keras.ops.sum(values)) > 0 else values


def a_model_that_decides_by_values() -> Any:
    return Desk(functools.partial(network, Decides)).outcomes()


def lowered() -> Any:
    layer = keras.layers.Activation("relu", name="own")
    layer.supports_jit = False
    make = functools.partial(network, lambda: layer)
    return Desk(make, "predict", modes=MODES["predict"][-1:]).outcomes()


def no_gpu() -> Any:
    """What is said where the engine sees no GPU."""
    error = mock.patch("jax.devices", side_effect=AssertionError)
    with error if ENGINE == "jax" else nullcontext():
        return refusal_of(FRAMEWORK().name_of_device, replace(TRIAL, device="gpu:0"))


def a_twin_of_fixed_types() -> Any:
    """What is said of models that are in float32 whatever the policy: by a layer, by their code."""

    def make(*, casts: bool) -> Any:
        inputs = keras.Input(SHAPE)
        values = keras.layers.Dense(5, dtype="float32")(inputs)
        return keras.Model(inputs, keras.ops.cast(values, "float32") if casts else values)

    desks = [Desk(functools.partial(make, casts=casts), library=OWN) for casts in (False, True)]
    return [
        [each.flagged.note for each in desk.heard if isinstance(each, protocol.Caveat)]
        or str(desk.bench.references[0][0].dtype)
        for desk in desks
    ]


COMMON = (
    measured_call,
    measured_with_a_state,
    new_shapes,
    wrong_at_a_shape,
    size_that_is_fixed,
    call_that_fails,
    planted_errors,
    amplified_rounding,
    changed_by_tracing,
    measured_training,
    training_that_changes,
    training_with_its_own_loss,
    measured_predict,
    new_inputs_are_like_the_old_ones,
    inputs_rotate,
    what_is_no_tensor,
    outputs_of_own_classes,
    complex_outputs,
    a_model_that_decides_by_values,
    lowered,
    a_twin_of_fixed_types,
)

OTHERS = (training_with_dropout, training_in_half, no_gpu)
"""Checks of the engines on which none of the tests of TensorFlow run."""

CHECKS: dict[str, tuple[Callable[[], Any], ...]] = {
    "tensorflow": COMMON,
    "jax": (*COMMON, *OTHERS, jax_weights, jax_own_step, jax_macs, jax_loops),
    "torch": (*COMMON, *OTHERS, torch_proofs),
}


def main() -> None:
    if ENGINE == "torch":  # captures graphs, and compiles none of them
        import torch

        torch.compile = functools.partial(torch.compile, backend="eager")
    FRAMEWORK().configure(TRIAL)
    asked = [word for word in sys.argv[2:] if word[0] != "-"]
    for check in CHECKS[ENGINE]:
        if (asked and check.__name__ not in asked) or f"-{check.__name__}" in sys.argv:
            continue
        keras.backend.clear_session()
        try:
            told = check()
        except Exception:
            told = {"error": traceback.format_exc()}
        print(json.dumps({check.__name__: told}, default=str), flush=True)
    assert ENGINE == "tensorflow" or "tensorflow" not in sys.modules


if __name__ == "__main__":
    main()
