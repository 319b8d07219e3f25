"""Models that show one thing each, built here."""

from __future__ import annotations

from typing import Any

import keras

from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.keras.sources.applications import library_of
from xla_sweeps.errors import unknown_name
from xla_sweeps.schema.trial import InputSpec, ModelSpec

FEATURES = 16


def load(spec: ModelSpec) -> LoadedModel:
    """Build an example for the spec's resolution: the side of matrices, or a number of steps.

    Raises:
        ConfigError: there is no such example.
    """
    name = spec.recipe["constructor"]
    if name not in _EXAMPLES:
        raise unknown_name("example", name, _EXAMPLES)
    model = _EXAMPLES[name](library_of(spec), spec.inputs[0].shape[0])
    shapes = {declared.name: tuple(declared.shape[1:]) for declared in model.inputs}
    if len(shapes) == 1:
        (shape,), bound = shapes.values(), 3**0.5  # mean 0 and variance 1
        return LoadedModel.of_keras(model, (InputSpec(shape=shape, low=-bound, high=bound),))
    inputs = [InputSpec(shape=shape, high=1.0, name=name) for name, shape in shapes.items()]
    return LoadedModel.of_keras(model, tuple(inputs), pack=list)


def _sum_of_products(library: Any, side: int) -> Any:
    """For each sample, the sum of x + y * z over three matrices of that side.

    A multiplication, an addition and a sum: one after the other they move 7 arrays, fused only the
    3 inputs. The example is that of TensorFlow's introduction to XLA.
    """
    x, y, z = (library.Input((side, side), name=name) for name in "xyz")
    if library is keras:
        return library.Model([x, y, z], keras.ops.sum(x + y * z, axis=(1, 2)))
    total = library.layers.Lambda(lambda whole: library.backend.sum(whole, (1, 2)))(x + y * z)
    return library.Model([x, y, z], total)


def _dense(library: Any, _: int) -> Any:
    """The smallest model of the thread in `_conv_lstm`: 4 numbers, 13 parameters."""
    inputs = library.Input((4,))
    value = library.layers.Dense(2, activation="relu")(inputs)
    return library.Model(inputs, _answer(library)(value))


def _conv(library: Any, steps: int) -> Any:
    """The small model of tensorflow#33487: one convolution over the whole sequence."""
    inputs = library.Input((steps, FEATURES))
    value = library.layers.Conv1D(128, 400, strides=4, padding="same")(inputs)
    value = library.layers.Dropout(0.5)(library.layers.Flatten()(value))
    value = library.layers.Dense(64, activation="relu")(value)
    return library.Model(inputs, _answer(library)(value))


def _conv_lstm(library: Any, steps: int) -> Any:
    """The model of stackoverflow.com/q/58378374: is predict slower after compile?

    As its code runs: it gives its second LSTM the input, so that the bidirectional LSTM before it
    is never used. The recurrent weights are a quarter of Keras's, so that 400 steps of relu stay
    finite; speed does not depend on them.
    """
    layers = library.layers
    inputs = library.Input((steps, FEATURES))
    recurrent = library.initializers.Orthogonal(gain=0.25, seed=0)
    value = layers.LSTM(
        512, activation="relu", return_sequences=True, recurrent_initializer=recurrent
    )(inputs)
    value = layers.Flatten()(layers.Conv1D(128, 400, padding="same")(value))
    value = layers.Dropout(0.5)(layers.Dense(256, activation="relu")(value))
    for units in (128, 64):
        value = layers.Dense(units, activation="relu")(value)
    return library.Model(inputs, _answer(library)(value))


def _answer(library: Any) -> Any:
    """One probability; mixed precision leaves it in float32, as Keras advises.

    Random weights give answers that differ by less than half precision shows beside 0.5.
    """
    return library.layers.Dense(1, activation="sigmoid", dtype=library.backend.floatx())


def _mnist_mlp(library: Any, side: int) -> Any:
    """784-512-256-10: the classifier of handwritten digits of XLA's tutorials."""
    value = inputs = library.Input((side * side,))
    for units in (512, 256):
        value = library.layers.Dense(units, activation="relu")(value)
    return library.Model(inputs, library.layers.Dense(10)(value))


_EXAMPLES = {
    "sum_of_products": _sum_of_products,
    "dense": _dense,
    "conv": _conv,
    "conv_lstm": _conv_lstm,
    "mnist_mlp": _mnist_mlp,
}
