"""The content of a W&B run: its history and its summary."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from changed_rows import with_columns
from factories import failed_outcome, full, make_outcome, make_record
from wandb_runs import FIRST, SUMMARY

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report.run_content import SUMMARY_KEYS, history_rows, result_point, run_summary
from xla_sweeps.schema.measurement import Load, Status
from xla_sweeps.schema.record import GpuSpan


def test_the_summary_has_the_published_studys_keys_too() -> None:
    keys = run_summary([FIRST], SUMMARY)
    assert keys["Throughput (samples/sec)"] == keys["throughput"] == keys["throughput_xla"]
    assert keys["Num parameters (million)"] == keys["params_million"] == pytest.approx(25.636712)
    assert keys["FLOPs (giga)"] == keys["gmacs"] == pytest.approx(3.858)
    assert keys["speedup_percent"] == pytest.approx(100 * (keys["speedup"] - 1))
    assert keys["speedup_vs_eager"] == pytest.approx(4.0, rel=0.02)
    assert keys["verdict"] == "faster"
    bounds, rates = ("speedup_low", "speedup_high"), ("throughput_eager", "throughput_graph")
    for name in (*bounds, *rates, "absolute_speedup", "compile_s"):
        assert isinstance(keys[name], float), name


def test_the_summary_tells_the_speedup_of_single_calls_from_that_of_throughput() -> None:
    single = {"latency_speedup": 1.25, "latency_speedup_low": 1.2, "latency_speedup_high": 1.3}
    rows = tuple(with_columns(row, **single) for row in SUMMARY.comparisons)
    keys = run_summary([FIRST], replace(SUMMARY, comparisons=rows))
    assert keys["speedup"] != keys["latency_speedup"]
    assert {name: keys[name] for name in single} == single
    assert single.keys() <= set(SUMMARY_KEYS), "else an outdated one would stay"


def test_the_mean_of_the_logged_logarithms_is_the_geometric_mean() -> None:
    """W&B's panels take arithmetic means: of 2× and ½× that is 1.25×, of their logarithms 1×."""
    summaries = []
    for xla_s in (0.1, 0.4):
        records = [make_record({"graph": 0.2, "xla": xla_s})]
        summaries.append(run_summary(records, summarize(records)))
    assert [keys["speedup_log2"] for keys in summaries] == pytest.approx([1.0, -1.0])
    assert sum(keys["speedup_log2"] for keys in summaries) == pytest.approx(0.0)
    assert "speedup_log2" in SUMMARY_KEYS, "else an outdated one would stay"
    assert result_point(summaries[0])["result/speedup_log2"] == summaries[0]["speedup_log2"]


def test_a_run_without_a_speedup_still_has_its_status_and_verdict() -> None:
    modes = {"graph": make_outcome(0.2), "xla": failed_outcome(Status.UNSUPPORTED_OP)}
    record = make_record({"graph": 0.2}, modes=modes)
    keys = run_summary([record], summarize([record]))
    assert keys["verdict"] == "failed"
    assert not {"speedup", "speedup_log2"} & keys.keys()
    assert run_summary([], None)["status"] == "interrupted"


def test_a_round_without_the_candidate_has_no_speedup_of_its_own() -> None:
    record = make_record({"eager": 0.4, "graph": 0.2})
    rows = history_rows(0, record.rounds, batch_size=4, modes=("eager", "graph", "xla"))
    assert all("speedup_round" not in row for row in rows)
    assert rows[0]["graph/call_ms"] == pytest.approx(200)
    assert rows[0]["eager/throughput"] == pytest.approx(10)


def test_the_summary_holds_the_latencies_of_the_candidate() -> None:
    keys = run_summary([FIRST], SUMMARY)
    candidate = SUMMARY.comparisons[0].candidate
    assert keys["latency_p50_ms"] == candidate.latency_p50_ms == pytest.approx(100)
    assert keys["latency_p90_ms"] == candidate.latency_p90_ms


def test_the_summary_has_the_extremes_of_power_clock_and_foreign_cores() -> None:
    assert not any(name.endswith("_max") for name in run_summary([FIRST], SUMMARY))
    record = full(FIRST)
    rounds = tuple(
        replace(measured, load=Load(foreign_cores=cores, steal_share=0, pressure_share=0))
        for measured, cores in zip(record.rounds, (0.5, 0.0, 1.5), strict=False)
    )
    spans = (
        GpuSpan(rounds=(0, 1), elapsed_s=1.0, watts=90.0, sm_mhz=1400.0),
        GpuSpan(rounds=(2, 2), elapsed_s=1.0, watts=250.0),
    )
    hot = replace(record, rounds=rounds, gpu=spans)
    keys = run_summary([hot], SUMMARY)
    assert {name: value for name, value in keys.items() if name[-4:] in ("_min", "_max")} == {
        **{"foreign_cores_min": 0.0, "foreign_cores_max": 1.5},
        **{"gpu_watts_min": 90.0, "gpu_watts_max": 250.0},
        **{"gpu_mhz_min": 1400.0, "gpu_mhz_max": 1400.0},
    }
    assert {f"gpu_watts_{end}" for end in ("min", "max")} <= set(SUMMARY_KEYS)
    rows = history_rows(0, hot.rounds, batch_size=4, modes=("graph", "xla"), gpu=hot.gpu)
    assert [row["gpu_watts"] for row in rows] == [90.0, 90.0, 250.0]
    assert "gpu_mhz" not in rows[2]


def test_the_status_is_the_headlines_or_that_the_trial_was_stopped() -> None:
    stopped = replace(FIRST, replicate=1, status=Status.INTERRUPTED)
    assert run_summary([FIRST], summarize([FIRST]))["status"] == "ok"
    assert run_summary([FIRST, stopped], summarize([FIRST, stopped]))["status"] == "interrupted"
    wrong = replace(FIRST, modes={**FIRST.modes, "xla": make_outcome(status=Status.WRONG_RESULT)})
    assert run_summary([wrong], summarize([wrong]))["status"] == "wrong_result"


def test_only_finite_numbers_are_logged() -> None:
    row = with_columns(SUMMARY.comparisons[0], break_even_calls=math.inf, speedup=math.nan)
    keys = run_summary([FIRST], replace(SUMMARY, comparisons=(row,)))
    assert "break_even_calls" not in keys
    assert not {"speedup", "speedup_log2"} & keys.keys()
    assert all(math.isfinite(value) for value in keys.values() if isinstance(value, float))
