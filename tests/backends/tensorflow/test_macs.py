"""Multiply-accumulates of HLO modules, against counts by hand."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf
from hlo_modules import Op, constant, convolution, dot, element, module, op, parameter, product

from xla_sweeps.backends.keras.hlo import Module, count_macs
from xla_sweeps.backends.keras.mac_count import MacCount
from xla_sweeps.backends.tensorflow.operations import lower

pytestmark = pytest.mark.tf

PLAIN = product(
    convolution, "f32[1,112,112,64]", "f32[1,224,224,3]", "f32[7,7,3,64]", labels="01io"
)

GROUPED = product(
    convolution, "f32[1,16,16,24]", "f32[1,32,32,24]", "f32[3,3,8,24]", labels="01io", groups=3
)

DEPTHWISE = product(
    convolution, "f32[2,56,56,96]", "f32[2,56,56,96]", "f32[7,7,1,96]", labels="01io", groups=96
)

TRANSPOSED = product(
    convolution, "f32[1,8,8,4]", "f32[1,4,4,6]", "f32[2,2,4,6]", labels="01oi", dilation=2
)

DOT = product(dot, "f32[4,1000]", "f32[4,368]", "f32[368,1000]")

BATCH_DOT = product(dot, "f32[2,12,197,197]", "f32[2,12,197,64]", "f32[2,12,64,197]", contracted=3)


@pytest.mark.parametrize(
    ("instructions", "macs"),
    [
        (PLAIN, 112 * 112 * 64 * 7 * 7 * 3),
        (GROUPED, 16 * 16 * 24 * 3 * 3 * 8),
        (DEPTHWISE, 2 * 56 * 56 * 96 * 7 * 7),
        (TRANSPOSED, 8 * 8 * 4 * 2 * 2 * 6 // 4),
        (DOT, 4 * 1000 * 368),
        (BATCH_DOT, 2 * 12 * 197 * 197 * 64),
    ],
)
def test_each_kind_of_product_is_counted_as_by_hand(instructions: list[Op], macs: int) -> None:
    assert count_macs(module(main=instructions)).total == macs


def test_the_count_of_a_module_is_the_sum_of_its_operations() -> None:
    both = op("both", "(f32[1,112,112,64], f32[4,1000])", "tuple", "convolution", "dot")
    count = count_macs(module(main=[*PLAIN, *DOT, both]))
    assert count.total == 112 * 112 * 64 * 147 + 4 * 368_000
    assert not count.at_least


STATE = "(s32[], f32[8,8])"


def loop(limit: Op, *, step: str = "add", start: int = -2, direction: str = "LT") -> Module:
    """Products in a loop whose counter starts at `start`; an unused one before it."""
    return module(
        body=[
            parameter("p", STATE),
            element("i", "s32[]", "p", 0),
            constant("one", 1),
            op("next", "s32[]", step, "i", "one" if step == "add" else "i"),
            element("x", "f32[8,8]", "p", 1),
            dot("y", "f32[8,8]", "x", "x"),
            op("t", STATE, "tuple", "next", "y"),
        ],
        condition=[
            parameter("q", STATE),
            element("j", "s32[]", "q", 0),
            limit,
            op("go", "pred[]", "compare", "j", "limit", comparison_direction=direction),
        ],
        main=[
            parameter("a", "f32[8,8]"),
            constant("begin", start),
            dot("unused", "f32[8,8]", "a", "a"),
            op("started", STATE, "tuple", "begin", "a"),
            op("w", STATE, "while", "started", called=("body", "condition")),
        ],
    )


@pytest.mark.parametrize(
    ("limit", "steps", "at_least"),
    [
        (constant("limit", 7), 9, False),
        (constant("limit", -2), 0, False),
        (op("limit", "s32[]", "custom-call"), 1, True),
        (constant("limit", 2_000_000_000), 1, True),
    ],
)
def test_the_body_of_a_loop_counts_as_often_as_its_condition_lets_it_run(
    limit: Op, steps: int, at_least: bool
) -> None:
    count = count_macs(loop(limit))
    assert (count.total, count.at_least) == (steps * 8**3, at_least)


def test_a_counter_past_32_bits_is_not_known_and_not_worked_out() -> None:
    endless = loop(constant("limit", 2), step="multiply", start=3, direction="GT")
    count = count_macs(endless)
    assert (count.total, count.at_least) == (8**3, True)


@pytest.mark.exhaustive
def test_loops_that_tensorflow_writes_count_like_the_same_steps_written_out() -> None:
    def counted(function: Any, *shape: int) -> MacCount:
        return count_macs(lower(tf.function(function, jit_compile=True), tf.zeros(shape)))

    for unroll in (False, True):
        layer = keras.layers.LSTM(64, unroll=unroll)
        layer.build((1, 50, 64))
        assert counted(layer, 1, 50, 64).total == 50 * 2 * 64 * 4 * 64
        assert not counted(layer, 1, 50, 64).at_least

    def nested(x: Any) -> Any:
        for _ in tf.range(5):
            for _ in tf.range(3):
                x = tf.matmul(x, x)
        return x

    def until(x: Any) -> Any:
        while tf.reduce_sum(x) < 100.0:
            x = tf.matmul(x, x)
        return x

    def loss_free(x: Any) -> Any:
        while tf.reduce_sum(x) < 100.0:
            x = x + 1.0
        return tf.matmul(x, x)

    assert counted(nested, 8, 8).total == 5 * 3 * 8**3
    assert (counted(until, 8, 8).total, counted(until, 8, 8).at_least) == (8**3, True)
    assert (counted(loss_free, 8, 8).total, counted(loss_free, 8, 8).at_least) == (8**3, False)


def test_a_grouped_convolution_has_the_same_count_in_its_gradient() -> None:
    def gradient(images: Any, kernel: Any, upstream: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            result = tf.nn.conv2d(images, kernel, 1, "SAME")
        return tape.gradient(result, kernel, upstream)

    inputs = tf.zeros((2, 6, 6, 8)), tf.zeros((3, 3, 4, 10)), tf.zeros((2, 6, 6, 10))
    backwards = lower(tf.function(gradient, jit_compile=True), *inputs)
    assert any(each.batch_group_count > 1 for each in backwards.instructions.values())
    assert count_macs(backwards).total == 2 * 6 * 6 * 10 * 3 * 3 * 4


def test_products_are_counted_by_the_type_of_their_operands() -> None:
    low = product(dot, "f32[4,1000]", "bf16[4,368]", "bf16[368,1000]")
    both = op("both", "(f32[1,112,112,64], f32[4,1000])", "tuple", "convolution", "dot")
    count = count_macs(module(main=[*PLAIN, *low, both]))
    assert count.by_type == {"f32": 112 * 112 * 64 * 147, "bf16": 4 * 1000 * 368}
    assert count.of_each(4).by_type["bf16"] == 1000 * 368
