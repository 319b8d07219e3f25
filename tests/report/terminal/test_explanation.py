"""The text of an explanation: 80 columns, and "not available" in place of what is not known."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import explanations
import pytest
from explanations import PEAKS, WORK

from xla_sweeps.analysis.roofline import roofline
from xla_sweeps.report.terminal.explained_lines import NOT_AVAILABLE, WIDTH
from xla_sweeps.report.terminal.explanation import explanation_text, ops_text, verdict
from xla_sweeps.schema.explanation import (
    Break,
    Capture,
    Compilation,
    Explanation,
    OpList,
    Place,
    State,
    Support,
    Trap,
    TrapName,
)

CAPTURE = Capture(
    way="torch.compile(model)",
    graphs=8,
    calls=100,
    breaks=(Break(reason="a reason " * 12, times=7, line="net.py:7"),),
    recompilations={"the same batch": 0, "a batch of 3": 2},
    refused={"a batch of 5": "no such shape"},
    limit=8,
    gave_up=("call (net.py:9)",),
)

KNOWN: Any = explanations.KNOWN


def of_net(device: str = "", **more: Any) -> Explanation:
    return Explanation(model="net", device=device, **more)


def words_of(explanation: Explanation) -> str:
    """The text, with one blank between words; no line is wider than a terminal."""
    text = explanation_text(explanation)
    assert max(map(len, text.splitlines())) <= WIDTH
    return " ".join(text.split())


def test_no_line_is_wider_than_eighty_columns_and_the_worst_comes_first() -> None:
    text = explanation_text(KNOWN)
    assert max(map(len, text.splitlines())) <= WIDTH
    for part in (
        *("in text_0 (Text), net.py:0", "and 2 more places"),
        *("345 operations in the graph that graph mode runs", "67 operations (thunks)"),
        *("Here XLA is 2× slower than graph (250 ms against 125 ms a call); most is lost in",),
        "a traced call takes, of one without: graph 0.08×, xla 0.06×",
        "the fastest of 5 (graph) and 3 (XLA) traced calls, ms;",
        "+4.00  deep: depthwise convolution",
    ):
        assert part in text
    assert text.index("! dropped_checks: gone") < text.index("✓ other_shape")


def test_a_bound_beside_other_load_is_marked_with_who_it_was() -> None:
    busy = words_of(replace(KNOWN, others="others use 1.4 of 2 cores"))
    assert "~ contaminated: others use 1.4 of 2 cores." in busy
    assert "~ other load slowed the peaks too" in busy
    assert "contaminated" not in explanation_text(KNOWN)


def test_a_trace_that_slows_a_mode_much_makes_its_losses_doubtful() -> None:
    graph, xla = KNOWN.time.modes
    slow = replace(graph, call_s=0.25)
    text = explanation_text(replace(KNOWN, time=replace(KNOWN.time, modes=(slow, xla))))
    assert "! a traced call takes, of one without: graph 2×, xla 0.06×" in text
    assert "the losses below are no measurement" in text
    assert "most is lost in depthwise convolution" in explanation_text(KNOWN).replace("\n  ", " ")
    assert "most is lost" not in text, "the traced calls of XLA are the faster ones"


@pytest.mark.parametrize(("factor", "times"), [(0.95, "119 ms"), (1.05, "131 ms")])
def test_a_difference_too_small_for_a_few_calls_is_not_told_as_one(
    factor: float, times: str
) -> None:
    graph, xla = KNOWN.roofline.modes
    near = replace(KNOWN.roofline, modes=(graph, replace(xla, call_s=graph.call_s * factor)))
    text = words_of(replace(KNOWN, roofline=near))
    assert f"Here XLA is about as fast as graph ({times} against 125 ms a call)." in text


def test_what_is_not_known_is_not_available_and_never_none() -> None:
    text = words_of(of_net().complete("it died of SIGABRT"))
    assert text.count("not available: it died of SIGABRT; all else needs this") == 1
    early = of_net(missing={"refusals": "too old"})
    whole = words_of(early.complete("it died of SIGABRT"))
    assert whole.count("not available: it died of SIGABRT") == 6 + len(TrapName)
    assert "too old" in whole
    assert "✓" not in text + whole
    assert not re.search(r"\b0\b", text)


def test_a_tensorflow_that_lists_no_kernels_of_the_device_is_said_to_do_so() -> None:
    other = explanation_text(of_net("XLA_GPU_JIT", registered=("XLA_CPU_JIT",), refusals=()))
    assert "does not list kernels of XLA_GPU_JIT" in other
    none = explanation_text(of_net("XLA_CPU_JIT", registered=(), refusals=()))
    assert "lists no kernels of XLA" in none
    assert "✓ no operation" not in none


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


def test_breaks_limits_and_further_graphs_are_shown_below_the_graphs() -> None:
    text = words_of(of_net(captures=(CAPTURE,), missing={"traps": "no XLA"}))
    for part in (
        "! torch.compile(model): 8 graphs with 100 operations, 7 breaks ! 7 breaks: a reason",
        "net.py:7 ! call (net.py:9) reached the limit of 8 recompilations",
        "further graphs: 0 for the same batch, 2 for a batch of 3",
        "– further graphs for a batch of 5: not available: no such shape",
        "Not available",
        "– silent traps of XLA: not available: no XLA",
    ):
        assert part in text, text
    assert "Silent traps" not in text


def test_one_graph_is_whole_and_a_refusal_has_its_place() -> None:
    whole = Capture(way="torch.export", graphs=1, calls=27)
    refused = Capture(way="torch.export", graphs=None, refusal="no such guard", place="net.py:3")
    text = words_of(of_net(captures=(whole, refused)))
    assert "✓ torch.export: 1 graph with 27 operations, 0 breaks" in text
    assert "! torch.export: no such guard net.py:3" in text


def test_programs_of_each_call_have_their_seconds() -> None:
    seconds = {"trace_s": 0.01, "lower_s": 0.02, "compile_s": 1.5}
    row = Compilation(call="jax.jit, a batch of 3", programs=1, **seconds)
    text = words_of(of_net(compilations=(row,)))
    assert "programs trace lower compile call 1 10 ms 20 ms 1.5 s jax.jit, a batch of 3" in text


def test_a_process_that_dies_before_them_says_that_they_are_not_available() -> None:
    awaited = of_net(captures=None, compilations=None, missing={"roofline": "too old"})
    text = words_of(awaited.complete("SIGABRT"))
    assert "what is captured as graphs: not available: SIGABRT" in text
    assert "what each call compiles: not available: SIGABRT" in text
    assert "captured as graphs" not in words_of(KNOWN.complete("SIGABRT"))


def test_one_sentence_says_how_close_graph_mode_is_and_what_xla_can_gain() -> None:
    assert verdict(roofline(WORK, PEAKS, {"graph": 0.1 / 0.71, "xla": 0.2})) == (
        "graph already runs at 71 % of the bound set by compute; XLA can gain at most 1.41×"
    )
    none = replace(WORK, macs_by_type={})
    assert "of the bound set by memory" in verdict(roofline(none, PEAKS, {"graph": 1}))
    above = verdict(roofline(WORK, PEAKS, {"graph": 0.08}))
    assert above.startswith("graph runs at 125 % of the bound set by compute")
    assert "gain" not in above


def test_every_figure_is_shown_with_its_unit() -> None:
    bounds = roofline(WORK, PEAKS, {"graph": 0.125, "xla": 2.084})
    text = words_of(of_net(roofline=bounds))
    for part in (
        "a call: 5 G multiply-accumulates; at least 95 MB moved: 80 MB weights, 15 MB inputs, "
        "5 kB outputs",
        "bound: 100 ms by compute, 11.9 ms by memory, so compute binds",
        "125 ms 80 % 80 GFLOP/s 760 MB/s graph",
        "2.08 s",
        "100 GFLOP/s 51 GFLOP/s matmul float32 (2 x 2)",
    ):
        assert part in text, text


def test_a_bound_that_is_not_known_is_not_available_and_never_zero() -> None:
    bounds = roofline(replace(WORK, macs_by_type={"s8": 10**9}), PEAKS, {"graph": 0.1})
    text = words_of(of_net(roofline=bounds)).partition("Not av")[0]
    assert verdict(bounds) == ""
    assert "– bound by compute: not available: no peak of matmul s8" in text
    assert text.count(NOT_AVAILABLE) == 1 + 1 + 1  # the bound, graph's share, one core's copy
    assert " 0 " not in text


def test_fusions_too_small_for_megabytes_are_not_listed() -> None:
    (first, *_) = KNOWN.program.largest
    tiny = replace(first, read_bytes=64, written_bytes=64)
    small = replace(KNOWN.program, largest=(tiny,) * 10, read_bytes=128, written_bytes=64)
    text = words_of(replace(KNOWN, program=small))
    assert "one call must read 128 B and write 64 B" in text
    assert "0.00" not in text.partition("one call must read")[2].partition("How fast")[0]
    assert "the fusions that read and write most" not in text
    assert "the fusions that read and write most" in words_of(KNOWN)
