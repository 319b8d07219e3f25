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
    """A model and its expected finding.

    Attributes:
        function: what its layer `culprit` does.
        refused: operations that have no kernel.
        traps: what is expected of some traps.
        named: the trap whose places must name the layer, or None.
        compiles: whether the compiler takes it.
    """

    function: Callable[[Any], Any]
    refused: tuple[str, ...] = ()
    traps: Mapping[TrapName, State] = field(default_factory=dict)
    named: TrapName | None = None
    compiles: bool = True


FOUND, POSSIBLE = State.FOUND, State.POSSIBLE

IMAGE = (2, 16, 16, 4)


def refused(function: Callable[[Any], Any], *ops: str) -> Case:
    return Case(function=function, refused=ops, compiles=False)


def trapped(
    function: Callable[[Any], Any], name: TrapName, state: State = FOUND, **more: Any
) -> Case:
    return Case(function=function, traps={name: state}, named=name, **more)


def _boxes(image: Any) -> Any:
    return tf.reshape(image[..., 0], (2, -1, 1, 4)), tf.reshape(image[..., 1], (2, -1, 4))


def _combined(image: Any) -> Any:
    boxes, scores = _boxes(image)
    return tf.image.combined_non_max_suppression(boxes, scores, 4, 4).nmsed_boxes


def _crop(image: Any) -> Any:
    return tf.image.crop_and_resize(image, tf.zeros((2, 4)), tf.constant([0, 1]), (4, 4))


def _printed(image: Any) -> Any:
    with tf.control_dependencies([tf.print(tf.reduce_sum(image))]):
        return tf.identity(image)


def _python(image: Any) -> Any:
    return tf.ensure_shape(tf.numpy_function(lambda x: x * 2, [image], tf.float32), IMAGE)


def _lookup(image: Any) -> Any:
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2]), tf.constant([3.0, 4.0])), 0.0
    )
    return image + table.lookup(tf.cast(image, tf.int32))


def _strings(image: Any) -> Any:
    return image + tf.strings.to_number(tf.strings.join([tf.strings.as_string(image), "0"]))


def _in_a_branch(image: Any) -> Any:
    return tf.cond(
        tf.reduce_sum(image) > 0,
        lambda: tf.image.resize(image, (8, 8), method="bicubic"),
        lambda: tf.zeros((2, 8, 8, 4)),
    )


@tf.function
def _inner(image: Any) -> Any:
    return tf.nn.max_pool_with_argmax(image, 2, 2, "SAME")[0]


def _several(image: Any) -> Any:
    return _in_a_branch(_crop(_inner(image)[:2, :8, :8]) * 0 + 1.0) + tf.reduce_sum(image)


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


def _growing(image: Any) -> Any:
    return tf.while_loop(
        lambda index, value: index < 3,
        lambda index, value: (index + 1, tf.concat([value, value], 1)),
        (0, image),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([2, None, 16, 4])),
    )[1]


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


def _compiled_inside(image: Any) -> Any:
    return tf.function(lambda value: tf.tanh(value) * 2, jit_compile=True)(image)


