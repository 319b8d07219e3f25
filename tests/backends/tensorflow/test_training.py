"""Training steps of tiny models: verified before they are timed, always from the same state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny_training
from desk import Heard, desk_of
from tiny_training import bench_of, loaded, network, prepared

from xla_sweeps.backends.keras import building, sources
from xla_sweeps.backends.keras.training import trained_model
from xla_sweeps.backends.tensorflow.scenarios.train import TrainBench
from xla_sweeps.backends.tensorflow.training import Trainer
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.measurement import Failure, Flag, Flagged, ModeOutcome, Status
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.trial import OPTIMIZERS, Precision, ReplicateJob, Training, Trial
from xla_sweeps.trial import protocol
from xla_sweeps.worker.replicate import Prepared

pytestmark = pytest.mark.tf

MODES = ("eager", "graph", "xla")

TRAIN = replace(tiny_training.TRAIN, modes=MODES)

Of = Callable[..., TrainBench]


@pytest.fixture
def of(monkeypatch: pytest.MonkeyPatch) -> Of:
    """A bench of a tiny model, which stays the one that is loaded."""

    def build(make: Callable[[], Any] = network, trial: Trial = TRAIN) -> TrainBench:
        monkeypatch.setattr(sources, "load", lambda spec, **_: loaded(make(), trial))
        return bench_of(make, trial)

    return build


def outcomes(bench: TrainBench, *modes: str) -> dict[str, Any]:
    return {label: entry.outcome for label, entry in prepared(bench, *modes).items()}


class Planted(keras.layers.Layer):
    """The identity; under XLA its gradient is wrong by a factor.

    XLA casts a number that is too large to the largest integer, TensorFlow to the smallest.
    """

    def __init__(self, factor: float, **named: Any) -> None:
        super().__init__(**named)
        self.factor = factor

    def call(self, value: Any) -> Any:
        @tf.custom_gradient
        def same(inside: Any) -> Any:
            def gradient(upstream: Any) -> Any:
                huge = tf.cast(tf.reduce_sum(tf.abs(inside)) + 1e20, tf.int32)
                return upstream * tf.where(huge > 0, self.factor, 1.0)

            return tf.identity(inside), gradient

        return same(value)


def test_a_step_with_a_wrong_gradient_is_refused(of: Of) -> None:
    by_mode = outcomes(of(lambda: network(Planted(0.99))), "graph", "xla")
    assert by_mode["graph"].status is Status.OK
    wrong = by_mode["xla"]
    assert wrong.status is Status.WRONG_RESULT
    assert "the first step changes dense" in wrong.failure.message
    assert "/kernel otherwise than eager's" in wrong.failure.message


def test_a_step_without_the_optimizer_is_refused(of: Of, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = of()
    monkeypatch.setattr(bench.trainer, "step", bench.trainer.forward_loss)
    assert outcomes(bench, "graph")["graph"].status is Status.WRONG_RESULT


def test_a_loss_that_leaves_eagers_curve_is_refused(
    of: Of, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = of()
    trainer = bench.trainer
    step, count = trainer.step, tf.Variable(0)

    def drifting(batch: Any) -> Any:
        return step(batch) + 0.01 * tf.cast(count.assign_add(1) > 3, tf.float32)

    monkeypatch.setattr(trainer, "step", drifting)
    executable = trainer.bind(Mode.GRAPH)
    result = trainer.compare(trainer.first_steps(executable, lambda: executable))
    assert not result.ok
    assert result.reason.startswith("the loss of step ")


def test_each_block_starts_from_the_same_weights_and_optimizer(of: Of) -> None:
    bench = of(trial=replace(TRAIN, training=Training(optimizer="adam", learning_rate=0.1)))
    trainer = bench.trainer
    losses: dict[str, list[list[float]]] = {label: [] for label in MODES}
    ready = prepared(bench)
    for _ in range(2):
        for label, entry in ready.items():
            executable = entry.executable
            executable.prepare()
            executable.position = 0
            block = []
            for _ in range(4):
                executable.step()
                block.append(float(executable.last))
            assert int(trainer.optimizer.iterations) == 4
            losses[label].append(block)
    for first, second in losses.values():
        assert first == second
        assert first[0] == pytest.approx(losses["eager"][0][0], rel=1e-6)
        assert first[3] < first[0] - 0.01  # it learns, so the state did change


def test_dropout_is_off_while_modes_are_checked_and_on_while_they_are_timed(of: Of) -> None:
    layer = keras.layers.Dropout(0.5)
    bench = of(lambda: network(layer))
    ready = prepared(bench, "graph")["graph"]
    assert ready.outcome.status is Status.OK
    assert layer.rate == 0.5
    graph = ready.executable
    graph.prepare()
    with_dropout = float(graph.run(graph.inputs[0]))
    with bench.trainer.silent():
        without = float(bench.trainer.forward_loss(graph.inputs[0]))
    assert with_dropout != pytest.approx(without, rel=1e-3)


class Seeded(keras.layers.Layer):
    """A layer that has random numbers of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(1)


