"""The knee of planted throughputs, where a search for it ends, and what is said of both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xla_sweeps.analysis.batch_sizes import Point, is_done, knees_of
from xla_sweeps.report.terminal.batch_sizes import sizes_text
from xla_sweeps.schema.measurement import Status

FIXED_S, SAMPLE_S = 0.007, 0.001
"""Planted: a call of n samples takes FIXED_S + n SAMPLE_S, so half the most at n = 7."""


def planted(size: int, *, label: str = "xla", error: float = 0.01) -> Point:
    call_s = FIXED_S + size * SAMPLE_S
    rate = size / call_s
    return Point(
        label=label,
        batch_size=size,
        status=Status.OK,
        throughput=rate,
        low=rate * (1 - error),
        high=rate * (1 + error),
        latency_ms=1e3 * call_s,
        memory_bytes=2**20 * size,
    )


def failed(size: int, status: Status = Status.OOM_GPU, *, label: str = "xla") -> Point:
    return Point(label=label, batch_size=size, status=status)


SIZES = [2**n for n in range(11)]


def test_the_knee_is_where_the_planted_throughput_is_nearly_its_most() -> None:
    (knee,) = knees_of(map(planted, SIZES))
    assert knee.most_at == 1024
    assert knee.batch_size == 128, "the first size from which on it is 95 % of 1024 / 1.031 s"
    assert (knee.earliest, knee.rises, knee.failed_at) == (128, False, None)


def test_wide_intervals_say_that_the_knee_may_be_earlier() -> None:
    (knee,) = knees_of(planted(size, error=0.1) for size in SIZES)
    assert (knee.batch_size, knee.earliest) == (128, 64)


@pytest.mark.parametrize(
    ("rates", "knee", "said"),
    [
        ((50, 100, 70, 60), (2, 2), "at batch 2) from batch 2 to 2, and slower beyond"),
        ((96, 80, 100, 99), (4, None), "at batch 4) from batch 4 on"),
        ((99, 100, 98, 60), (1, 4), "at batch 2) from batch 1 to 4, and slower beyond"),
        ((50, 100, 94, 99), (2, None), "at batch 2) from batch 2 on, but for batch 4"),
        ((100, 80, 96, 50), (1, 4), "from batch 1 to 4, and slower beyond, but for batch 2"),
    ],
)
def test_the_knee_holds_for_every_size_that_it_names(
    rates: tuple[int, ...], knee: tuple[int, int | None], said: str
) -> None:
    points = [
        replace(planted(size), throughput=rate, low=rate - 1, high=rate + 1)
        for size, rate in zip((1, 2, 4, 8), rates, strict=True)
    ]
    (found,) = knees_of(points)
    assert (found.batch_size, found.until) == knee
    assert said in " ".join(sizes_text(points, title="t", unit="images").split())


def test_a_throughput_that_still_rises_has_no_knee_yet() -> None:
    (knee,) = knees_of(map(planted, [1, 2, 4]))
    assert knee.rises
    assert "still rises at the largest batch size" in sizes_text(
        [*map(planted, [1, 2, 4])], title="t", unit="images"
    )


def test_out_of_memory_in_one_mode_is_an_outcome_and_the_other_goes_on() -> None:
    points = [planted(size, label=label) for size in (64, 128) for label in ("graph", "xla")]
    points += [planted(256, label="graph"), failed(256)]
    assert not is_done(points, to_the_limit=True)
    graph, xla = knees_of(points)
    assert (graph.failed_at, xla.failed_at) == (None, 256)
    text = sizes_text(points, title="MobileNetV2", unit="images")
    assert "Out of memory at batch 256." in " ".join(text.split())
    assert "oom_gpu" in text
    points += [failed(512, label="graph"), failed(512)]
    assert is_done(points, to_the_limit=True), "no mode has memory for more"


@pytest.mark.parametrize(("sizes", "done"), [(SIZES[:5], False), (SIZES[:8], False), (SIZES, True)])
def test_a_search_ends_once_two_sizes_in_a_row_gain_nothing(sizes: list[int], done: bool) -> None:
    points = list(map(planted, sizes))
    assert is_done(points, to_the_limit=False) is done
    assert not is_done(points, to_the_limit=True)


def test_a_mode_that_never_ran_is_named_with_its_reason() -> None:
    points = [planted(1, label="graph"), failed(1, Status.COMPILE_ERROR)]
    (knee,) = knees_of(points)
    assert (knee.label, knee.batch_size, knee.most_at, knee.failed_at) == ("graph", 1, 1, None)
    text = sizes_text(points, title="MobileNetV2", unit="images")
    assert "xla: not measured (compile_error)." in text
    assert max(map(len, text.splitlines())) <= 80
