"""Models as users have them, for `path=own_models:NAME`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf


def build(resolution: int = 96) -> keras.Model:
    inputs = keras.Input((resolution, resolution, 3))
    x = keras.layers.Conv2D(8, 3, strides=2, activation="relu")(
        keras.layers.Rescaling(1 / 255)(inputs)
    )
    return keras.Model(inputs, keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(x)))


class Networks:
    """Makers of models, as a class has them."""

    @classmethod
    def build(cls, resolution: int = 96) -> keras.Model:
        return cls.small(resolution)

    @staticmethod
    def small(resolution: int = 32) -> keras.Model:
        return build(resolution)

    @classmethod
    def of_sizes(cls, width: int, depth: int) -> keras.Model:
        return cls.small(width * depth)

    def of_instance(self) -> keras.Model:
        return build()


NETWORKS = Networks()


def dropping() -> keras.Model:
    """Dropout at inference too, as in Monte-Carlo dropout."""
    inputs = keras.Input((8,))
    dropped = keras.layers.Dropout(0.5)(inputs, training=True)
    inner = keras.Model(inputs, dropped)
    outer = keras.Input((8,))
    return keras.Model(outer, keras.layers.Dense(4)(inner(outer)))


def _augmenting() -> list[keras.layers.Layer]:
    layers = keras.layers
    return [
        layers.RandomFlip("horizontal"),
        layers.RandomRotation(0.1),
        layers.RandomZoom(0.1),
        layers.RandomTranslation(0.1, 0.1),
        layers.RandomBrightness(0.2),
        layers.RandomContrast(0.2),
        layers.RandomCrop(12, 12),
        layers.Resizing(16, 16),
        layers.Rescaling(1 / 255),
        layers.GaussianNoise(0.1),
    ]


def _classifying() -> list[keras.layers.Layer]:
    layers = keras.layers
    normalized = layers.Normalization(mean=0.4, variance=0.1)
    return [normalized, layers.Conv2D(4, 3), layers.Flatten(), layers.Dropout(0.5), layers.Dense(4)]


def augmented() -> keras.Model:
    """Preprocessing and augmentation in the model, as Keras's tutorials have them."""
    outputs = inputs = keras.Input((16, 16, 3))
    for layer in [*_augmenting(), *_classifying()]:
        outputs = layer(outputs)
    return keras.Model(inputs, outputs)


def augmented_by_a_sequential() -> keras.Model:
    outputs = inputs = keras.Input((16, 16, 3))
    for layer in [keras.Sequential(_augmenting()), *_classifying()]:
        outputs = layer(outputs)
    return keras.Model(inputs, outputs)


def augmented_in_sequentials() -> keras.Model:
    inputs = keras.Input((16, 16, 3))
    return keras.Sequential([inputs, keras.Sequential(_augmenting()), *_classifying()])


def augmented_by_a_pipeline() -> keras.Model:
    inputs = keras.Input((16, 16, 3))
    return keras.Sequential([inputs, keras.layers.Pipeline(_augmenting()), *_classifying()])


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


def built_for_a_size() -> keras.Model:
    model = Subclassed()
    model.build((None, 24, 24, 3))
    return model


class OfIds(keras.Model):
    """Takes ids of words."""

    def __init__(self) -> None:
        super().__init__()
        self.table = keras.layers.Embedding(50, 4)

    def call(self, ids: Any) -> Any:
        return self.table(ids)


class Sum(keras.Model):
    """Takes a dictionary."""

    def call(self, given: Any) -> Any:
        return given["one"] + given["other"]


def called_with_a_dictionary() -> keras.Model:
    model = Sum()
    model({"one": np.ones((2, 5)), "other": np.ones((2, 1))})
    return model


class Product(keras.Model):
    """Takes two arguments."""

    def call(self, left: Any, right: Any, training: bool = False) -> Any:
        return left * right


def called_with_two() -> keras.Model:
    model = Product()
    model(np.ones((2, 6)), np.ones((2, 6)))
    return model


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


def a_class() -> type[Any]:
    kind: type[Any] = keras.Sequential
    return kind


def breaks() -> None:
    raise RuntimeError("the weights are elsewhere\nand more lines")
