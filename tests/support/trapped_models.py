"""Small models that XLA refuses or changes, each with what `explain` must find in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from xla_sweeps.schema.explanation import State, TrapName


class Custom(keras.layers.Layer):
    """A layer that does one thing."""

    def __init__(self, function: Callable[[Any], Any], **named: Any) -> None:
        super().__init__(**named)
        self.function = function

    def call(self, value: Any) -> Any:
        return self.function(value)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a layer `culprit` does, and what must be found in it.

    Attributes:
        refused: operations that have no kernel.
        compiles: whether the compiler takes it.
    """

    function: Callable[[Any], Any]
    refused: tuple[str, ...] = ()
    traps: Mapping[TrapName, State] = field(default_factory=dict)
    compiles: bool = True


IMAGE = (2, 16, 16, 4)


def refused(function: Callable[[Any], Any], *ops: str) -> Case:
    return Case(function=function, refused=ops, compiles=False)


def trapped(function: Callable[[Any], Any], name: TrapName, state: State = State.FOUND) -> Case:
    return Case(function=function, traps={name: state})


def bicubic(image: Any) -> Any:
    return tf.image.resize(image, (8, 8), method="bicubic")


def pooled(image: Any) -> Any:
    return tf.nn.max_pool_with_argmax(image, 2, 2, "SAME")[0]


def _crop(image: Any) -> Any:
    return tf.image.crop_and_resize(image, tf.zeros((2, 4)), tf.constant([0, 1]), (4, 4))


def _printed(image: Any) -> Any:
    with tf.control_dependencies([tf.print(tf.reduce_sum(image))]):
        return tf.identity(image)


def _python(image: Any) -> Any:
    return tf.ensure_shape(tf.numpy_function(lambda x: x * 2, [image], tf.float32), IMAGE)


def _in_a_branch(image: Any) -> Any:
    return tf.cond(tf.reduce_sum(image) > 0, lambda: bicubic(image), lambda: tf.zeros((2, 8, 8, 4)))


def _several(image: Any) -> Any:
    inner = tf.function(pooled)(image)[:2, :8, :8]
    return _in_a_branch(_crop(inner) * 0 + 1.0) + tf.reduce_sum(image)


def _unused_text(image: Any) -> Any:
    tf.strings.as_string(image)
    return image + 1


def _text_gather(image: Any) -> Any:
    words = tf.gather(tf.constant(["1", "2", "3"]), tf.cast(image * 0, tf.int32))
    return image + tf.strings.to_number(words)


def _computed_size(image: Any) -> Any:
    side = tf.cast(
        tf.reduce_max(tf.nn.relu(tf.nn.conv2d(image, tf.ones((1, 1, 4, 1)), 1, "SAME"))), tf.int32
    )
    return tf.image.resize(image, tf.stack([side % 5 + 1, 4]))


def _asserted(image: Any) -> Any:
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_max(image) < 1e9, [image])]):
        return tf.identity(image)


def _array(image: Any) -> Any:
    count = tf.cast(tf.reduce_sum(image[0, 0]) % 5, tf.int32) + 2
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    _, array = tf.while_loop(
        lambda index, _: index < count,
        lambda index, items: (index + 1, items.write(index, 1.0)),
        (0, array),
    )
    return array.stack()


def _sliced(image: Any) -> Any:
    size = tf.cast(image[0, 0, 0, 0] * 10, tf.int32) % 7 + 2
    return tf.range(20.0)[:size]


def _scattered(image: Any) -> Any:
    indices = tf.cast(image[0, :1, 0, :1] + 100, tf.int32)
    return tf.tensor_scatter_nd_add(tf.zeros(3), indices, [1.0])


def _amplified(image: Any) -> Any:
    return tf.sin(tf.nn.conv2d(image, tf.fill((3, 3, 4, 4), 0.1), 1, "SAME") * 1e7)


CASES: dict[str, Case] = {
    "print": refused(_printed, "StringFormat", "PrintV2"),
    "numpy_function": refused(_python, "PyFunc"),
    "gather_of_texts": refused(_text_gather, "GatherV2", "StringToNumber"),
    "several": refused(_several, "MaxPoolWithArgmax", "CropAndResize", "ResizeBicubic"),
    "unused_text": refused(_unused_text, "AsString"),
    "computed_size": Case(function=_computed_size, compiles=False),
    "unused_text_in_a_function": Case(
        function=lambda image: tf.function(_unused_text)(image) * 2,
    ),
    "assertion": trapped(_asserted, TrapName.DROPPED_CHECKS),
    "division_by_zero": trapped(
        lambda image: 5 // tf.cast(image * 0, tf.int32), TrapName.DROPPED_CHECKS
    ),
    "gather": trapped(
        lambda image: tf.gather(tf.range(300.0), tf.cast(image, tf.int32)),
        TrapName.CLAMPED_INDICES,
        State.POSSIBLE,
    ),
    "scatter_out_of_range": trapped(_scattered, TrapName.CLAMPED_INDICES),
    "growing_array": trapped(_array, TrapName.OTHER_SHAPE),
    "stateless_uniform": trapped(
        lambda image: image + tf.random.stateless_uniform(IMAGE, (1, 2)),
        TrapName.OTHER_RANDOM_NUMBERS,
    ),
    "cast": trapped(
        lambda image: tf.cast(tf.cast(image * 1e20, tf.int32), tf.float32) + image,
        TrapName.OTHER_VALUES,
    ),
    "amplified_rounding": trapped(_amplified, TrapName.OTHER_VALUES, State.UNKNOWN),
    "sliced_by_value": trapped(_sliced, TrapName.RECOMPILES_PER_VALUE),
    "compiled_inside": trapped(
        lambda image: tf.function(lambda value: tf.tanh(value) * 2, jit_compile=True)(image),
        TrapName.XLA_IN_EVERY_MODE,
    ),
}
"""Models with what `explain` must find in each, by name."""