class DropPath(Seeded):
    """Stochastic depth as KerasHub's Swin has it."""

    drop_prob = 0.5

    def call(self, value: Any, training: bool = False) -> Any:
        if self.drop_prob == 0.0 or not training:
            return value
        shape = (tf.shape(value)[0], 1)
        kept = keras.random.uniform(shape, seed=self.seed_generator) > self.drop_prob
        return value * tf.cast(kept, value.dtype) / (1 - self.drop_prob)


def test_stochastic_depth_is_off_while_modes_are_checked(of: Of) -> None:
    bench = of(lambda: network(DropPath()))
    assert bench.deterministic
    assert outcomes(bench, "graph")["graph"].status is Status.OK


def test_a_trial_with_dropout_says_that_xla_draws_other_numbers() -> None:
    for rate, expected in ((0.0, []), (0.5, [Flagged(Flag.RANDOM_LAYERS)])):
        heard = Heard()
        layer = keras.layers.Dropout(rate)
        bench_of(partial(network, layer), TRAIN, heard)
        flags = [event.flagged for event in heard.events if isinstance(event, protocol.Caveat)]
        assert flags == expected


class Noisy(Seeded):
    """Draws random numbers that nothing switches off."""

    def call(self, value: Any) -> Any:
        return value + keras.random.normal(tf.shape(value), seed=self.seed_generator)


def test_a_model_with_other_random_numbers_cannot_be_verified(of: Of) -> None:
    bench = of(lambda: network(Noisy()))
    assert not bench.deterministic
    assert outcomes(bench, "xla")["xla"].status is Status.NONDETERMINISTIC


class Unseeded(keras.layers.Layer):
    """Multiplies by numbers around 1 that no seed repeats and nothing switches off."""

    def call(self, value: Any) -> Any:
        return value * (1 + 0.05 * tf.random.normal(tf.shape(value)))


def test_noise_in_a_layer_verifies_no_mode_even_one_that_differs_by_less(of: Of) -> None:
    bench = of(lambda: network(Unseeded(), Planted(0.98)))
    by_mode = outcomes(bench)
    assert [outcome.status for outcome in by_mode.values()] == [Status.NONDETERMINISTIC] * 3
    assert not any(outcome.agreement.ok for outcome in by_mode.values())
    assert "reference" not in bench.seconds, "there is nothing that it could show"


class SeenByXla(keras.layers.Layer):
    """A layer that XLA sees as the identity: dropout that is off under XLA only."""

    def __init__(self, inner: keras.layers.Layer) -> None:
        super().__init__()
        self.inner = inner

    def call(self, value: Any, training: bool = False) -> Any:
        huge = tf.cast(tf.reduce_sum(tf.abs(value)) + 1e20, tf.int32)
        return tf.where(huge > 0, value, self.inner(value, training=training))


@pytest.mark.parametrize(
    "mode", ["xla", pytest.param("train_on_batch_xla", marks=pytest.mark.exhaustive)]
)
def test_dropout_that_xla_drops_is_refused(of: Of, mode: str) -> None:
    bench = of(lambda: network(SeenByXla(keras.layers.Dropout(0.5))))
    wrong = outcomes(bench, mode)[mode]
    assert wrong.status is Status.WRONG_RESULT
    assert wrong.failure.message.startswith("its losses are ")
    assert "over 128 draws" in wrong.failure.message


NIGHTLY = (("Dropout", 1e-3), ("GaussianDropout", 0.5), ("GaussianNoise", 0.5))


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("Dropout", 0.1),
        *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in NIGHTLY),
    ],
)
def test_dropout_with_other_random_numbers_passes(of: Of, name: str, rate: float) -> None:
    layer = getattr(keras.layers, name)
    bench = of(lambda: network(layer(rate), keras.layers.BatchNormalization()))
    assert outcomes(bench, "xla")["xla"].status is Status.OK


