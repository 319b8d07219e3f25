"""Multiply-accumulates from HLO text, against counts by hand."""

from __future__ import annotations

from typing import Any

import pytest

from xla_sweeps.backends.tensorflow.macs import MacCount, UncountableError, count_macs

PLAIN = (
    "  %Conv2D.1 = f32[1,112,112,64]{3,2,1,0} convolution(f32[1,224,224,3]{3,2,1,0} %add.6, "
    "f32[7,7,3,64]{3,2,1,0} %arg1), "
    "window={size=7x7 stride=2x2 pad=2_3x2_3}, dim_labels=b01f_01io->b01f"
)

GROUPED = (
    "  %c = f32[1,16,16,24]{3,2,1,0} convolution(f32[1,32,32,24]{3,2,1,0} %r, "
    "f32[3,3,8,24]{3,2,1,0} %k), "
    "window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f, feature_group_count=3"
)

DEPTHWISE = (
    "  %c = f32[2,56,56,96]{3,2,1,0} convolution(f32[2,56,56,96]{3,2,1,0} %r, "
    "f32[7,7,1,96]{3,2,1,0} %k), "
    "window={size=7x7 pad=3_3x3_3}, dim_labels=b01f_01io->b01f, feature_group_count=96"
)

TRANSPOSED = (
    "  %c = f32[1,8,8,4]{3,2,1,0} convolution(f32[1,4,4,6]{3,2,1,0} %r, f32[2,2,4,6]{3,2,1,0} %k), "
    "window={size=2x2 pad=1_1x1_1 lhs_dilate=2x2}, dim_labels=b01f_01oi->b01f"
)

DOT = (
    "  ROOT %MatMul.2 = f32[4,1000]{1,0} dot(f32[4,368]{1,0} %Mean.21, f32[368,1000]{1,0} %arg), "
    "lhs_contracting_dims={1}, "
    'rhs_contracting_dims={0}, frontend_attributes={grad_x="false"}'
)

PRODUCT = DOT.replace("ROOT ", "")

BATCH_DOT = (
    "  %d = f32[2,12,197,197]{3,2,1,0} dot(f32[2,12,197,64]{3,2,1,0} %q, f32[2,12,64,197]{3,2,1,0} "
    "%k), lhs_batch_dims={0,1}, "
    "lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}"
)


