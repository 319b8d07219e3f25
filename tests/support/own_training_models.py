"""Models that bring their own training: a loss, an optimizer or a whole `train_step`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import layers

WIDTH = 6


def descend(model: keras.Model, tape: tf.GradientTape, loss: Any) -> None:
    """A step of the model's optimizer."""
    weights = model.trainable_weights
    model.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))


def autoencoder() -> keras.Model:
    given = keras.Input((WIDTH,))
    model = keras.Model(given, layers.Dense(WIDTH)(layers.Dense(2, "tanh")(given)))
    rate = keras.optimizers.schedules.ExponentialDecay(0.02, 10, 0.9)
    model.compile(optimizer=keras.optimizers.Adam(rate, beta_1=0.5), loss="mse", metrics=["mae"])
    return model


class Warm(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
    """A schedule without a config, as in the tutorials."""

    def __call__(self, step: Any) -> Any:
        return 0.02 / (1.0 + tf.cast(step, "float32"))


def gathering() -> keras.Model:
    """An optimizer that gathers the gradients of three steps, and a schedule of one's own."""
    given = keras.Input((WIDTH,))
    model = keras.Model(given, layers.Dense(3)(given))
    optimizer = keras.optimizers.Adam(Warm(), gradient_accumulation_steps=3)
    model.compile(optimizer=optimizer, loss="mse")
    return model


def mirrored() -> keras.Model:
    """A model of a strategy, of one device here."""
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        return autoencoder()


class Adding(layers.Layer):  # type: ignore[misc]
    """The mean square of an output, as a loss of its own."""

    def call(self, outputs: Any) -> Any:
        self.add_loss(keras.ops.mean(keras.ops.square(outputs)))
        return outputs


def added() -> keras.Model:
    """Compiled without a loss: a layer adds it, so no outputs need be scores."""
    given = keras.Input((WIDTH,))
    model = keras.Model(given, Adding()(layers.Dense(1)(given)))
    model.compile(optimizer="adam")
    return model


def counting() -> keras.Model:
    """A loss of logarithms, of outputs that are negative too."""
    given = keras.Input((WIDTH,))
    model = keras.Model(given, layers.Dense(3)(given))
    model.compile(optimizer="adam", loss="poisson")
    return model


def masked() -> keras.Model:
    """Outputs of steps, of which those are masked that are negative."""
    given = keras.Input((WIDTH,))
    steps = layers.Masking()(layers.Reshape((WIDTH, 1))(layers.ReLU()(given)))
    model = keras.Model(given, layers.Dense(3)(steps))
    model.compile(optimizer="adam", loss="mse")
    return model


class VAE(keras.Model):  # type: ignore[misc]
    """Inputs alone, random numbers and metrics of its own, as in the examples of Keras."""

    def __init__(self, *, seeded: bool = False) -> None:
        super().__init__()
        self.mean, self.decoder = layers.Dense(2), layers.Dense(WIDTH)
        self.total = keras.metrics.Mean(name="loss")
        self.seeds = keras.random.SeedGenerator(7) if seeded else None

    @property
    def metrics(self) -> list[Any]:
        return [self.total]

    def sample(self, mean: Any) -> Any:
        shape = tf.shape(mean)
        if self.seeds is not None:
            return mean + keras.random.normal(shape, seed=self.seeds)
        return mean + tf.random.normal(shape)

    def call(self, x: Any) -> Any:
        return self.decoder(self.mean(x))

    def train_step(self, data: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            outputs = self.decoder(self.sample(self.mean(data)))
            loss = tf.reduce_mean(tf.square(outputs - data))
        descend(self, tape, loss)
        self.total.update_state(loss)
        return {"loss": self.total.result()}


def seeded_vae() -> VAE:
    model = VAE(seeded=True)
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    return model


class GAN(keras.Model):  # type: ignore[misc]
    """Two optimizers, two losses, and no call."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.Sequential([keras.Input((2,)), layers.Dense(WIDTH)])
        self.critic = keras.Sequential([keras.Input((WIDTH,)), layers.Dense(1)])

    def compile(self, first: Any, second: Any) -> None:
        super().compile()
        self.first, self.second = first, second

    def train_step(self, real: Any) -> dict[str, Any]:
        count = tf.shape(real)[0]
        with tf.GradientTape(persistent=True) as tape:
            made = self.generator(tf.random.normal((count, 2)))
            worse = tf.reduce_mean(self.critic(made)) - tf.reduce_mean(self.critic(real))
            better = -tf.reduce_mean(self.critic(made))
        for optimizer, loss, part in (
            (self.first, worse, self.critic),
            (self.second, better, self.generator),
        ):
            weights = part.trainable_weights
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"critic": worse, "generator": better}


def gan() -> GAN:
    model = GAN()
    model.compile(keras.optimizers.Adam(1e-3), keras.optimizers.SGD(1e-2))
    return model


class Pairs(keras.Model):  # type: ignore[misc]
    """A step that takes targets, by Keras's own methods."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
        descend(self, tape, loss)
        return {"loss": loss}


class Wrong(Pairs):
    """Another step in a graph than eagerly."""

    def train_step(self, data: Any) -> dict[str, Any]:
        logs = super().train_step(data)
        factor = 1.0 if tf.executing_eagerly() else 3.0
        return {"loss": logs["loss"] * factor}


class WrongVAE(VAE):
    """Another loss in a graph, and random."""

    def train_step(self, data: Any) -> dict[str, Any]:
        logs = super().train_step(data)
        return {"loss": logs["loss"] * (1.0 if tf.executing_eagerly() else 1.5)}


class OwnLoss(keras.Model):  # type: ignore[misc]
    """Keras's step, with a loss of its own."""

    def factor(self) -> float:
        return 2.0

    def compute_loss(self, *given: Any, **named: Any) -> Any:
        return self.factor() * super().compute_loss(*given, **named)


class WrongLoss(OwnLoss):
    """Another loss in a graph than eagerly."""

    def factor(self) -> float:
        return 1.0 if tf.executing_eagerly() else 3.0


class Gathering(Pairs):
    """Gradients of two steps, in variables that Keras does not list."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.taken = tf.Variable(0, trainable=False)
        weights = self.trainable_weights
        self.sums = [tf.Variable(tf.zeros(each.shape), trainable=False) for each in weights]

    def apply(self) -> None:
        self.optimizer.apply_gradients(zip(self.sums, self.trainable_weights, strict=True))

    def train_step(self, data: Any) -> dict[str, Any]:
        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(inputs, training=True) - targets))
        for each, more in zip(self.sums, tape.gradient(loss, self.trainable_weights), strict=True):
            each.assign_add(more)
        tf.cond(self.taken.assign_add(1) % 2 == 0, self.apply, lambda: None)
        return {"loss": loss}


class Silent(Pairs):
    """A step that returns nothing."""

    def train_step(self, data: Any) -> Any:
        super().train_step(data)


class Bare(Pairs):
    """A step that returns the loss itself."""

    def train_step(self, data: Any) -> Any:
        return super().train_step(data)["loss"]


class Broken(Pairs):
    """A step that fails whatever it gets."""

    def train_step(self, data: Any) -> dict[str, Any]:
        raise ValueError("no data fits")


def _builder_of(kind: type[keras.Model]) -> Callable[[], keras.Model]:
    def build() -> keras.Model:
        given = keras.Input((WIDTH,))
        model = kind(given, layers.Dense(3)(given))
        model.compile(optimizer="rmsprop", loss="mae")
        return model

    return build


pairs, own_loss = _builder_of(Pairs), _builder_of(OwnLoss)

wrong, wrong_loss, broken = map(_builder_of, (Wrong, WrongLoss, Broken))

summing, silent, bare = map(_builder_of, (Gathering, Silent, Bare))


def regularized() -> Pairs:
    """Class scores of which a layer adds a penalty, compiled with an optimizer alone."""
    given = keras.Input((WIDTH,))
    model = Pairs(given, layers.Dense(3, activity_regularizer="l2")(given))
    model.compile(optimizer="rmsprop")
    return model


class Named(Pairs):
    """Two inputs in one dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = layers.Dense(3), layers.Dense(3)
        self.compile(optimizer="rmsprop", loss="mae")

    def call(self, x: Any) -> Any:
        return self.user(x["user"]) - self.item(x["item"])


class Recalled(Named):
    """The same, without targets."""

    def train_step(self, data: Any) -> dict[str, Any]:
        return super().train_step((data, tf.ones_like(data["user"][:, :3])))


class InOrder(Pairs):
    """A step that tells apart which of its two inputs is which."""

    def train_step(self, data: Any) -> dict[str, Any]:
        (first, second), _ = data
        tf.debugging.assert_less(first, 1.0)
        tf.debugging.assert_greater(second, 1.0)
        return super().train_step(data)


def in_order() -> keras.Model:
    first, second = keras.Input((WIDTH,), name="first"), keras.Input((WIDTH,), name="second")
    model = InOrder([first, second], layers.Dense(3)(first + second))
    model.compile(optimizer="rmsprop", loss="mae")
    return model


class Arguments(keras.Model):  # type: ignore[misc]
    """A call of two arguments, and a step that takes them in a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = layers.Dense(3), layers.Dense(3)

    def call(self, user: Any, item: Any) -> Any:
        return self.user(user) - self.item(item)

    def train_step(self, data: Any) -> dict[str, Any]:
        user, item = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(user, item)))
        descend(self, tape, loss)
        return {"loss": loss}
