"""Multiply-accumulates from HLO text, against counts by hand."""

from __future__ import annotations

import pytest

from xla_sweeps.tf.macs import UncountableError, count_macs

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
        "\n".join(["HloModule m", "ENTRY %main {", PLAIN, "  %a = f32[4]{0} add(%x, %y)", DOT, "}"])
    )
    assert (count.convolutions, count.dots, count.operations) == (
        112 * 112 * 64 * 147,
        4 * 368_000,
        2,
    )
    assert not count.loops


def test_operands_without_shapes_are_looked_up() -> None:
    text = (
        "  x = f32[4,368]{1,0} parameter(0)\n  w = f32[368,10]{1,0} parameter(1)\n"
        "  d = f32[4,10]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    assert count_macs(text).total == 4 * 10 * 368


def test_loops_are_reported_because_their_bodies_count_once() -> None:
    assert count_macs(
        "  %w = (s32[], f32[2]{0}) while((s32[], f32[2]{0}) %t), condition=%c, body=%b\n" + DOT
    ).loops


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
