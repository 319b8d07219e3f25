"""Check an engine in its own environment, and print what each check showed, a JSON line each.

python engine_checks.py BACKEND [CHECK...] [-CHECK...]: at a worker's desk in this process, these
checks, or all but those.
"""

from __future__ import annotations

import functools
import json
import pkgutil
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

import keras
import msgspec
import numpy as np
from factories import TRIAL

from xla_sweeps.backends.keras import sources
from xla_sweeps.backends.keras.sources import OWN, LoadedModel
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.backend import backend_named
from xla_sweeps.schema.measurement import ModeOutcome
from xla_sweeps.schema.modes import Scenario, mode_of
from xla_sweeps.schema.trial import COMPILED, InputSpec, Precision, ReplicateJob, Training
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import diagnose_exception, error_text
from xla_sweeps.worker.replicate import Replicate

ENGINE = sys.argv[1]

_MODES: dict[str, dict[str, tuple[str, ...]]] = {
    "tensorflow": {
        "call": ("eager", "graph", "xla"),
        "train_step": ("eager", "graph", "xla", "train_on_batch_xla"),
        "predict": ("eager", "call_host", "predict_graph", "predict_xla"),
        "new_shapes": ("eager", "graph", "graph_dynamic", "xla"),
    },
    "jax": {
        "call": ("jax_eager", "jax_xla"),
        "train_step": ("jax_eager", "jax_xla"),
        "predict": ("jax_predict_eager", "jax_predict_xla"),
        "new_shapes": ("jax_eager", "jax_xla"),
    },
    "torch": {
        "call": ("torch_eager", "torch_compile", "torch_export"),
        "train_step": ("torch_eager", "torch_compile"),
        "predict": ("torch_predict_eager", "torch_predict_compile", "torch_predict_compile_2"),
        "new_shapes": ("torch_eager", "torch_compile", "torch_compile_dynamic"),
    },
}

MODES = _MODES[ENGINE]

FRAMEWORK: Any = pkgutil.resolve_name(
    {
        "tensorflow": "xla_sweeps.backends.tensorflow.scenarios:TensorFlow",
        "jax": "xla_sweeps.backends.jax.backend:Jax",
        "torch": "xla_sweeps.backends.torch.backend:Torch",
    }[ENGINE]
)

SHAPE = (8, 8, 3)

BRIEF = replace(
    TRIAL.effort,
    always_reference=True,
    warmup_calls=3,
    warmup_s=0.0,
    warmup_cap_s=0.01,
    warmup_cap_calls=5,
)


def network(*more: Callable[[], Any]) -> Any:
    """A small classifier with further layers in the middle."""
    inputs = keras.Input(SHAPE)
    values = keras.layers.Conv2D(4, 3, activation="relu")(inputs)
    for make in more:
        values = make()(values)
    values = keras.layers.GlobalAveragePooling2D()(values)
    return keras.Model(inputs, keras.layers.Dense(5)(values))


