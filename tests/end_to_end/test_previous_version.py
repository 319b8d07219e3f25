"""Records of version 0.1.0 are still read, and give the same figures.

All but `CHANGED`, whose statistics changed on purpose: every figure has an interval by one rule,
the mean of times is that of their logarithms, the error of rounds takes the exact quantile, and
memory was the process's, which depended on the order of the modes. The column `preliminary` is
gone.

`data/previous` was written by commit 4065d55: two trials (one as a sweep's replicates), imported
figures, a sweep's plan, and the caches of that version.
"""

from __future__ import annotations

import csv
import io
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

CHANGED = {
    *(
        f"{side}{figure}"
        for side in ("", "baseline_")
        for figure in ("throughput_low", "throughput_high", "call_low_ms", "call_high_ms")
    ),
    *(f"speedup_{bound}" for bound in ("low", "high", "low_90", "high_90")),
    *("p_value", "within_percent", "cv_percent", "compile_s_extra", "break_even_calls"),
    *("peak_memory_ratio", "absolute_speedup_samples_per_s"),
}

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
            for column, value in row.items()
            if column not in ("command", "note", "statistics_version")
            and not (column in CHANGED and row["origin"] == "measured")
            and not (column == "verdict" and row["origin"] == "imported")
            and not (column == "flags" and {*new[key(row)][column].split()} <= {*value.split()})
            and not (column == "verdict" and new[key(row)][column] == "ambiguous")  # wider now
            and not (column == "preliminary" or same(new[key(row)][column], value))
        ] == []
        assert {row["verdict"] for row in new.values() if row["origin"] == "imported"} == {"none"}
        for row in new.values():
            if row["origin"] == "measured":
                low, high = float(row["speedup_low"]), float(row["speedup_high"])
                assert low < float(row["speedup"]) < high


def test_its_folder_passes_the_check_and_becomes_a_page(results: Path) -> None:
    assert command("check", cwd=results).returncode == 0
    done = command("dashboard", cwd=results)
    assert done.returncode == 0
    assert "42 rows of 2 trials" in done.stdout
