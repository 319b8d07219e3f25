"""Records of version 0.1.0 are still read, and give the same figures.

All but these, whose statistics changed on purpose (all of these trials are contaminated, with one
replicate or two): the interval within processes is symmetric about the estimate, with the same mean
half-width, and its standard error takes the exact quantile; throughput and latency of fewer than
three replicates have none; there is no p-value where nothing is known of how processes differ; and
break-even comes from the paired speedup, and is given only where that is faster; and memory was the
process's, which depended on the order of the modes. The column `preliminary` is gone.

`data/previous` was written by commit 4065d55: two trials (one as a sweep's replicates), imported
figures, a sweep's plan, and the caches of that version.
"""

from __future__ import annotations

import csv
import io
import math
import shutil
from pathlib import Path

import pytest
from commands import command
from paths import DATA

RENAMED = {
    f"{side}latency_{bound}ms": f"{side}call_{bound}ms"
    for side in ("", "baseline_")
    for bound in ("", "low_", "high_")
}
"""Columns that have another name now."""

NORMAL_95, NORMAL_90 = 1.959963984540054, 1.6448536269514722

PREVIOUS = DATA / "previous"


@pytest.fixture(params=["with its caches", "from records alone"])
def results(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shutil.copytree(PREVIOUS / "results", tmp_path / "results")
    if request.param == "from records alone":
        shutil.rmtree(tmp_path / "results" / "cache")
    return tmp_path


def key(row: dict[str, str]) -> tuple[str, str, str]:
    return row["trial_id"], row["candidate"], row["baseline"]


def renamed(row: dict[str, str]) -> dict[str, str]:
    return {RENAMED.get(column, column): value for column, value in row.items()}


def same(new: str, old: str) -> bool:
    try:
        return float(new) == pytest.approx(float(old), rel=1e-9)
    except ValueError:
        return new == old


def changed(row: dict[str, str]) -> dict[str, str]:
    """The columns that this version computes otherwise, from those of the old row."""
    if row["origin"] == "imported":
        return {}
    log = math.log(float(row["speedup"]))
    percent = float(row["within_percent"]) * 1.96 / NORMAL_95  # it took 1.96 for the quantile
    within = percent / 100
    between = float(row["between_percent"] or 0) / 100
    bounds = {"within_percent": str(percent)}
    for quantile, suffix in ((NORMAL_95, ""), (NORMAL_90, "_90")):
        half = between / math.sqrt(2) + quantile * within
        bounds |= {
            f"speedup_{side}{suffix}": str(math.exp(log + sign * half))
            for side, sign in (("low", -1), ("high", 1))
        }
    calls = ""
    if row["verdict"] == "faster" and row["compile_s_extra"]:
        call_s = float(row["baseline_call_ms"]) / 1e3
        extra_s = max(0.0, float(row["compile_s_extra"]))
        calls = str(extra_s / call_s / (1 - 1 / float(row["speedup"])))
    levels = (
        f"{side}{figure}"
        for side in ("", "baseline_")
        for figure in ("throughput_low", "throughput_high", "call_low_ms", "call_high_ms")
    )
    nothing = dict.fromkeys((*levels, "p_value", "peak_memory_ratio"), "")
    return {**bounds, **nothing, "break_even_calls": calls}


def test_its_records_and_imports_give_the_rows_that_they_gave(results: Path) -> None:
    for _ in range(2):  # the second time from what the first has kept
        done = command("results", "--all", "--format", "csv", cwd=results)
        assert (done.returncode, done.stderr) == (0, "")
        new = {key(row): row for row in csv.DictReader(io.StringIO(done.stdout))}
        with (PREVIOUS / "rows.csv").open(newline="") as handle:
            old = {key(row): renamed(row) for row in csv.DictReader(handle)}
        assert new.keys() == old.keys()
        assert [
            (*key(row), column, new[key(row)][column], value)
            for row in old.values()
            for column, value in {**row, **changed(row)}.items()
            if column not in ("command", "note", "statistics_version", "preliminary")
            and not same(new[key(row)][column], value)
        ] == []


def test_its_folder_passes_the_check_and_becomes_a_page(results: Path) -> None:
    assert command("check", cwd=results).returncode == 0
    done = command("dashboard", cwd=results)
    assert done.returncode == 0
    assert "42 rows of 2 trials" in done.stdout
