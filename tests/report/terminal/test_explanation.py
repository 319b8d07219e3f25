"""The text of an explanation: 80 columns, and "not available" in place of what is not known."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from explanations import KNOWN

from xla_sweeps.report.terminal.explained_lines import WIDTH
from xla_sweeps.report.terminal.explanation import explanation_text, ops_text
from xla_sweeps.schema.explanation import (
    Explanation,
    OpList,
    Place,
    State,
    Support,
    Trap,
    TrapName,
)


def test_no_line_is_wider_than_eighty_columns_and_the_worst_comes_first() -> None:
    lines = explanation_text(KNOWN).splitlines()
    assert max(map(len, lines)) <= WIDTH
    text = "\n".join(lines)
    for part in (
        *("in text_0 (Text), net.py:0", "and 2 more places", "1 cluster, about 60 % of"),
        *("345 operations in the graph that graph mode runs", "67 operations (thunks)"),
        *("Here XLA is 2× slower than graph (250 ms against 125 ms a call); most is lost in",),
        "a traced call takes, of one without: graph 0.08×, xla 0.06×",
        "the fastest of 5 (graph) and 3 (XLA) traced calls, ms;",
        "+4.00  deep: depthwise convolution",
    ):
        assert part in text
    assert text.index("! dropped_checks: gone") < text.index("✓ other_shape")


def test_a_bound_beside_other_load_is_marked_with_who_it_was() -> None:
    busy = " ".join(explanation_text(replace(KNOWN, others="others use 1.4 of 2 cores")).split())
    assert "~ contaminated: others use 1.4 of 2 cores." in busy
    assert "~ other load slowed the peaks too" in busy
    assert "contaminated" not in explanation_text(KNOWN)


def test_a_trace_that_slows_a_mode_much_makes_its_losses_doubtful() -> None:
    assert KNOWN.time
    graph, xla = KNOWN.time.modes
    slow = replace(graph, call_s=0.25)
    text = explanation_text(replace(KNOWN, time=replace(KNOWN.time, modes=(slow, xla))))
    assert "! a traced call takes, of one without: graph 2×, xla 0.06×" in text
    assert "the losses below are no measurement" in text
    assert "most is lost in depthwise convolution" in explanation_text(KNOWN).replace("\n  ", " ")
    assert "most is lost" not in text, "the traced calls of XLA are the faster ones"


@pytest.mark.parametrize(("factor", "times"), [(0.95, "119 ms"), (1.05, "131 ms")])
def test_a_difference_too_small_for_a_few_calls_is_not_said_to_be_one(
    factor: float, times: str
) -> None:
    assert KNOWN.roofline
    graph, xla = KNOWN.roofline.modes
    near = replace(KNOWN.roofline, modes=(graph, replace(xla, call_s=graph.call_s * factor)))
    text = " ".join(explanation_text(replace(KNOWN, roofline=near)).split())
    assert f"Here XLA is about as fast as graph ({times} against 125 ms a call)." in text


def test_what_is_not_known_is_not_available_and_never_none() -> None:
    explanation = Explanation(model="net", device="").completed("it died of SIGABRT")
    text = " ".join(explanation_text(explanation).split())
    assert text.count("not available: it died of SIGABRT") == 8 + len(TrapName)
    assert "✓" not in text
    assert not re.search(r"\b0\b", text)


def test_a_tensorflow_that_lists_no_kernels_of_the_device_is_said_to_do_so() -> None:
    explanation = Explanation(
        model="net", device="XLA_GPU_JIT", registered=("XLA_CPU_JIT",), refusals=()
    )
    assert "does not list kernels of XLA_GPU_JIT" in explanation_text(explanation)
    none = Explanation(model="net", device="XLA_CPU_JIT", registered=(), refusals=())
    assert "lists no kernels of XLA" in explanation_text(none)
    assert "✓ no operation" not in explanation_text(none)


def test_control_characters_of_a_model_do_not_reach_the_terminal() -> None:
    place = Place(op="AsString", node="n", layer="\x1b[2Jlayer (Text)")
    trap = Trap(name=TrapName.OTHER_SHAPE, state=State.FOUND, what="x", places=(place,))
    text = explanation_text(Explanation(model="net\x07", device="", traps=(trap,)))
    assert "\x1b" not in text
    assert "\x07" not in text


def test_few_operations_are_shown_with_their_types_and_many_by_name() -> None:
    devices = ("XLA_CPU_JIT", "XLA_GPU_JIT")
    supported = Support(op="Abs", devices=devices, types={"T": ("float32", "int32")})
    refused = Support(op="AsString", devices=(), advice="texts in tf.data")
    ops = OpList(tensorflow="2.21.0", devices=devices, ops=(supported, refused))
    assert "T: float32, int32" in ops_text(ops, ops.ops)
    assert "-> texts in tf.data" in ops_text(ops, ops.ops)
    many = [supported] * 15 + [Support(op="Log", devices=devices[:1])] * 5 + [refused] * 20
    text = ops_text(ops, many)
    assert "15 compile on XLA_CPU_JIT and XLA_GPU_JIT" in text
    assert "5 compile on XLA_CPU_JIT:" in text
    assert "20 do not compile" in text
    assert max(map(len, text.splitlines())) <= WIDTH
