"""XLA's program of a model, counted by the package and by hand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf
from explained_models import explaining
from hlo_modules import constant, convolution, dot, element, module, op, parameter

from xla_sweeps.backends.keras.explain import program
from xla_sweeps.backends.keras.explain.events import Event, Work
from xla_sweeps.backends.keras.explain.program import program_of, work_by_name
from xla_sweeps.backends.keras.explain.trace import time_of
from xla_sweeps.backends.keras.hlo import Module
from xla_sweeps.schema.explanation import Kind
from xla_sweeps.schema.modes import Mode

pytestmark = pytest.mark.tf

SQUARE = "f32[8,8]"
STATE = "(s32[], f32[8,8])"

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
        op(
            "library",
            "(f32[8,8], u8[16])",
            "custom-call",
            "copy.1",
            "x",
            custom_call_target="__gemm$f32",
        ),
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


def of_entry(text: str) -> Counter[str]:
    """Operations of the entry of a program, counted from its text line by line."""
    lines = text[text.index("\nENTRY ") :].splitlines()[2:]
    matches = (
        re.match(r"  (?:ROOT )?\S+ = (?:\(.*?\)|\S+) ([a-z][\w-]*)\(", line) for line in lines
    )
    return Counter(match[1] for match in matches if match)


def programs_of(call: Callable[[Any], Any], batch: Any) -> tuple[str, str]:
    """XLA's own text of a program, before its optimizer and after it."""
    function = tf.function(call, jit_compile=True, autograph=False)
    lowered = function.experimental_get_compiler_ir(batch)
    return str(lowered(stage="hlo")), str(lowered(stage="optimized_hlo"))


def test_the_sum_of_a_product_and_a_sum_becomes_one_fusion_that_reads_each_input_once() -> None:
    def example(batch: Any) -> Any:
        x, y, z = batch
        return tf.reduce_sum(x + y * z)

    batches = [tuple(tf.random.normal((256, 1024)) for _ in range(3)) for _ in range(2)]
    explanation = explaining(example, batches).explain()
    before, after = programs_of(example, batches[0])
    assert explanation.graph_operations == 3  # Mul, AddV2, Sum
    hand = of_entry(before)
    assert (hand["multiply"], hand["add"], hand["reduce"]) == (1, 1, 1)
    idle = ("parameter", "constant", "tuple", "get-tuple-element")
    assert explanation.hlo_operations == hand.total() - sum(hand[name] for name in idle)
    # On this CPU the product and the sum become one fusion, and a library sums up its result.
    assert explanation.program is not None
    assert (
        explanation.program.fusions + sum(explanation.program.library.values())
        == of_entry(after)["fusion"]
    )
    array = 4 * 256 * 1024
    (fusion,) = explanation.program.largest
    assert fusion.read_bytes == 3 * array
    assert {"at mul", "at add"} <= set(fusion.layers)
    assert explanation.program.operations <= 2
    assert explanation.time is not None
    for mode in explanation.time.modes:
        parts = sum(mode.by_kind.values()) + mode.gaps_s + mode.host_s
        assert parts == pytest.approx(mode.call_s)
        assert Kind.REDUCTION in mode.by_kind


def test_mobilenet_v1_is_counted_as_by_hand() -> None:
    model = keras.applications.MobileNet(weights=None, alpha=0.25, input_shape=(96, 96, 3))

    def call(image: Any) -> Any:
        return model(image, training=False)

    batches = [tf.random.uniform((2, 96, 96, 3)) for _ in range(2)]
    explanation = explaining(call, batches, model=model).explain(trace=False)
    before, after = programs_of(call, batches[0])
    counts, hand = explanation.program, of_entry(after)
    assert counts is not None
    assert counts.fusions + sum(counts.library.values()) == hand["fusion"] + hand["custom-call"]
    assert (counts.copies, counts.transposes) == (hand["copy"], hand["transpose"])
    # 28 convolutions, 13 of them depthwise; XLA may make a product of the last
    ones = re.findall(r" (?:convolution|dot)\(", after)
    assert counts.convolutions + counts.dots == len(ones) == 28
    lowered = of_entry(before)
    assert lowered["convolution"] == 28
    idle = ("parameter", "constant", "tuple", "get-tuple-element")
    assert explanation.hlo_operations == lowered.total() - sum(lowered[name] for name in idle)
    assert all(name.endswith(")") for fusion in counts.largest for name in fusion.layers)
    assert explanation.time is None
    assert explanation.missing["time"] == "left out by --no-trace"


