"""Models whose call is a function that was traced before its weights existed, and healthy ones."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers


class Decorated(keras.Model):
    """A form that people write: `call` is a `tf.function`, and its layers are built in it."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.inner = layers.Dense(24, activation="tanh", name="inner")
        self.outer = layers.Dense(8, name="outer")

    @tf.function
    def call(self, x: Any) -> Any:
        return self.outer(self.inner(x))


class Drawing(keras.Model):
    """Draws random numbers after such a call."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.within, self.dropout = Decorated(), layers.Dropout(0.5)

    def call(self, x: Any) -> Any:
        return self.dropout(self.within(x), training=True)


class Compiled(Decorated):
    @tf.function(jit_compile=True)
    def call(self, x: Any) -> Any:
        return self.outer(self.inner(x))


class OneOfTwo(Decorated):
    """Only one of its layers is called in a function."""

    def call(self, x: Any) -> Any:
        return self.outer(self.by_function(x))

    @tf.function
    def by_function(self, x: Any) -> Any:
        return self.inner(x)


class Block(layers.Layer):
    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.inner = layers.Dense(16, name="inner")

    @tf.function
    def call(self, x: Any) -> Any:
        return self.inner(x)


class InALayer(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.block, self.head = Block(), layers.Dense(8)

    def call(self, x: Any) -> Any:
        return self.head(self.block(x))


def in_a_functional() -> keras.Model:
    inputs = keras.Input((16,))
    return keras.Model(inputs, layers.Dense(8)(Block()(inputs)))


def in_a_sequential() -> keras.Model:
    return keras.Sequential([Block(), layers.Dense(8)])


class Baked(tf.Module):
    """A function that takes a variable's value for good."""

    def __init__(self) -> None:
        self.kernel = tf.Variable(tf.random.stateless_normal((16, 8), seed=(1, 2)))

    @tf.function
    def __call__(self, x: Any) -> Any:
        with tf.init_scope():
            kernel = self.kernel.numpy()
        return x @ kernel


class Plain(Decorated):
    """Its layers are built in its first call, which is no function."""

    def call(self, x: Any) -> Any:
        return self.outer(self.inner(x))


class BuiltBefore(Decorated):
    """A function of layers that `build` builds."""

    def build(self, shape: Any) -> None:
        self.inner.build(shape)
        self.outer.build((None, 24))


class Lazy(tf.Module):
    """A module that makes its variable in its first call, as TensorFlow's guide does."""

    def __init__(self) -> None:
        self.kernel: Any = None

    @tf.function
    def __call__(self, x: Any) -> Any:
        if self.kernel is None:
            self.kernel = tf.Variable(tf.random.stateless_normal((16, 8), seed=(1, 2)))
        return x @ self.kernel


class Unread(keras.Model):
    """Frozen layers, a head that only training needs, batch statistics, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = layers.Dense(24, trainable=False)
        self.normalize, self.drop = layers.BatchNormalization(), layers.Dropout(0.5)
        self.head, self.auxiliary = layers.Dense(8), layers.Dense(3)

    def call(self, x: Any, training: bool = False) -> Any:
        features = self.drop(self.normalize(self.frozen(x), training=training), training=training)
        auxiliary = self.auxiliary(features)
        return (self.head(features), auxiliary) if training else self.head(features)


class Constant(tf.Module):
    """No variables."""

    def __init__(self) -> None:
        self.kernel = tf.random.stateless_normal((16, 8), seed=(1, 2))

    def __call__(self, x: Any) -> Any:
        return x @ self.kernel


def function() -> Any:
    kernel = tf.random.stateless_normal((16, 8), seed=(1, 2))
    return tf.function(lambda x: tf.nn.relu(x @ kernel))


def closing_over_a_model() -> Any:
    model = Plain()
    return tf.function(lambda x: model(x))


class Holding(tf.Module):
    """TensorFlow finds no variables of Keras 3 in it."""

    def __init__(self) -> None:
        self.model = Plain()

    def __call__(self, x: Any) -> Any:
        return self.model(x)


def of_keras_2() -> Any:
    import tf_keras

    class Legacy(tf_keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = tf_keras.layers.Dense(24), tf_keras.layers.Dense(8)

        @tf.function
        def call(self, x: Any) -> Any:
            return self.outer(self.inner(x))

    return Legacy()