class Desk:
    """A worker's desk that has set up a model, and what it heard."""

    def __init__(
        self,
        make: Callable[[], Any],
        scenario: str = "call",
        *,
        modes: Sequence[str] = (),
        library: str = "keras",
        **changes: Any,
    ) -> None:
        modes = modes or MODES[scenario]
        self.trial = replace(
            TRIAL,
            model=replace(
                TRIAL.model,
                name="tiny",
                library=library,
                weights="own" if library == OWN else "random",
                inputs=(InputSpec(shape=SHAPE, low=-1, high=1),),
            ),
            scenario=Scenario(scenario),
            training=Training(optimizer="adam") if scenario == "train_step" else None,
            batch_size=2,
            modes=tuple(modes),
            effort=BRIEF,
        )
        self.trial = replace(self.trial, **changes)
        self.heard: list[Any] = []
        self.replicate = Replicate(FRAMEWORK, self.heard.append, title=ENGINE)
        job = ReplicateJob(trial=self.trial, replicate=0, modes=self.trial.modes, order_seed=1)
        self._load = mock.patch.object(
            sources, "load", side_effect=lambda spec, **_: self._loaded(make())
        )
        with self._load:
            self.replicate.answer(protocol.SetUp(job=job))
        self.bench: Any = self.replicate._model

    def _loaded(self, model: Any) -> LoadedModel:
        inputs = self.trial.model.inputs
        if isinstance(model, keras.Model):
            model(keras.ops.zeros((2, *SHAPE)))
            return LoadedModel.of_keras(model, inputs)
        return LoadedModel(forward=model, inputs=inputs, variables=[], rebuildable=False)

    def answer(self, request: protocol.Request) -> Any:
        with self._load:
            return self.replicate.answer(request)

    def outcomes(self) -> dict[str, Any]:
        """Prepare all modes, then warm up and time those that are usable, as the parent asks."""
        outcomes: dict[str, ModeOutcome] = {}
        usable = [mode for mode in self.trial.modes if self._prepare(mode, outcomes)]
        for mode in usable:
            outcomes[mode] = self.answer(protocol.WarmUp(mode=mode)).outcome
        for mode in usable:
            block = self.answer(protocol.TimeBlock(mode=mode, calls=2, settle=True)).block
            assert block.calls == 2 < block.elapsed_ns
        return {mode: msgspec.to_builtins(outcome) for mode, outcome in outcomes.items()}

    def _prepare(self, mode: str, outcomes: dict[str, ModeOutcome]) -> bool:
        """Whether a mode is ready to be measured; its outcome, also where it is not."""
        try:
            ready = self.answer(protocol.Prepare(mode=mode))
        except Exception as error:
            stages = [each.phase for each in self.heard if isinstance(each, protocol.Stage)]
            kind, text, backend = type(error).__name__, error_text(error), backend_named(ENGINE)
            status, failure = diagnose_exception(stages[-1], kind, text, backend=backend)
            outcomes[mode] = ModeOutcome(status=status, failure=failure)
            return False
        outcomes[mode] = ready.outcome
        return bool(ready.usable)

    def measured(self) -> Any:
        """The outcomes of all modes, and what is known of the model at the end."""
        outcomes = self.outcomes()
        calls = {mode: 2 for mode, each in outcomes.items() if each["status"] == "ok"}
        spoilt = self.answer(protocol.Finish(calls=calls)).spoilt
        return {"modes": outcomes, "macs": self.bench.facts.macs, "spoilt": list(spoilt)}


def normalized() -> Any:
    return network(keras.layers.BatchNormalization)


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
    """Statuses of the modes, of which the second is wrong on batches of 5."""
    desk = Desk(normalized, "new_shapes", shapes=SHAPES)
    usual, statuses = desk.bench.new_function, {}

    def new_function(mode: Any) -> Any:
        executable = usual(mode)
        run = executable.run
        factors = {5: 1 + 10 * PLANTED} if mode == desk.trial.modes[1] else {}
        executable.run = lambda batch: run(batch) * factors.get(batch.shape[0], 1)
        return executable

    desk.bench.new_function = new_function
    for mode in desk.trial.modes:
        desk.answer(protocol.Prepare(mode=mode))
        outcome = desk.answer(protocol.WarmUp(mode=mode)).outcome
        statuses[mode] = [outcome.status, outcome.failure.message if outcome.failure else ""]
    return statuses


def size_that_is_fixed() -> Any:
    """The error of a model whose weights fix the size of its images."""
    try:
        Desk(lambda: network(keras.layers.Flatten, Unflatten), "new_shapes", shapes=SHAPES)
    except XlaSweepsError as error:
        return error_text(error)
    return ""


class Unflatten(keras.layers.Layer):  # type: ignore[misc]
    """Makes a row of as many values as there were when it was built into a picture."""

    def build(self, shape: Any) -> None:
        self.kept = self.add_weight(shape=shape[1:])

    def call(self, values: Any) -> Any:
        return (values * self.kept)[:, None, None, :]


PLANTED, SETTLED = 1e-3, 8
"""A relative error of outputs, and the calls after which a mode changes that changes late."""


def planted_errors() -> Any:
    """The modes that count as wrong, by what is planted in the second mode, or in eager's."""
    plants = ("none", "wrong", "wrong late", "eager compiles late")
    return {plant: wrong_modes(plant) for plant in plants}