def test_time_is_told_by_kind_and_layer_in_both_modes() -> None:
    inputs = keras.Input((32, 32, 4))
    deep = keras.layers.DepthwiseConv2D(5, name="deep")(keras.layers.Conv2D(8, 3)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.GlobalAveragePooling2D()(deep)))
    batches = [tf.random.uniform((2, 32, 32, 4)) for _ in range(2)]
    time = (
        explaining(lambda image: model(image, training=False), batches, model=model).explain().time
    )
    assert time is not None
    assert [mode.mode for mode in time.modes] == ["graph", "xla"]
    for mode in time.modes:
        assert {Kind.CONVOLUTION, Kind.DEPTHWISE, Kind.PRODUCT} <= set(mode.by_kind)
        assert all(spent_s > 0 for spent_s in mode.by_kind.values())
    assert {loss.layer for loss in time.lost} <= {
        f"{layer.name} ({type(layer).__name__})" for layer in model.layers
    }


def test_convolutions_of_one_channel_have_the_same_kinds_in_both_modes() -> None:
    inputs = keras.Input((32, 32, 1))
    deep = keras.layers.DepthwiseConv2D(5, name="deep")(inputs)
    model = keras.Model(inputs, keras.layers.Conv2D(8, 3, name="wide")(deep))
    batches = [tf.random.uniform((2, 32, 32, 1)) for _ in range(2)]
    time = (
        explaining(lambda image: model(image, training=False), batches, model=model).explain().time
    )
    assert time is not None
    for mode in time.modes:
        assert {Kind.CONVOLUTION, Kind.DEPTHWISE} <= set(mode.by_kind), mode


def test_what_xla_refuses_has_no_program_and_no_time() -> None:
    def refused(image: Any) -> Any:
        return tf.image.resize(image, (8, 8), method="bicubic")

    batches = [tf.random.uniform((2, 4, 4, 3)) for _ in range(2)]
    explanation = explaining(refused, batches).explain()
    assert explanation.graph_operations is not None
    assert (explanation.hlo_operations, explanation.program, explanation.time) == (None, None, None)
    assert {"hlo_operations", "program", "time"} <= set(explanation.missing)


def test_what_fails_in_graph_mode_alone_has_a_program_and_no_time() -> None:
    def failing(image: Any) -> Any:
        tf.debugging.assert_negative(image)  # XLA drops it
        return image * 2.0

    batches = [tf.ones((2, 4)) for _ in range(2)]
    explanation = explaining(failing, batches).explain()
    assert explanation.program is not None
    assert explanation.program.operations == 1
    assert explanation.time is None
    assert explanation.missing["time"].startswith("graph mode failed: ")


def test_a_program_that_cannot_be_counted_still_has_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def uncounted(module: Module, layer_of: Callable[[str], str]) -> None:
        raise ValueError("unheard of")

    monkeypatch.setattr(program, "program_of", uncounted)
    batches = [tf.ones((2, 4)) for _ in range(2)]
    explanation = explaining(lambda batch: batch * 2.0, batches).explain()
    assert explanation.program is None
    assert explanation.missing["program"] == "unheard of"
    assert explanation.time is not None
    assert "time" not in explanation.missing


def test_a_mode_that_the_profiler_did_not_see_is_named() -> None:
    work: dict[Mode, dict[str, Work]] = {mode: {} for mode in (Mode.GRAPH, Mode.XLA)}
    mark = Event(name="xla_sweeps:graph", start_s=0.0, end_s=1.0)
    with pytest.raises(ValueError, match="the profiler saw no call of xla"):
        time_of([mark], work)
