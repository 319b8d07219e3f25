"""The text of a roofline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xla_sweeps.analysis.roofline import roofline
from xla_sweeps.report.terminal.explained_lines import NOT_AVAILABLE, scaled
from xla_sweeps.report.terminal.explanation import explanation_text, verdict
from xla_sweeps.schema.explanation import Explanation, Peak, Roofline, Work

PEAKS = (
    Peak(name="matmul float32", unit="FLOP/s", per_s=100e9, one_core_per_s=51e9, size="2 x 2"),
    Peak(name="copy", unit="B/s", per_s=8e9),
)

WORK = Work(
    macs_by_type={"f32": 5_000_000_000},
    weight_bytes=80_000_000,
    input_bytes=15_000_000,
    output_bytes=5_000,
)


def text_of(bounds: Roofline) -> str:
    """The section on it, with one blank between words."""
    text = explanation_text(Explanation(model="net", device="", roofline=bounds))
    return " ".join(
        text.partition("How fast it could be")[2].partition("\nNot available")[0].split()
    )


def test_one_sentence_says_how_close_graph_mode_is_and_what_xla_can_gain() -> None:
    assert verdict(roofline(WORK, PEAKS, {"graph": 0.1 / 0.71, "xla": 0.2})) == (
        "graph already runs at 71 % of the bound set by compute; XLA can gain at most 1.4×"
    )
    none = replace(WORK, macs_by_type={})
    assert "of the bound set by memory" in verdict(roofline(none, PEAKS, {"graph": 1}))


def test_a_mode_above_the_bound_is_said_to_be_so() -> None:
    sentence = verdict(roofline(WORK, PEAKS, {"graph": 0.08}))
    assert sentence.startswith("graph runs at 125 % of the bound set by compute")
    assert "gain" not in sentence


def test_every_figure_is_shown_with_its_unit() -> None:
    text = text_of(roofline(WORK, PEAKS, {"graph": 0.125}))
    for part in (
        "a call: 5 G multiply-accumulates; at least 95 MB moved: 80 MB weights, 15 MB inputs, "
        "5 kB outputs",
        "bound: 100 ms by compute, 11.9 ms by memory, so compute binds",
        "125 ms 80 % 80 GFLOP/s 760 MB/s graph",
        "100 GFLOP/s 51 GFLOP/s matmul float32 (2 x 2)",
    ):
        assert part in text, text


def test_a_call_of_seconds_is_shown_in_seconds() -> None:
    text = text_of(roofline(WORK, PEAKS, {"graph": 0.125, "xla": 2.084}))
    assert "2.08 s" in text
    assert "e+" not in text


def test_what_is_not_known_is_not_available_and_never_zero() -> None:
    bounds = roofline(replace(WORK, macs_by_type={"s8": 10**9}), PEAKS, {"graph": 0.1})
    text = text_of(bounds)
    assert verdict(bounds) == ""
    assert "– bound by compute: not available: no peak of matmul s8" in text
    assert text.count(NOT_AVAILABLE) == 1 + 1 + 1  # the bound, graph's share, one core's copy
    assert " 0 " not in text


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "0 "), (999, "999 "), (8.366e9, "8.37 G"), (1.5e12, "1.5 T"), (97_300_000, "97.3 M")],
)
def test_numbers_have_three_digits_and_a_decimal_prefix(number: float, written: str) -> None:
    assert scaled(number) == written
