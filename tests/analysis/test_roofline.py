"""The roofline: exact bounds, which side binds, and what is not available."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xla_sweeps.analysis.roofline import roofline
from xla_sweeps.schema.explanation import Peak, Side, Work

PEAKS = (
    Peak(name="matmul float32", unit="FLOP/s", per_s=100e9),
    Peak(name="matmul bfloat16", unit="FLOP/s", per_s=400e9),
    Peak(name="copy", unit="B/s", per_s=8e9),
    Peak(name="read", unit="B/s", per_s=10e9),
)

WORK = Work(
    macs_by_type={"f32": 5_000_000_000},
    weight_bytes=80_000_000,
    input_bytes=15_000_000,
    output_bytes=5_000_000,
)


def test_compute_binds_and_says_what_is_left_to_gain() -> None:
    bounds = roofline(WORK, PEAKS, {"graph": 0.125, "xla": 0.1})
    assert (bounds.compute_s, bounds.memory_s) == (0.1, 0.01)
    assert (bounds.bound_s, bounds.side) == (0.1, Side.COMPUTE)
    graph, xla = bounds.modes
    assert (graph.mode, graph.share, graph.gain) == ("graph", 0.8, 1.25)
    assert (graph.flop_per_s, graph.bytes_per_s) == (80e9, 0.8e9)
    assert (xla.share, xla.gain) == (1.0, 1.0)
    (above,) = roofline(WORK, PEAKS, {"xla": 0.05}).modes
    assert (above.share, above.gain) == (2.0, 1.0)


def test_memory_binds_a_model_without_products_at_the_faster_of_copy_and_read() -> None:
    bounds = roofline(replace(WORK, macs_by_type={}), PEAKS, {"graph": 0.05})
    assert (bounds.compute_s, bounds.bound_s, bounds.side) == (0, 0.01, Side.MEMORY)
    assert bounds.modes[0].share == pytest.approx(0.2)
    assert bounds.modes[0].gain == pytest.approx(5)


def test_each_type_is_bound_by_its_own_peak() -> None:
    mixed = replace(WORK, macs_by_type={"f32": 5_000_000_000, "bf16": 20_000_000_000})
    assert roofline(mixed, PEAKS, {}).compute_s == pytest.approx(0.1 + 0.1)


@pytest.mark.parametrize(
    ("work", "peaks", "reason"),
    [
        (replace(WORK, macs_by_type={"s8": 1}), PEAKS, "no peak of matmul s8"),
        (WORK, PEAKS[2:], "no peak of matmul float32"),
    ],
)
def test_without_a_peak_there_is_no_bound_but_a_reason(
    work: Work, peaks: tuple[Peak, ...], reason: str
) -> None:
    bounds = roofline(work, peaks, {"graph": 0.1})
    assert (bounds.compute_s, bounds.bound_s, bounds.side) == (None, None, None)
    assert bounds.missing["compute_s"] == reason
    assert (bounds.modes[0].share, bounds.modes[0].gain) == (None, None)
    assert bounds.memory_s == 0.01