@pytest.mark.parametrize(
    ("line", "macs"),
    [
        (PLAIN, 112 * 112 * 64 * 7 * 7 * 3),
        (GROUPED, 16 * 16 * 24 * 3 * 3 * 8),
        (DEPTHWISE, 2 * 56 * 56 * 96 * 7 * 7),
        (TRANSPOSED, 8 * 8 * 4 * 2 * 2 * 6 // 4),
        (DOT, 4 * 1000 * 368),
        (BATCH_DOT, 2 * 12 * 197 * 197 * 64),
    ],
)
def test_each_kind_of_product_is_counted_as_by_hand(line: str, macs: int) -> None:
    assert count_macs(line).total == macs


def test_the_count_of_a_module_is_the_sum_of_its_operations() -> None:
    count = count_macs(
        "\n".join(["HloModule m", "%main {", PLAIN, "  %a = f32[4]{0} add(%x, %y)", PRODUCT, "}"])
    )
    assert count.total == 112 * 112 * 64 * 147 + 4 * 368_000
    assert not count.at_least


def test_operands_without_shapes_are_looked_up() -> None:
    text = (
        "  x = f32[4,368]{1,0} parameter(0)\n  w = f32[368,10]{1,0} parameter(1)\n"
        "  d = f32[4,10]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    assert count_macs(text).total == 4 * 10 * 368


LOOP = """
HloModule m
%body (p: (s32[], f32[8,8])) -> (s32[], f32[8,8]) {
  %p = (s32[], f32[8,8]{1,0}) parameter(0)
  %i = s32[] get-tuple-element((s32[], f32[8,8]{1,0}) %p), index=0
  %one = s32[] constant(1)
  %next = s32[] add(s32[] %i, s32[] %one)
  %x = f32[8,8]{1,0} get-tuple-element((s32[], f32[8,8]{1,0}) %p), index=1
  %y = f32[8,8]{1,0} dot(f32[8,8]{1,0} %x, f32[8,8]{1,0} %x), lhs_contracting_dims={1}, rhs={0}
  ROOT %t = (s32[], f32[8,8]{1,0}) tuple(s32[] %next, f32[8,8]{1,0} %y)
}
%condition (q: (s32[], f32[8,8])) -> pred[] {
  %q = (s32[], f32[8,8]{1,0}) parameter(0)
  %j = s32[] get-tuple-element((s32[], f32[8,8]{1,0}) %q), index=0
  %limit = s32[] LIMIT
  ROOT %go = pred[] compare(s32[] %j, s32[] %limit), direction=LT
}
ENTRY %main (a: f32[8,8]) -> (s32[], f32[8,8]) {
  %a = f32[8,8]{1,0} parameter(0)
  %zero = s32[] constant(-2)
  %unused = f32[8,8]{1,0} dot(f32[8,8]{1,0} %a, f32[8,8]{1,0} %a), lhs_contracting_dims={1}, rhs={0}
  %start = (s32[], f32[8,8]{1,0}) tuple(s32[] %zero, f32[8,8]{1,0} %a)
  ROOT %w = (s32[], f32[8,8]{1,0}) while(%start), condition=%condition, body=%body
}
"""


@pytest.mark.parametrize(
    ("limit", "steps", "at_least"),
    [
        ("constant(7)", 9, False),
        ("constant(-2)", 0, False),
        ("custom-call()", 1, True),
        ("constant(2000000000)", 1, True),
    ],
)
def test_the_body_of_a_loop_counts_as_often_as_its_condition_lets_it_run(
    limit: str, steps: int, at_least: bool
) -> None:
    count = count_macs(LOOP.replace("LIMIT", limit))
    assert (count.total, count.at_least) == (steps * 8**3, at_least)


def test_a_counter_past_32_bits_is_not_known_and_not_worked_out() -> None:
    body = "%next = s32[] add(s32[] %i, s32[] %one)"
    squares = LOOP.replace(body, "%next = s32[] multiply(s32[] %i, s32[] %i)")
    endless = squares.replace("constant(-2)", "constant(3)").replace("LIMIT", "constant(2)")
    count = count_macs(endless.replace("direction=LT", "direction=GT"))
    assert (count.total, count.at_least) == (8**3, True)


@pytest.mark.tf
def test_loops_that_tensorflow_writes_count_like_the_same_steps_written_out() -> None:
    import keras
    import tensorflow as tf

    def counted(function: Any, *shape: int) -> MacCount:
        lowered = tf.function(function, jit_compile=True)
        example = tf.zeros(shape)
        return count_macs(lowered.experimental_get_compiler_ir(example)(stage="hlo_no_metadata"))

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


@pytest.mark.parametrize(
    "line",
    [
        PLAIN.replace("dim_labels=b01f_01io->b01f", ""),
        DOT.replace("lhs_contracting_dims={1}", "x"),
        "  %c = f32[1]{0} convolution(%a, %b), window={}, dim_labels=b01f_01io->b01f",
        "  %c = f32[1]{0} convolution(f32[1]{0} %a, f32[1]{0} %b)",
        PLAIN + ", batch_group_count=2",
    ],
)
def test_an_operation_that_cannot_be_read_is_refused_and_not_skipped(line: str) -> None:
    with pytest.raises(UncountableError):
        count_macs(line)


def test_products_are_counted_by_the_type_of_their_operands() -> None:
    low = PRODUCT.replace("f32[4,368]", "bf16[4,368]").replace("f32[368", "bf16[368")
    count = count_macs("\n".join((PLAIN, low)))
    assert count.by_type == {"f32": 112 * 112 * 64 * 147, "bf16": 4 * 1000 * 368}
    assert count.of_each(4).by_type["bf16"] == 1000 * 368
    untyped = """
  %a = f16[2,8]{1,0} parameter(0)
  %b = f16[8,3]{1,0} parameter(1)
  %d = f32[2,3]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    assert count_macs(untyped).by_type == {"f16": 2 * 3 * 8}