def wrong_modes(plant: str) -> list[str]:
    engine = FRAMEWORK.benches[Scenario.CALL].engine
    plain_step, plain_outputs = engine.executables.step, engine.executables.outputs
    eager, second = MODES["call"][:2]
    calls: dict[int, int] = {}

    def factor(executable: Any) -> float:
        count = calls[id(executable)] = calls.get(id(executable), 0) + 1
        if plant == "eager compiles late" and executable.mode == eager and count == SETTLED:
            executable.run = engine.whole(executable.run)
        is_wrong = plant == "wrong" or (plant == "wrong late" and count > SETTLED)
        return 1 + PLANTED * (is_wrong and executable.mode == second)

    def step(executable: Any) -> None:
        times = factor(executable)
        plain_step(executable)
        executable.last = keras.tree.map_structure(lambda head: head * times, executable.last)

    def outputs(executable: Any, position: int = 0) -> Any:
        return [head * factor(executable) for head in plain_outputs(executable, position)]

    with mock.patch.multiple(engine.executables, step=step, outputs=outputs):
        told = Desk(normalized, modes=(eager, second)).measured()
    at_once = [mode for mode, each in told["modes"].items() if each["status"] != "ok"]
    return [*at_once, *told["spoilt"]]


def measured_training() -> Any:
    """Batch normalization in training is no single graph for PyTorch."""
    return Desk(network if ENGINE == "torch" else normalized, "train_step").measured()


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
    return Desk(network, "predict", batches=2).measured()


def training_with_dropout() -> Any:
    make = functools.partial(network, lambda: keras.layers.Dropout(0.5))
    return Desk(make, "train_step", modes=MODES["train_step"][:2]).measured()


def training_in_half() -> Any:
    """A line where the engine does not scale the loss."""
    try:
        Desk(network, "train_step", precision=Precision.MIXED_FLOAT16)
    except XlaSweepsError as error:
        return str(error)
    return ""


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
    told = {}
    for name, value in (("nothing", None), ("text", "text"), ("number", 3.5)):
        try:
            FRAMEWORK.benches[Scenario.CALL].engine.executables.read(value)
        except XlaSweepsError as error:
            told[name] = str(error)
    return told


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
    return Desk(functools.partial(network, lambda: layer), "predict").measured()


def no_gpu() -> Any:
    """What is said where the engine sees no GPU."""
    error = mock.patch("jax.devices", side_effect=AssertionError)
    with error if ENGINE == "jax" else nullcontext():
        try:
            FRAMEWORK().name_of_device(replace(TRIAL, device="gpu:0"))
        except XlaSweepsError as refused:
            return str(refused)
    return ""


def a_twin_of_fixed_types() -> Any:
    """What is said of a model that is in float32 whatever the policy."""

    def make() -> Any:
        inputs = keras.Input(SHAPE)
        values = keras.layers.Dense(5, dtype="float32")(inputs)
        return keras.Model(inputs, values)

    (caveat,) = (each for each in Desk(make).heard if isinstance(each, protocol.Caveat))
    return caveat.flagged.note


def jax_weights() -> Any:
    """Why a mode counts as wrong whose function holds the weights as constants."""
    import jax

    class Plain(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(8, name="inside")

        def call(self, x: Any) -> Any:
            return self.dense(x)

    class Jitted(Plain):
        @functools.partial(jax.jit, static_argnums=0)
        def call(self, x: Any) -> Any:
            return self.dense(x)

    told = {}
    for kind in (Plain, Jitted):
        desk = Desk(kind, library=OWN)
        failures = [each.get("failure") for each in desk.outcomes().values()]
        told[kind.__name__] = [each and each["kind"] for each in failures]
    return told


def jax_own_step() -> Any:
    """A training by a model's own `train_step`, which draws random numbers from a state."""
    import jax

    class Noisy(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense, self.seeds = keras.layers.Dense(3), keras.random.SeedGenerator(1)
            self.total = keras.metrics.Mean(name="loss")

        @property
        def metrics(self) -> Any:
            return [self.total]

        def call(self, x: Any) -> Any:
            return self.dense(x + keras.random.normal(keras.ops.shape(x), seed=self.seeds))

        def train_step(self, state: Any, data: Any) -> Any:
            trainable, others, optimizer, metrics = state

            def loss_of(weights: Any) -> Any:
                outputs, after = self.stateless_call(weights, others, data)
                return keras.ops.mean(keras.ops.square(outputs - data)), after

            (loss, others), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable)
            trainable, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trainable)
            metrics = self.total.stateless_update_state(metrics, loss)
            logs = {"loss": self.total.stateless_result(metrics)}
            return logs, (trainable, others, optimizer, metrics)

    def make() -> Any:
        model = Noisy()
        model.compile(optimizer=keras.optimizers.Adam(0.01))
        return model

    training = Training(optimizer=COMPILED)
    return Desk(make, "train_step", library=OWN, training=training).measured()