CASES: dict[str, Case] = {
    "combined_nms": refused(_combined, "CombinedNonMaxSuppression"),
    "crop_and_resize": refused(_crop, "CropAndResize"),
    "bicubic": refused(
        lambda image: tf.image.resize(image, (8, 8), method="bicubic"), "ResizeBicubic"
    ),
    "area": refused(lambda image: tf.image.resize(image, (8, 8), method="area"), "ResizeArea"),
    "lanczos": refused(
        lambda image: tf.image.resize(image, (8, 8), method="lanczos3"), "ScaleAndTranslate"
    ),
    "argmax_pool": refused(
        lambda image: tf.nn.max_pool_with_argmax(image, 2, 2, "SAME")[0], "MaxPoolWithArgmax"
    ),
    "print": refused(_printed, "StringFormat", "PrintV2"),
    "numpy_function": refused(_python, "PyFunc"),
    "lookup": refused(_lookup, "LookupTableFindV2"),
    "strings": refused(_strings, "AsString", "StringJoin", "StringToNumber"),
    "gather_of_texts": refused(_text_gather, "GatherV2", "StringToNumber"),
    "segments": refused(
        lambda image: tf.math.segment_sum(tf.ones(4), tf.cast(image[0, 0, :, 0] * 0, tf.int32)[:4]),
        "SegmentSum",
    ),
    "dilation": refused(
        lambda image: tf.nn.dilation2d(
            image, tf.zeros((2, 2, 4)), (1, 1, 1, 1), "SAME", "NHWC", (1, 1, 1, 1)
        ),
        "Dilation2D",
    ),
    "in_a_branch": refused(_in_a_branch, "ResizeBicubic"),
    "in_a_function": refused(_inner, "MaxPoolWithArgmax"),
    "several": refused(_several, "MaxPoolWithArgmax", "CropAndResize", "ResizeBicubic"),
    "unused_text": refused(_unused_text, "AsString"),
    "computed_size": Case(function=_computed_size, compiles=False),
    "growing_loop": Case(function=_growing, compiles=False),
    "assertion": trapped(_asserted, TrapName.DROPPED_CHECKS),
    "check_numerics": trapped(
        lambda image: tf.debugging.check_numerics(image, "finite"), TrapName.DROPPED_CHECKS
    ),
    "division_by_zero": trapped(
        lambda image: 5 // tf.cast(image * 0, tf.int32), TrapName.DROPPED_CHECKS
    ),
    "gather": trapped(
        lambda image: tf.gather(tf.range(300.0), tf.cast(image, tf.int32)),
        TrapName.CLAMPED_INDICES,
        POSSIBLE,
    ),
    "gather_out_of_range": trapped(
        lambda image: tf.gather(tf.range(3.0), tf.cast(image, tf.int32) + 100),
        TrapName.CLAMPED_INDICES,
    ),
    "gather_nd_out_of_range": trapped(
        lambda image: tf.gather_nd(image, tf.cast(image[:, :1, 0, :1] + 100, tf.int32)),
        TrapName.CLAMPED_INDICES,
    ),
    "scatter_out_of_range": trapped(
        lambda image: tf.tensor_scatter_nd_add(
            tf.zeros(3), tf.cast(image[0, :1, 0, :1] + 100, tf.int32), [1.0]
        ),
        TrapName.CLAMPED_INDICES,
    ),
    "growing_array": trapped(_array, TrapName.OTHER_SHAPE),
    "normal": trapped(lambda image: image + tf.random.normal(IMAGE), TrapName.OTHER_RANDOM_NUMBERS),
    "stateless_uniform": trapped(
        lambda image: image + tf.random.stateless_uniform(IMAGE, (1, 2)),
        TrapName.OTHER_RANDOM_NUMBERS,
    ),
    "shuffle": trapped(lambda image: tf.random.shuffle(image), TrapName.OTHER_RANDOM_NUMBERS),
    "cast": trapped(
        lambda image: tf.cast(tf.cast(image * 1e20, tf.int32), tf.float32) + image,
        TrapName.OTHER_VALUES,
    ),
    "sliced_by_value": trapped(_sliced, TrapName.RECOMPILES_PER_VALUE),
    "top_k_by_value": trapped(
        lambda image: (
            tf.math.top_k(
                image[0, 0, :, 0], tf.cast(image[0, 0, 0, 0] * 10, tf.int32) % 7 + 1
            ).values
        ),
        TrapName.RECOMPILES_PER_VALUE,
    ),
    "compiled_inside": trapped(_compiled_inside, TrapName.XLA_IN_EVERY_MODE),
    "nothing_to_cluster": trapped(
        lambda image: tf.image.resize(image, (8, 8), method="bicubic"),
        TrapName.LITTLE_CLUSTERED,
        refused=("ResizeBicubic",),
        compiles=False,
    ),
}
"""Models with what `explain` must find in each, by name."""

COMPILING: dict[str, Callable[[Any], Any]] = {
    "unique": lambda image: tf.unique(tf.reshape(tf.cast(image, tf.int32), (-1,))).y,
    "where": lambda image: tf.where(image > 100),
    "boolean_mask": lambda image: tf.boolean_mask(image, image > 100),
    "nms_v3": lambda image: tf.image.non_max_suppression(
        tf.reshape(image[0, ..., 0], (-1, 4)), tf.reshape(image[0, ..., 1], (-1,))[:64], 4
    ),
    "nms_v4": lambda image: tf.image.non_max_suppression_padded(
        tf.reshape(image[0, ..., 0], (-1, 4))[:16],
        image[0, 0, :, 1],
        4,
        pad_to_max_output_size=True,
    )[0],
    "unused_text_in_a_function": lambda image: tf.function(_unused_text)(image) * 2,
}
"""Functions that compile but are not in the public list of 2018, and one that nothing needs."""


def keras_model(function: Callable[[Any], Any], **named: Any) -> keras.Model:
    """A model whose layer `culprit` does what the function does."""
    inputs = keras.Input(IMAGE[1:])
    layer = Custom(function, name="culprit", **named)
    return keras.Model(inputs, layer(keras.layers.Activation("linear", name="before")(inputs)))
