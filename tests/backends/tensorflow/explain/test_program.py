"""XLA's program of a model, counted by hand; parts of the time of a call, which add up."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from explained_models import explaining
from hlo_modules import constant, convolution, dot, element, module, op, parameter

from xla_sweeps.backends.keras.explain.events import Event, OpWork
from xla_sweeps.backends.keras.explain.program import program_of, work_by_name
from xla_sweeps.backends.keras.explain.trace import Call, losses_of, mode_time, share_time, time_of
from xla_sweeps.schema.explanation import Kind
from xla_sweeps.schema.modes import Mode

pytestmark = pytest.mark.tf

SQUARE = "f32[8,8]"
STATE = "(s32[], f32[8,8])"
CALLED = "(f32[8,8], u8[16])"

PROGRAM = module(
    fused_mul=[
        parameter("p.0", SQUARE),
        parameter("p.1", "f32[64,8]", 1),
        parameter("p.2", "s32[]", 2),
        constant("zero", 0),
        op("slice.1", SQUARE, "dynamic-slice", "p.1", "p.2", "zero"),
        op("mul.1", SQUARE, "multiply", "p.0", "slice.1", metadata={"op_name": "net/scale/mul"}),
        op("add.1", SQUARE, "add", "mul.1", "p.0", metadata={"op_name": "net/shift/add"}),
    ],
    body=[
        parameter("state", STATE),
        element("at", "s32[]", "state", 0),
        element("value", SQUARE, "state", 1),
        dot("dot.1", SQUARE, "value", "value"),
        constant("one", 1),
        op("next", "s32[]", "add", "at", "one"),
        op("both", STATE, "tuple", "next", "dot.1"),
    ],
    condition=[
        parameter("state.1", STATE),
        element("at.1", "s32[]", "state.1", 0),
        constant("end", 3),
        op("less", "pred[]", "compare", "at.1", "end", comparison_direction="LT"),
    ],
    main=[
        parameter("x", SQUARE),
        parameter("i", "s32[]", 1),
        parameter("table", "bf16[64,8]", 2),
        op("wide", "f32[64,8]", "convert", "table", metadata={"op_name": "net/scale/Cast"}),
        op("fusion", SQUARE, "fusion", "x", "wide", "i", called=("fused_mul",)),
        op("copy.1", SQUARE, "copy", "fusion"),
        op("library", CALLED, "custom-call", "copy.1", "x", custom_call_target="__gemm$f32"),
        element("result", SQUARE, "library", 0),
        constant("start", 0),
        op("loop", STATE, "tuple", "start", "result"),
        op("while.1", STATE, "while", "loop", called=("body", "condition")),
        element("out", SQUARE, "while.1", 1),
    ],
)

LAYERS = {"net/scale/mul": "scale (Scale)", "net/shift/add": "shift (Shift)"}


def layer_of(name: str) -> str:
    return LAYERS.get(name, name and f"at {name}")


def test_operations_are_counted_where_they_run_and_bytes_are_read_once() -> None:
    counts = program_of(PROGRAM, layer_of)
    # convert, fusion, copy, custom-call; in the loop dot, add and compare
    assert counts.operations == 7
    assert (counts.fusions, counts.dots, counts.convolutions) == (1, 1, 0)
    assert (counts.copies, counts.transposes, counts.converts) == (1, 0, 1)
    assert counts.library == {"__gemm$f32": 1}
    (fusion,) = counts.largest
    assert fusion.operations == 3
    # x once, though it is used twice; of the table the slice; and the index
    assert (fusion.read_bytes, fusion.written_bytes) == (256 + 256 + 4, 256)
    assert fusion.layers == tuple(LAYERS.values())
    assert counts.written_bytes == 2048 + 256 + 256 + (256 + 16) + 256 + 4 + 1
    assert counts.read_bytes == 1024 + (256 + 256 + 4) + 256 + (256 + 256) + 256 + (4 + 4) + (4 + 4)


def test_what_xla_adds_belongs_to_the_layer_that_it_reads_from() -> None:
    work = work_by_name(PROGRAM, layer_of)
    assert work["fusion"].kind is Kind.ELEMENTWISE
    assert work["fusion"].layers == {"scale (Scale)": 0.5, "shift (Shift)": 0.5}
    assert work["copy.1"].kind is Kind.COPY
    assert work["dot.1"].kind is Kind.PRODUCT
    assert work["library"].kind is Kind.PRODUCT


@pytest.mark.parametrize(
    ("channels", "kind"), [(1, Kind.CONVOLUTION), (8, Kind.DEPTHWISE), (16, Kind.DEPTHWISE)]
)
def test_a_convolution_of_one_channel_is_not_depthwise(channels: int, kind: Kind) -> None:
    images, kernel = f"f32[2,8,8,{channels}]", "f32[3,3,1,16]"
    convolved = module(
        main=[
            parameter("x", images),
            parameter("k", kernel, 1),
            convolution("conv", "f32[2,8,8,16]", "x", "k", labels="01io", groups=channels),
        ]
    )
    assert work_by_name(convolved, layer_of)["conv"].kind is kind


def test_the_sum_of_a_product_and_a_sum_becomes_one_fusion_that_reads_each_input_once() -> None:
    def example(batch: Any) -> Any:
        x, y, z = batch
        return tf.reduce_sum(x + y * z)

    batches = [tuple(tf.random.normal((256, 1024)) for _ in range(3)) for _ in range(2)]
    explanation: Any = explaining(example, batches).explain(trace=False)
    assert explanation.missing["time"] == "left out by --no-trace"
    assert explanation.graph_operations == 3  # Mul, AddV2, Sum
    assert explanation.hlo_operations >= 3
    # On this CPU the product and the sum become one fusion, and a library sums up its result.
    (fusion,) = explanation.program.largest
    assert fusion.read_bytes == 3 * 4 * 256 * 1024
    assert {"at mul", "at add"} <= set(fusion.layers)
    assert explanation.program.operations <= 2


def test_a_mode_that_the_profiler_did_not_see_is_named() -> None:
    work: dict[Mode, dict[str, OpWork]] = {mode: {} for mode in (Mode.GRAPH, Mode.XLA)}
    mark = Event(name="xla_sweeps:graph", start_s=0.0, end_s=1.0)
    with pytest.raises(ValueError, match="the profiler saw no call of xla"):
        time_of([mark], work)


WORK = {
    "conv": OpWork(Kind.CONVOLUTION, {"conv1 (Conv2D)": 1.0}),
    "deep": OpWork(Kind.DEPTHWISE, {"deep (DepthwiseConv2D)": 1.0}),
    "fusion": OpWork(Kind.ELEMENTWISE, {"bn (BatchNormalization)": 0.75, "act (ReLU)": 0.25}),
    "relu": OpWork(Kind.ELEMENTWISE, {"act (ReLU)": 1.0}),
    "copy": OpWork(Kind.COPY, {"": 1.0}),
}


def call(*operations: tuple[str, float, float], end_s: float = 20.0) -> Call:
    spans, whole = [Event(*span) for span in operations], Event("call", 0.0, end_s)
    return Call(mode=Mode.XLA, traced=3, whole=whole, operations=spans, work=WORK)


def test_operations_that_run_at_once_share_the_time() -> None:
    seconds = share_time([Event("a", 0.0, 4.0), Event("b", 2.0, 6.0), Event("a", 3.0, 4.0)])
    assert seconds == pytest.approx({"a": 2 + 1 / 2 + 2 / 3, "b": 1 / 2 + 1 / 3 + 2})
    assert seconds.total() == pytest.approx(6.0)


def test_the_parts_of_a_call_add_up_to_it() -> None:
    time = mode_time(call(("conv", 2, 6), ("deep", 5, 9), ("copy", 12, 13), ("odd", 13, 14)))
    assert time.by_kind == pytest.approx(
        {Kind.CONVOLUTION: 3.5, Kind.DEPTHWISE: 3.5, Kind.COPY: 1.0, Kind.OTHER: 1.0}
    )
    assert time.gaps_s == pytest.approx(3.0)
    assert time.host_s == pytest.approx(2.0 + 6.0)
    assert sum(time.by_kind.values()) + time.gaps_s + time.host_s == pytest.approx(time.call_s)
    assert time.calls == 3


def test_a_call_in_which_no_operation_was_seen_is_the_hosts() -> None:
    time = mode_time(call())
    assert (time.by_kind, time.gaps_s, time.host_s) == ({}, 0.0, 20.0)


def test_lost_time_is_told_by_layer_and_a_fusion_is_shared_among_its_layers() -> None:
    graph = call(("conv", 0, 4), ("deep", 4, 5), ("relu", 5, 6))
    compiled = call(("conv", 0, 3), ("deep", 3, 10), ("fusion", 10, 14))
    lost = [(one.layer, one.kind, one.graph_s, one.xla_s) for one in losses_of(graph, compiled)]
    assert lost == [
        ("deep (DepthwiseConv2D)", Kind.DEPTHWISE, 1, 7),
        ("bn (BatchNormalization)", Kind.ELEMENTWISE, 0, 3),
    ]
