"""An explanation with something in every part."""

from __future__ import annotations

from xla_sweeps.analysis.roofline import roofline
from xla_sweeps.schema.explanation import (
    CompilerVerdict,
    Explanation,
    Fusion,
    Kind,
    LayerTime,
    ModeTime,
    Peak,
    Place,
    Program,
    Refusal,
    State,
    Time,
    Trap,
    TrapName,
    Work,
)

PLACES = tuple(
    Place(op="AsString", node=f"net/text/{n}", layer=f"text_{n} (Text)", line=f"net.py:{n}")
    for n in range(5)
)

LARGEST = tuple(
    Fusion(
        name=f"fusion.{n}",
        kind=Kind.ELEMENTWISE,
        operations=7,
        read_bytes=3_000_000,
        written_bytes=1_000_000,
        layers=tuple(f"layer_{n}_{number} (BatchNormalization)" for number in range(n)),
    )
    for n in range(5)
)


def mode_time(
    mode: str, call_s: float, convolution_s: float, depthwise_s: float, *, gaps_s: float, calls: int
) -> ModeTime:
    kinds = {Kind.CONVOLUTION: convolution_s, Kind.DEPTHWISE: depthwise_s}
    return ModeTime(
        mode=mode, call_s=call_s, by_kind=kinds, gaps_s=gaps_s, host_s=0.001, calls=calls
    )


def layer_time(layer: str, kind: Kind, graph_s: float, xla_s: float) -> LayerTime:
    return LayerTime(layer=layer, kind=kind, graph_s=graph_s, xla_s=xla_s)


WORK = Work(
    macs_by_type={"f32": 5_000_000_000},
    weight_bytes=80_000_000,
    input_bytes=15_000_000,
    output_bytes=5_000,
)

PEAKS = (
    Peak(name="matmul float32", unit="FLOP/s", per_s=100e9, one_core_per_s=51e9, size="2 x 2"),
    Peak(name="copy", unit="B/s", per_s=8e9),
)

KNOWN = Explanation(
    model="net",
    device="XLA_CPU_JIT",
    framework="TensorFlow 2.21.0",
    registered=("XLA_CPU_JIT",),
    operations=1234,
    refusals=(
        Refusal(
            op="AsString",
            devices=("XLA_CPU_JIT",),
            reason="no kernel",
            advice="texts in tf.data " * 8,
            places=PLACES,
        ),
    ),
    compiler=CompilerVerdict(compiles=False, message="a long message of the compiler " * 6),
    graph_operations=345,
    hlo_operations=456,
    program=Program(
        operations=67,
        fusions=17,
        library={"__onednn$matmul": 2},
        convolutions=23,
        dots=19,
        copies=3,
        transposes=0,
        converts=1,
        read_bytes=12_340_000,
        written_bytes=5_670_000,
        largest=LARGEST,
    ),
    time=Time(
        modes=(
            mode_time("graph", 0.010, 0.006, 0.001, gaps_s=0.002, calls=5),
            mode_time("xla", 0.015, 0.007, 0.006, gaps_s=0.001, calls=3),
        ),
        lost=(
            layer_time("deep (DepthwiseConv2D)", Kind.DEPTHWISE, 0.001, 0.005),
            layer_time("wide (Conv2D)", Kind.CONVOLUTION, 0.006, 0.007),
        ),
    ),
    roofline=roofline(WORK, PEAKS, {"graph": 0.125, "xla": 0.25}),
    traps=(
        Trap(name=TrapName.OTHER_SHAPE, state=State.NONE),
        Trap(name=TrapName.DROPPED_CHECKS, state=State.FOUND, what="gone", fix="check before"),
    ),
)
