"""A mode that was measured alone has a row: its throughput, without a speedup."""

from __future__ import annotations

from pathlib import Path

import pytest
from factories import failed_outcome, make_record

from xla_sweeps.analysis.overview import overview
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report import advice
from xla_sweeps.report.run_content import run_summary
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import row_dict
from xla_sweeps.store import rows, table
from xla_sweeps.store.store import Store

ALONE = make_record({"xla": 0.1})


def test_a_mode_alone_has_a_row_with_its_throughput_and_no_speedup() -> None:
    (row,) = summarize([ALONE]).comparisons
    columns = row_dict(row)
    assert (columns["candidate"], columns["baseline"], columns["headline"]) == ("xla", "", True)
    assert columns["throughput_samples_per_s"] == pytest.approx(40.0)
    assert (columns["status"], columns["verdict"], columns["replicates"]) == ("ok", "none", 1)
    assert columns["speedup"] is columns["baseline_throughput_samples_per_s"] is None
    assert overview([row]).pairs == 0


def test_a_mode_alone_that_fails_says_why_and_names_no_baseline() -> None:
    failed = make_record(
        {"xla": 0.1}, modes={"xla": failed_outcome(Status.UNSUPPORTED_OP, "no kernel for it")}
    )
    (row,) = summarize([failed]).comparisons
    assert (row.status, row.speedup.verdict) == (Status.UNSUPPORTED_OP, Verdict.FAILED)
    assert advice.answer(row) == "XLA cannot run this model: no kernel for it. See the hint."


def test_the_row_of_a_mode_alone_is_kept_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "RACY_NS", -1)
    Store(tmp_path).save(ALONE)
    for _ in range(2):  # read from the record, then from what was kept
        (row,) = table.rows_of(rows.load(tmp_path).table)
        assert row.candidate.throughput_samples_per_s == pytest.approx(40.0)
        assert (row.baseline.mode, row.speedup.verdict) == ("", Verdict.NONE)


def test_the_run_of_a_mode_alone_has_its_throughput_and_no_baseline() -> None:
    keys = run_summary([ALONE], summarize([ALONE]))
    assert keys["throughput"] == pytest.approx(40.0)
    assert (keys["candidate"], keys["status"]) == ("xla", "ok")
    assert not {"speedup", "baseline"} & keys.keys()
