"""Parts of the time of a call: they add up, and nothing is counted twice."""

from __future__ import annotations

import pytest

from xla_sweeps.backends.keras.explain.events import Event, Work
from xla_sweeps.backends.keras.explain.trace import Call, lost, mode_time, shared
from xla_sweeps.schema.explanation import Kind
from xla_sweeps.schema.modes import Mode

pytestmark = pytest.mark.tf

WORK = {
    "conv": Work(Kind.CONVOLUTION, {"conv1 (Conv2D)": 1.0}),
    "deep": Work(Kind.DEPTHWISE, {"deep (DepthwiseConv2D)": 1.0}),
    "fusion": Work(Kind.ELEMENTWISE, {"bn (BatchNormalization)": 0.75, "act (ReLU)": 0.25}),
    "relu": Work(Kind.ELEMENTWISE, {"act (ReLU)": 1.0}),
    "copy": Work(Kind.COPY, {"": 1.0}),
}


def call(*operations: tuple[str, float, float], end_s: float = 20.0) -> Call:
    spans, whole = [Event(*span) for span in operations], Event("call", 0.0, end_s)
    return Call(mode=Mode.XLA, traced=3, whole=whole, operations=spans, work=WORK)


def test_operations_that_run_at_once_share_the_time() -> None:
    seconds = shared([Event("a", 0.0, 4.0), Event("b", 2.0, 6.0), Event("a", 3.0, 4.0)])
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
    lost_by_layer = {
        layer_time.layer: (layer_time.kind, layer_time.graph_s, layer_time.xla_s)
        for layer_time in lost(graph, compiled)
    }
    assert lost_by_layer == {
        "deep (DepthwiseConv2D)": (Kind.DEPTHWISE, 1, 7),
        "bn (BatchNormalization)": (Kind.ELEMENTWISE, 0, 3),
    }
    assert next(iter(lost_by_layer)) == "deep (DepthwiseConv2D)"