def jax_macs() -> Any:
    """Multiply-accumulates of programs, and whether they are a lower bound."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    from xla_sweeps.backends.jax.macs import count_macs

    def convolved(groups: int) -> Callable[[Any], Any]:
        kernel = jnp.ones((3, 3, 6 // groups, 12))
        numbers = ("NHWC", "HWIO", "NHWC")
        return lambda images: lax.conv_general_dilated(
            images,
            kernel,
            (1, 1),
            "SAME",
            dimension_numbers=numbers,
            feature_group_count=groups,
        )

    side, images = jnp.ones((4, 4)), jnp.ones((2, 8, 8, 6))
    programs: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "dot": (lambda x: x @ x, side),
        "jit": (jax.jit(lambda x: x @ x), side),
        "convolution": (convolved(1), images),
        "grouped": (convolved(3), images),
        "scan": (lambda x: lax.scan(lambda c, _: (c @ x, None), x, length=5)[0], side),
        "while": (lambda x: lax.while_loop(lambda c: c[0, 0] < 9, lambda c: c @ x, x), side),
    }
    counts = {name: count_macs(jax.make_jaxpr(of)(given)) for name, (of, given) in programs.items()}
    return {name: [count.total, count.at_least] for name, count in counts.items()}


def torch_proofs() -> Any:
    """The reason of each proof, "" where the mode is in force."""
    import torch

    from xla_sweeps.backends.torch.modes import TorchExecutable

    calls = [0]

    def broken(batch: Any) -> Any:
        torch._dynamo.graph_break()
        return batch + 1

    words = [""]

    def changing(batch: Any) -> Any:
        return batch + calls[0]

    def restless(batch: Any) -> Any:
        return batch + len(words[0])

    def plain(batch: Any) -> Any:
        return batch + 1

    def reason(call: Callable[[Any], Any], mode: str, device: str = "cpu") -> str:
        executable = TorchExecutable.bind(call, mode_of(mode), [torch.ones(2)])
        run = executable.run

        def run_anew(batch: Any) -> Any:
            words[0] += "x"
            return run(batch)

        executable.run = run_anew
        executable.first_call_s()
        calls[0] += 1
        return str(executable.effective(device=device)["reason"])

    return {
        "one graph": reason(plain, "torch_compile"),
        "its copy": reason(plain, "torch_compile"),
        "several": reason(lambda batch: broken(batch) * 2, "torch_compile"),
        "none": reason(torch._dynamo.disable(plain), "torch_compile"),
        "once again": reason(changing, "torch_compile"),
        "again": reason(restless, "torch_compile"),
        "eager": reason(plain, "torch_eager"),
        "elsewhere": reason(plain, "torch_eager", device="cuda"),
    }


COMMON = (
    measured_call,
    measured_with_a_state,
    new_shapes,
    wrong_at_a_shape,
    size_that_is_fixed,
    planted_errors,
    measured_training,
    training_with_its_own_loss,
    measured_predict,
    training_with_dropout,
    training_in_half,
    new_inputs_are_like_the_old_ones,
    inputs_rotate,
    what_is_no_tensor,
    a_model_that_decides_by_values,
    lowered,
    a_twin_of_fixed_types,
)

CHECKS: dict[str, tuple[Callable[[], Any], ...]] = {
    "tensorflow": COMMON,
    "jax": (*COMMON, no_gpu, jax_weights, jax_own_step, jax_macs),
    "torch": (*COMMON, no_gpu, torch_proofs),
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
