"""Records to rows and verdicts: exact values without noise, properties with noise."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from factories import MODEL, change_blocks, failed_outcome, make_outcome, make_record
from headline_rows import TIMES, headline
from hypothesis import given, settings
from hypothesis import strategies as st
from launch_queues import LaunchQueue

from xla_sweeps.analysis.summary import decomposition, summarize
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Flag, Flagged, Status
from xla_sweeps.schema.row import row_dict
from xla_sweeps.worker import timing


def test_without_noise_every_figure_is_exact() -> None:
    row = headline([make_record(TIMES)])
    assert (row.candidate.mode, row.baseline.mode, row.headline) == ("xla", "graph", True)
    reach = math.exp(4.302653 * 0.015)  # what is assumed of processes
    assert (row.speedup.value, row.speedup.low, row.speedup.high) == pytest.approx(
        (2.0, 2.0 / reach, 2.0 * reach), rel=1e-4
    )
    assert row.speedup.percent == pytest.approx(100.0)
    assert row.candidate.throughput_samples_per_s == pytest.approx(40.0)
    assert row.baseline.throughput_samples_per_s == pytest.approx(20.0)
    assert row.speedup.absolute_samples_per_s == pytest.approx(20.0)
    assert (row.candidate.call_ms, row.baseline.call_ms) == pytest.approx((100.0, 200.0))
    assert row.speedup.verdict is Verdict.FASTER
    assert (row.speedup.replicates, row.speedup.rounds) == (1, 12)
    assert row.status is Status.OK


def test_eager_to_xla_is_never_the_headline_where_graph_is_measured() -> None:
    rows = summarize([make_record(TIMES)]).comparisons
    assert [(row.baseline.mode, row.candidate.mode, row.headline) for row in rows] == [
        ("graph", "xla", True),
        ("eager", "graph", False),
        ("eager", "xla", False),
    ]
    assert [row.speedup.value for row in rows] == pytest.approx([2.0, 2.0, 4.0])


def test_break_even_is_the_extra_compile_time_over_the_time_saved_a_call() -> None:
    modes = {
        "graph": make_outcome(0.2, compile_s=0.3, trace_s=0.5),
        "xla": make_outcome(0.1, compile_s=12.0, trace_s=0.7),
    }
    row = headline([make_record({"graph": 0.2, "xla": 0.1}, modes=modes)])
    extra = (0.7 + 12.1) - (0.5 + 0.5)
    assert row.speedup.compile_s_extra == pytest.approx(extra)
    assert row.speedup.break_even_calls == pytest.approx(extra / 0.1)


def test_compile_times_beside_other_trials_give_no_break_even_and_those_alone_do() -> None:
    modes = {
        label: make_outcome(seconds, compile_s=compile_s, trace_s=0.5)
        for label, seconds, compile_s in (("graph", 0.2, 0.3), ("xla", 0.1, 12.0))
    }
    times, ahead = {"graph": 0.2, "xla": 0.1}, (Flagged(Flag.COMPILED_AHEAD),)
    slow = {label: replace(outcome, compile_s=60.0) for label, outcome in modes.items()}
    beside = make_record(times, modes=slow, flags=ahead)
    row = headline([beside])
    assert row.speedup.verdict is Verdict.FASTER
    assert (row.speedup.compile_s_extra, row.speedup.break_even_calls) == (None, None)
    assert row.candidate.compile_s is not None, "what it took is shown"
    assert "compiled_ahead" in row.flags
    both = headline([beside, make_record(times, modes=modes, replicate=1)])
    alone = headline([make_record(times, modes=modes)])
    assert both.speedup.compile_s_extra == pytest.approx(alone.speedup.compile_s_extra)


@pytest.mark.parametrize("ends", [True, False])
def test_an_effort_that_gives_up_raises_no_flag_for_it(ends: bool) -> None:
    record = make_record(flags=(Flagged(Flag.NOT_CONVERGED), Flagged(Flag.DRIFT)))
    effort = replace(record.trial.effort, hopeless_ends=ends)
    row = headline([replace(record, trial=replace(record.trial, effort=effort))])
    assert row.flags == (("drift",) if ends else ("drift", "not_converged"))


@pytest.mark.parametrize("speedup", [0.9, 1.0, 1.02])
def test_nothing_breaks_even_unless_it_is_known_to_be_faster(speedup: float) -> None:
    times = {"graph": 0.2, "xla": 0.2 / speedup}
    columns = headline([make_record(times, noise=0.03, seed=2)]).speedup
    assert columns.verdict is not Verdict.FASTER
    assert columns.compile_s_extra is not None
    assert columns.break_even_calls is columns.break_even_low is columns.break_even_high is None


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.integers(0, 1000))
def test_swapping_baseline_and_candidate_inverts_the_speedup(
    first: float, second: float, seed: int
) -> None:
    record = make_record({"graph": first, "xla": second}, noise=0.05, seed=seed)
    forward = headline([record])
    backward = headline([make_record({"graph": second, "xla": first}, noise=0.0, seed=seed)])
    assert forward.speedup.value is not None
    assert backward.speedup.value == pytest.approx(second / first)
    other = {"graph": "xla", "xla": "graph"}
    renamed = change_blocks(record.rounds, lambda block: replace(block, mode=other[block.mode]))
    swapped = headline([replace(record, rounds=renamed)])
    assert swapped.speedup.value == pytest.approx(1 / forward.speedup.value)
    assert swapped.speedup.low == pytest.approx(1 / (forward.speedup.high or math.nan))


def test_the_order_of_records_does_not_matter() -> None:
    records = [make_record(TIMES, noise=0.02, seed=seed, replicate=seed) for seed in range(4)]
    assert summarize(records) == summarize(records[::-1])


@pytest.mark.parametrize("replicates", [1, 2, 3])
def test_every_figure_has_an_interval_from_the_first_replicate_on(replicates: int) -> None:
    records = [
        make_record(
            noise=0.02,
            seed=number,
            replicate=number,
            modes={
                label: make_outcome(
                    0.1, steady_memory_bytes=100 + number, copies_s={"input": 1e-3, "output": 1e-4}
                )
                for label in ("graph", "xla")
            },
        )
        for number in range(replicates)
    ]
    row = headline(records)
    for value, low, high in (
        ("compile_s_extra", "compile_s_extra_low", "compile_s_extra_high"),
        ("peak_memory_ratio", "peak_memory_ratio_low", "peak_memory_ratio_high"),
    ):
        ends = [getattr(row.speedup, name) for name in (low, value, high)]
        assert ends == sorted(ends), value
        assert ends[0] < ends[2], value
    for mode in summarize(records).modes:
        figures = mode.columns
        assert figures.throughput_samples_per_s
        assert (figures.throughput_low or 0) < figures.throughput_samples_per_s
        assert figures.throughput_samples_per_s < (figures.throughput_high or 0)
        for name in ("call", "latency_p50", "latency_p90", "copy_input", "copy_output"):
            low, value, high = (
                getattr(figures, f"{name}{end}") for end in ("_low_ms", "_ms", "_high_ms")
            )
            assert low < value < high, name


def test_a_row_keeps_the_estimates_behind_its_speedup() -> None:
    records = [
        make_record({"graph": 0.2, "xla": 0.1 + 0.001 * replicate}, replicate=replicate, noise=0.01)
        for replicate in range(3)
    ]
    speedup = summarize(records).comparisons[0].speedup
    logs, errors = ([*map(float, text.split())] for text in (speedup.estimates, speedup.errors))
    assert len(logs) == len(errors) == 3
    assert math.exp(statistics.fmean(logs)) == speedup.value
    assert 100 * statistics.stdev(logs) == speedup.between_percent
    assert 100 * statistics.fmean(errors) == speedup.within_percent
    failed = {"graph": make_outcome(0.2), "xla": failed_outcome(Status.UNSUPPORTED_OP)}
    assert summarize([make_record(modes=failed)]).comparisons[0].speedup.estimates == ""


def test_the_time_of_a_call_in_blocks_and_the_latency_of_single_calls_are_two_things() -> None:
    latencies_s = tuple(0.001 * number for number in range(101, 202))
    modes = {"graph": make_outcome(0.2), "xla": make_outcome(0.1, latencies_s=latencies_s)}
    row = headline([make_record(TIMES, modes=modes)])
    assert row.candidate.call_ms == pytest.approx(100.0)
    assert (row.candidate.latency_p50_ms, row.candidate.latency_p90_ms) == pytest.approx((151, 191))
    assert row.baseline.latency_p90_ms == pytest.approx(200.0)


def test_p99_needs_a_thousand_calls() -> None:
    summary = summarize([make_record()])
    assert summary.modes[0].columns.latency_p50_ms == pytest.approx(200.0)
    assert summary.modes[0].columns.latency_p99_ms is None
    modes = {"graph": make_outcome(0.2, latencies_s=(0.2,) * 1000), "xla": make_outcome(0.1)}
    (slow, _) = summarize([make_record(modes=modes)]).modes
    assert slow.columns.latency_p99_ms == pytest.approx(200.0)


def test_memory_is_that_of_steady_calls_and_unknown_in_older_records() -> None:
    modes = {
        "graph": make_outcome(0.2, steady_memory_bytes=100),
        "xla": make_outcome(0.1, steady_memory_bytes=150),
    }
    summary = summarize([make_record(modes=modes)])
    assert [mode.steady_memory_bytes for mode in summary.modes] == [100, 150]
    assert summary.comparisons[0].speedup.peak_memory_ratio == 1.5
    older = {label: replace(mode, steady_memory_bytes=None) for label, mode in modes.items()}
    summary = summarize([make_record(modes=older)])
    assert [mode.steady_memory_bytes for mode in summary.modes] == [None, None]
    assert summary.comparisons[0].speedup.peak_memory_ratio is None


GPU = {"kind": "gpu", "name": "A GPU"}


def test_only_accelerators_are_flagged_as_host_bound() -> None:
    modes = {
        "graph": make_outcome(0.2, latency_enqueue_ns=(10_000_000,) * 20),
        "xla": make_outcome(0.1, latency_enqueue_ns=(95_000_000,) * 20),
    }
    assert headline([make_record(modes=modes, device=GPU)]).speedup.host_bound
    assert not headline([make_record(modes=modes)]).speedup.host_bound


@pytest.mark.parametrize(
    ("slower", "flags"), [(1.0, ()), (1.002, ()), (1.2, ("sustained_differs:xla",))]
)
def test_a_mode_that_slows_down_alone_is_flagged_beside_the_sustained_speedup(
    slower: float, flags: tuple[str, ...]
) -> None:
    """Its first half at full speed, as a GPU before its power limit."""
    records = [
        make_record(
            modes={
                "graph": make_outcome(0.2, sustained_call_s=(0.2,) * 100),
                "xla": make_outcome(
                    0.1, sustained_call_s=(0.1,) * 50 + (0.1 * slower * (1 + replicate / 1e4),) * 50
                ),
            },
            replicate=replicate,
            device=GPU,
        )
        for replicate in range(3)
    ]
    row = headline(records)
    assert row.speedup.sustained == pytest.approx(2 / slower, rel=1e-3)
    assert row.flags == flags
    assert bool(headline(records[:1]).flags) == (slower > 1.1)  # past what is assumed of processes
    assert headline([make_record()]).speedup.sustained is None


def test_the_steps_from_eager_are_shown_with_their_intervals() -> None:
    steps = decomposition(summarize([make_record(TIMES)]))
    assert {name: step.value for name, step in steps.items()} == pytest.approx(
        {"eager -> graph": 2.0, "graph -> xla": 2.0}
    )


@pytest.mark.parametrize(
    ("macs", "note", "at_least"),
    [(5, "", False), (5, "at least: …", True), (None, "not counted", False)],
)
def test_a_row_says_whether_multiply_accumulates_are_only_a_lower_bound(
    macs: int | None, note: str, at_least: bool
) -> None:
    model = replace(MODEL, macs=macs, macs_note=note)
    (row,) = summarize([make_record(model=model)]).comparisons
    assert (row.trial.macs, row.trial.macs_at_least) == (macs, at_least)


def test_a_row_flags_an_eager_mode_that_is_a_graph_and_a_model_that_is_a_replica() -> None:
    model = replace(MODEL, eager_is_graph=True, replica_of="https://tfhub.dev/x/1")
    (row,) = summarize([make_record(model=model)]).comparisons
    assert row.trial.eager_is_graph is row_dict(row)["eager_is_graph"] is True
    assert (row.trial.replica_of, row.failure.mode) == ("https://tfhub.dev/x/1", "")


def test_the_precision_of_a_row_is_the_share_of_the_types_that_are_multiplied() -> None:
    def precision(**macs_by_type: int) -> str:
        model = replace(MODEL, macs_by_type=macs_by_type)
        return headline([make_record(model=model)]).trial.effective_precision

    assert precision(f32=7) == "f32"
    assert precision(f32=25, bf16=975) == "bf16 97.5 %, f32 2.5 %"
    assert precision() == ""


@pytest.mark.parametrize(("launch_ns", "share"), [(3_000, 0.30), (9_500, 0.95), (20_000, 1.0)])
def test_a_full_launch_queue_does_not_make_a_mode_host_bound(launch_ns: int, share: float) -> None:
    device = LaunchQueue(np.full(100, launch_ns / 1e9), np.full(100, 1e-5))
    block = timing.measure_block(device, "xla", 100, clock=device.clock)  # about 100 ms
    assert block.enqueue_ns > 0.85 * block.elapsed_ns  # which says nothing
    timed = timing.settled_block(
        device, "xla", 100, settle=True, clock=device.clock, first=0, singles=21
    )
    outcome = make_outcome(
        block.call_s,
        latencies_s=tuple(elapsed_ns / 1e9 for elapsed_ns in timed.single_ns),
        latency_enqueue_ns=timed.single_enqueue_ns,
    )
    record = make_record({"xla": block.call_s}, modes={"xla": outcome}, device=GPU)
    index = summarize([record]).modes[0].host_bound_index
    assert index == pytest.approx(share, abs=0.02)