def test_a_loss_that_is_not_finite_is_no_result(of: Of) -> None:
    bench = of(trial=replace(TRAIN, training=Training(learning_rate=10.0)))
    trainer = bench.trainer
    job = ReplicateJob(trial=TRAIN, replicate=0, modes=MODES, order_seed=1)
    graph, desk = trainer.bind(Mode.GRAPH), desk_of(job, bench, Heard())
    entry = Prepared(graph, ModeOutcome(status=Status.OK), traced=graph.traces())
    desk._prepared["graph"] = entry
    finish = protocol.Finish(calls={"graph": 4})
    assert finished(desk.answer(finish)) == {}
    graph.run = lambda batch: tf.constant(np.nan)
    status, failure = finished(desk.answer(finish))["graph"]
    assert status is Status.UNVERIFIABLE
    assert failure.message == (
        "the loss is not finite after 4 calls in a row with learning_rate=10; use a lower one"
    )
    entry.outcome = replace(entry.outcome, status=Status.UNVERIFIABLE)
    assert finished(desk.answer(finish)) == {}, "it has no result to spoil"


def finished(reply: protocol.Reply) -> Mapping[str, tuple[Status, Failure]]:
    assert isinstance(reply, protocol.Finished)
    return reply.spoilt


def test_weights_that_run_away_verify_no_mode(of: Of) -> None:
    by_mode = outcomes(of(trial=replace(TRAIN, training=Training(learning_rate=1e38))), "graph")
    assert by_mode["graph"].status is Status.UNVERIFIABLE
    assert by_mode["graph"].failure.message == "eager's own loss or gradients are not finite"


def test_the_loss_scale_falls_until_gradients_are_finite(of: Of) -> None:
    half = replace(TRAIN, precision=Precision.MIXED_FLOAT16)
    bench = of(lambda: network(keras.layers.Rescaling(64.0)), half)
    trainer = bench.trainer
    assert float(trainer.optimizer.dynamic_scale) < 2**15
    assert int(trainer.optimizer.iterations) == 0
    before = trainer.values(None)[0]
    trainer.bind(Mode.EAGER).run(trainer.batches[0])
    assert np.abs(trainer.values(None)[0] - before).max() > 0


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (
            lambda: keras.Sequential([keras.Input((6,)), keras.layers.Rescaling(2.0)]),
            "no trainable",
        ),
        (lambda: network(classes=1), r"expected scores of at least 2 classes.*found \(4, 1\)"),
    ],
)
def test_a_model_without_weights_or_classes_is_refused(
    of: Of, model: Callable[[], Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        of(model)


def test_what_is_no_keras_model_is_said_to_be_none() -> None:
    built: Any = SimpleNamespace(loaded=SimpleNamespace(keras_model=None))
    with pytest.raises(ConfigError, match="is no Keras model; use a Keras model"):
        trained_model(built, TRAIN, takes_own_steps=True)


def test_keras_trains_as_eager_does_and_says_what_it_made_of_jit_compile(of: Of) -> None:
    bench = of(lambda: network(keras.layers.BatchNormalization()))
    ready = prepared(bench, *(f"train_on_batch_{way}" for way in ("auto", "graph", "xla")))
    assert [entry.outcome.status for entry in ready.values()] == [Status.OK] * 3
    proofs = [entry.outcome.effective for entry in ready.values()]
    assert [proof["jit_compile_asked"] for proof in proofs] == ["auto", False, True]
    assert [proof["jit_compile"] for proof in proofs] == [False, False, True]
    for entry in ready.values():
        assert entry.executable.traces() == 1
        losses = []
        for _ in range(2):
            entry.executable.prepare()
            losses.append(entry.executable.run(entry.executable.inputs[0]))
        assert losses[0] == losses[1]


def test_probabilities_and_logits_get_the_loss_of_their_kind(of: Of) -> None:
    plain = of().trainer
    softmax = of(lambda: keras.Sequential([network(), keras.layers.Softmax()])).trainer
    softmax.model.set_weights(plain.model.get_weights())
    assert float(softmax.forward_loss(plain.batches[0])) == pytest.approx(
        float(plain.forward_loss(plain.batches[0])), rel=1e-4
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_trains(name: str) -> None:
    trial = replace(TRAIN, training=Training(optimizer=name, learning_rate=0.01))
    model = network()
    built = building.BuiltModel(loaded=loaded(model, TRAIN), call=model)
    trainer = Trainer(built, trial, [tf.ones((4, 6))])
    before = trainer.values(None)[0]
    trainer.bind(Mode.EAGER).step()
    assert np.abs(trainer.values(None)[0] - before).max() > 0
    trainer.state.restore()
    assert np.array_equal(trainer.values(None)[0], before)
