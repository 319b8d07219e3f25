"""Models as users have them, for `path=own_models:NAME`."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def build(resolution: int = 96) -> keras.Model:
    inputs = keras.Input((resolution, resolution, 3))
    x = keras.layers.Conv2D(8, 3, strides=2, activation="relu")(
        keras.layers.Rescaling(1 / 255)(inputs)
    )
    return keras.Model(inputs, keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(x)))


def dropping() -> keras.Model:
    """Dropout at inference too, as in Monte-Carlo dropout."""
    inputs = keras.Input((8,))
    dropped = keras.layers.Dropout(0.5)(inputs, training=True)
    inner = keras.Model(inputs, dropped)
    outer = keras.Input((8,))
    return keras.Model(outer, keras.layers.Dense(4)(inner(outer)))


def of_float32() -> keras.Model:
    inputs = keras.Input((8,), dtype="float32")
    return keras.Model(inputs, keras.layers.Dense(2, dtype="float32")(inputs))


def of_any_size() -> keras.Model:
    inputs = keras.Input((None, None, 3))
    return keras.Model(
        inputs, keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(8, 3)(inputs))
    )


def two_inputs() -> keras.Model:
    image, tokens = (
        keras.Input((32, 32, 3), name="image"),
        keras.Input((16,), dtype="int32", name="tokens"),
    )
    seen = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(8, 3)(image))
    read = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(255, 8)(tokens))
    joined = keras.layers.Dense(4)(keras.layers.concatenate([seen, read]))
    return keras.Model({"tokens": tokens, "image": image}, {"joined": joined, "seen": seen})


class Subclassed(keras.Model):
    """Makes its variables when it is first called."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = keras.layers.Conv2D(4, 3)

    def call(self, images: Any) -> Any:
        return self.convolution(images)


class Scaled(tf.Module):
    """Two arguments, no Keras."""

    def __init__(self) -> None:
        self.kernel = tf.Variable(tf.random.stateless_normal((5, 5, 3, 8), seed=(1, 2)))

    def __call__(self, image: Any, scale: Any) -> Any:
        return tf.nn.conv2d(image, self.kernel, 1, "SAME") * scale[:, None, None, None]


def restored() -> Any:
    return tf.function(
        lambda images: tf.reduce_mean(images, axis=(1, 2)),
        input_signature=[tf.TensorSpec((None, 8, 8, 3))],
    )


NUMBER = 3


def breaks() -> None:
    raise RuntimeError("the weights are elsewhere\nand more lines")
